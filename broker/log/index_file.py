"""The file of one index, which grows with its segment and is verified by its length and checksum."""

from __future__ import annotations

import msgspec
from crc32c import crc32c

from eagleray.broker.filesystem import File, FileSystem, write_fully


class IndexPrefix(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The beginning of an index's file: how long it is, and the checksum of its bytes."""

    size_bytes: int = 0
    checksum: int = 0

    def of(self, data: bytes) -> bytes | None:
        """Return the part of a file's bytes that this covers; None where they differ."""
        part = data[: self.size_bytes]
        return part if len(part) == self.size_bytes and crc32c(part) == self.checksum else None


class IndexFile:
    """The file of one index.

    Owns: the file, from which it expects only what it has written or was told of. The next write truncates what lies
    behind that, because a process died in the middle of a write or the write failed, and writes again what the failed
    one should have.
    """

    __slots__ = ("_file_system", "_path", "_unwritten", "written")

    def __init__(self, file_system: FileSystem, path: str, written: IndexPrefix) -> None:
        self._file_system = file_system
        self._path = path
        self._unwritten = b""
        self.written = written

    def append(self, data: bytes, *, flush: bool, is_optional: bool = False) -> None:
        """Write entries behind the others; with `flush`, all of them are on stable storage when this returns.

        A flush also creates the file where there is nothing to write, unless it is optional.
        """
        self._unwritten += data
        if not self._unwritten and (not flush or (is_optional and not self._file_system.exists(self._path))):
            return
        file = self._file_system.open(self._path)
        try:
            excess_bytes = file.size() - self.written.size_bytes
            if excess_bytes < 0:
                raise OSError(f"{self._path}: the disk has lost the last {-excess_bytes} bytes that were written")
            if excess_bytes:
                file.truncate(self.written.size_bytes)
            if self._unwritten:
                self._write_to(file)
            if flush:
                file.flush()
        finally:
            file.close()

    def _write_to(self, file: File) -> None:
        data = self._unwritten
        write_fully(file, (data,), len(data))
        self._unwritten = b""
        written = self.written
        self.written = IndexPrefix(written.size_bytes + len(data), crc32c(data, written.checksum))
