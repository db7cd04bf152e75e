"""The index files of a segment, and the one beside them with their checksums.

Kafka's index files have no checksums, and most wrong bits in them give another valid index: records of an aborted
transaction become visible, a search by time passes over records, a segment looks older than it is. So when a segment is
closed, `<base>.checksums` takes the length and the checksum of each index. An index that does not agree with it is
rebuilt from the batches.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from crc32c import crc32c

from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.filesystem import FileSystem, write_atomically
from eagleray.broker.log import names
from eagleray.broker.log.index_file import IndexFile, IndexPrefix

_VERSION = 1
_CHECKSUM_BYTES = 4


class IndexChecksums(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the three indexes of a segment were when they were complete."""

    version: int = _VERSION
    prefixes: dict[str, IndexPrefix]
    """By the suffixes of the files' names."""

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        body = msgspec.msgpack.encode(self)
        return crc32c(body).to_bytes(_CHECKSUM_BYTES, "big") + body

    @classmethod
    def decode(cls, data: bytes) -> IndexChecksums | None:
        """Read the file; None where it is damaged or of another version, and the indexes have to be built anew."""
        body = data[_CHECKSUM_BYTES:]
        if data[:_CHECKSUM_BYTES] != crc32c(body).to_bytes(_CHECKSUM_BYTES, "big"):
            return None
        try:
            checksums = msgspec.msgpack.decode(body, type=cls)
        except CANNOT_DECODE:
            return None
        return checksums if checksums.version == _VERSION and set(checksums.prefixes) == _INDEXES else None


_INDEXES = set(names.INDEX_SUFFIXES)


class KnownPart(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The indexes of a segment, and how much of them was in their files, at an earlier end of the segment."""

    offset_index: IndexPrefix
    time_index: IndexPrefix
    transaction_index: IndexPrefix
    bytes_since_index_entry: int
    first_timestamp_ms: int
    largest_timestamp_ms: int
    offset_of_largest_timestamp: int

    @property
    def prefixes(self) -> dict[str, IndexPrefix]:
        """What was in each of the files."""
        return {
            names.OFFSET_INDEX_SUFFIX: self.offset_index,
            names.TIME_INDEX_SUFFIX: self.time_index,
            names.TRANSACTION_INDEX_SUFFIX: self.transaction_index,
        }


class IndexFiles:
    """The index files of one segment.

    Owns: the files of `names.INDEX_FILE_SUFFIXES`. It trusts only what it has written itself, or what their checksums
    or a bookmark say that they hold; anything else counts as missing.
    """

    __slots__ = ("_file_system", "_files", "_name_ending", "_start_of_path")

    def __init__(self, file_system: FileSystem, start_of_path: str, name_ending: str) -> None:
        self._file_system = file_system
        self._start_of_path = start_of_path
        self._name_ending = name_ending
        self._files: dict[str, IndexFile] = {}

    def load(self) -> bool:
        """Go by the checksums of the closed segment; False where there are none, or they cannot be read."""
        checksums = IndexChecksums.decode(self._read(names.CHECKSUMS_SUFFIX))
        if checksums is None:
            return False
        self.expect(checksums.prefixes)
        return True

    def expect(self, prefixes: Mapping[str, IndexPrefix]) -> None:
        """Go by this knowledge of what the files hold."""
        for suffix, prefix in prefixes.items():
            self._files[suffix] = IndexFile(self._file_system, self._path(suffix), prefix)

    def read(self, suffix: str) -> bytes | None:
        """Return what is known to be in a file; None where it holds something else."""
        return self._file(suffix).written.of(self._read(suffix))

    def read_whole(self, suffix: str) -> bytes | None:
        """Return a file, if all of it is known: checksums of another segment may know a part, which is nothing."""
        data = self._read(suffix)
        return data if self._file(suffix).written.of(data) == data else None

    def has(self, suffix: str) -> bool:
        """Whether there is a file."""
        return self._file_system.exists(self._path(suffix))

    def append(self, suffix: str, data: bytes, *, flush: bool) -> IndexPrefix:
        """Write entries behind the others, and return what the file holds then."""
        file = self._file(suffix)
        # Where no transaction was aborted there is no file of them, as in Kafka.
        file.append(data, flush=flush, is_optional=suffix == names.TRANSACTION_INDEX_SUFFIX)
        return file.written

    def write_checksums(self) -> None:
        """Note what the files hold, now that they are complete; their names are on stable storage then, too."""
        prefixes = {suffix: self._file(suffix).written for suffix in names.INDEX_SUFFIXES}
        write_atomically(
            self._file_system, self._path(names.CHECKSUMS_SUFFIX), IndexChecksums(prefixes=prefixes).encode()
        )

    def remove(self, *suffixes: str) -> None:
        """Remove files that no longer tell the truth."""
        for suffix in suffixes:
            self._files.pop(suffix, None)
            self._file_system.remove(self._path(suffix))

    def _path(self, suffix: str) -> str:
        return self._start_of_path + suffix + self._name_ending

    def _read(self, suffix: str) -> bytes:
        try:
            return self._file_system.read_bytes(self._path(suffix))
        except FileNotFoundError:
            return b""

    def _file(self, suffix: str) -> IndexFile:
        file = self._files.get(suffix)
        if file is None:
            file = self._files[suffix] = IndexFile(self._file_system, self._path(suffix), IndexPrefix())
        return file
