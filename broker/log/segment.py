"""A log segment: one file of batches, and its offset, time and transaction indexes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from eagleray.broker.filesystem import FileSystem, FlushFailed, write_fully
from eagleray.broker.log import names
from eagleray.broker.log.batch_locations import MAX_RELATIVE_OFFSET, BatchLocation, batch_locations
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.index_files import IndexFiles, KnownPart
from eagleray.broker.log.offset_index import OffsetIndex
from eagleray.broker.log.saved_indexes import read_indexes
from eagleray.broker.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from eagleray.broker.log.time_index import TimeIndex
from eagleray.broker.log.transaction_index import TransactionIndex
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import HEADER_BYTES, BatchHeader, BytesLike, decode_header

if TYPE_CHECKING:
    from eagleray.broker.filesystem import File

NO_TIMESTAMP = -1


def timestamp_of(header: BatchHeader) -> int:
    """Return the timestamp that a batch is indexed by; one that compaction has emptied has none."""
    return header.max_timestamp if header.record_count else NO_TIMESTAMP


SegmentState: TypeAlias = tuple[int, int, int, int, int, int, int]


class Segment:
    """A run of a partition's batches, from `base_offset` on, in one file, with three indexes beside it.

    Owns: `<base>.log`, `.index`, `.timeindex`, `.txnindex` and `.checksums`. Persists: batches when `append` returns;
    index entries when `write_indexes` is called, which is before the next segment begins, or, against the death of the
    process alone, when `save_indexes` is called. A missing or damaged index is rebuilt from the batches; the
    transaction index by the log's recovery, which knows the producers. While a compaction writes a segment, its files
    carry a `name_ending` that keeps them apart.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_directory",
        "_file",
        "_file_system",
        "_index_files",
        "_index_interval_bytes",
        "_name_ending",
        "_offset_index",
        "_time_index",
        "base_offset",
        "created_ms",
        "first_timestamp_ms",
        "index_bytes",
        "largest_timestamp_ms",
        "offset_of_largest_timestamp",
        "size_bytes",
        "transaction_index",
        "unmarked_batches",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        created_ms: int,
        name_ending: str = "",
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._name_ending = name_ending
        self.base_offset = base_offset
        self.created_ms = created_ms
        self._file: File = file_system.open(self._path(names.LOG_SUFFIX))
        self.size_bytes = self._file.size()
        self.transaction_index = TransactionIndex()
        self.forget_indexes()

    def forget_indexes(self) -> None:
        """Clear the indexes and what is derived from batches, for a segment that is scanned again."""
        self._offset_index: OffsetIndex | None = OffsetIndex(self.base_offset)
        self._time_index: TimeIndex | None = TimeIndex(self.base_offset)
        self.transaction_index = TransactionIndex()
        self._bytes_since_index_entry = 0
        self.index_bytes = 0
        self.first_timestamp_ms = NO_TIMESTAMP
        self.largest_timestamp_ms = NO_TIMESTAMP
        self.offset_of_largest_timestamp = self.base_offset
        self.unmarked_batches = 0
        self._index_files = self._new_index_files()

    def load_indexes(self) -> bool:
        """Load the indexes from their files, the two large ones on first use; False: scan instead."""
        index_files = self._new_index_files()
        if not index_files.load() or not index_files.has(names.OFFSET_INDEX_SUFFIX):
            return False
        data = index_files.read_whole(names.TRANSACTION_INDEX_SUFFIX)
        transaction_index = None if data is None else TransactionIndex.decode(data)
        if transaction_index is None:
            return False
        self.forget_indexes()
        self.transaction_index, self._index_files = transaction_index, index_files
        self._offset_index = None
        self._time_index = None
        time_index = self.time_index
        # Where the time index had to be rebuilt, its last entry may be older than the last batch.
        if time_index.largest_timestamp_ms > self.largest_timestamp_ms:
            self.largest_timestamp_ms = time_index.largest_timestamp_ms
            self.offset_of_largest_timestamp = time_index.offset_of_largest_timestamp
        first = next(self.headers(), None)
        if first is not None:
            self.first_timestamp_ms = first[1].max_timestamp
        return True

    @property
    def offset_index(self) -> OffsetIndex:
        """The index from offsets to positions, loaded or built on first use."""
        if self._offset_index is None:
            data = self._index_files.read(names.OFFSET_INDEX_SUFFIX)
            index = None if data is None else OffsetIndex.decode(self.base_offset, data)
            if index is not None and index.last_position < self.size_bytes:
                self._offset_index = index
            else:
                self._rebuild_sparse_indexes()
                assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The index from timestamps to offsets, loaded or built on first use."""
        if self._time_index is None:
            data = self._index_files.read(names.TIME_INDEX_SUFFIX)
            self._time_index = None if data is None else TimeIndex.decode(self.base_offset, data)
            if self._time_index is None:
                self._rebuild_sparse_indexes()
                assert self._time_index is not None
        return self._time_index

    def append(self, buffers: Sequence[BytesLike], size_bytes: int) -> None:
        """Write whole batches at the end; after an OSError the file may have some of them, until they are cut off."""
        write_fully(self._file, buffers, size_bytes)
        self.size_bytes += size_bytes

    def state(self) -> SegmentState:
        """Return what `note_batch` changes beside the indexes, for `undo_append`."""
        return (
            self.size_bytes,
            self.first_timestamp_ms,
            self.largest_timestamp_ms,
            self.offset_of_largest_timestamp,
            self.unmarked_batches,
            self.index_bytes,
            self._bytes_since_index_entry,
        )

    def undo_append(self, state: SegmentState, end_offset: int) -> None:
        """Go back to an earlier state, when the log ended at an offset; what a failed write has left is cut off."""
        # A disk that took nothing is not asked to flush.
        if self._file.size() > state[0]:
            self.truncate(state[0])
        (
            self.size_bytes,
            self.first_timestamp_ms,
            self.largest_timestamp_ms,
            self.offset_of_largest_timestamp,
            self.unmarked_batches,
            self.index_bytes,
            self._bytes_since_index_entry,
        ) = state
        for index in (self._offset_index, self._time_index, self.transaction_index):
            if index is not None:
                index.truncate_from(end_offset)

    def forget_written_indexes(self) -> None:
        """Remove the index files, which have more than they should, and have everything written again."""
        for index in self._indexes().values():
            index.forget_written()
        self.remove_index_files()

    def note_batch(self, position: int, size_bytes: int, last_offset: int, timestamp_ms: int) -> None:
        """Index a batch that is, or is about to be, in the file; both the live append and recovery call this."""
        if timestamp_ms > self.largest_timestamp_ms:
            self.largest_timestamp_ms = timestamp_ms
            self.offset_of_largest_timestamp = last_offset
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._add_index_entry(last_offset, position)
            self._bytes_since_index_entry = 0
        elif position == 0:
            self.first_timestamp_ms = timestamp_ms
        self._bytes_since_index_entry += size_bytes
        self.unmarked_batches += 1

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of the file."""
        return self._file.read(position, length)

    def locate(self, offset: int, *, from_position: int = 0) -> BatchLocation | None:
        """Find the first batch that ends at `offset` or behind it; None where the segment ends before."""
        return self._found(lambda: self._locate(offset, from_position))

    def last_location(self) -> BatchLocation | None:
        """Find the last batch of the segment."""
        return self._found(lambda: next(iter(deque(self._indexed_locations(self.offset_index.last_offset), 1)), None))

    def end_offset(self) -> int:
        """Find the offset behind the last batch of the segment, which is its first where it has none."""
        last = self.last_location()
        return self.base_offset if last is None else last.last_offset + 1

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Step over the batches from `position` on: where each begins, and its whole header."""
        for location in batch_locations(self._file, position, self.size_bytes, self._damaged):
            try:
                header = decode_header(self._file.read(location.position, HEADER_BYTES))
            except ProtocolError as error:
                raise self._damaged(location.position) from error
            yield location.position, header

    def batch_bytes(self, location: BatchLocation) -> bytes:
        """Return the bytes of one batch."""
        return self._file.read(location.position, location.size_bytes)

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file; the indexes are then out of date until the segment is scanned again.

        The cut is on stable storage when this returns. Otherwise a loss of power could bring back what was cut, mixed
        with what was written in its place.
        """
        self._file.truncate(size_bytes)
        self.size_bytes = size_bytes
        self.flush()

    def write_indexes(self) -> None:
        """Bring the index files up to date with memory, ending the time index at the largest timestamp.

        They are on stable storage when this returns, because they are not checked again before they are used after a
        crash. Their checksums are written last, so that where these are there, the others are complete.
        """
        if self.largest_timestamp_ms > NO_TIMESTAMP:
            self.time_index.add(self.largest_timestamp_ms, self.offset_of_largest_timestamp)
        for suffix, index in self._indexes().items():
            self._index_files.append(suffix, index.take_unwritten(), flush=True)
        self._index_files.write_checksums()

    def save_indexes(self) -> KnownPart:
        """Write index entries so that they survive the death of the process; return what `resume` needs."""
        written = {
            suffix: self._index_files.append(suffix, index.take_unwritten(), flush=False)
            for suffix, index in self._indexes().items()
        }
        return KnownPart(
            transaction_index=written[names.TRANSACTION_INDEX_SUFFIX],
            time_index=written[names.TIME_INDEX_SUFFIX],
            offset_index=written[names.OFFSET_INDEX_SUFFIX],
            bytes_since_index_entry=self._bytes_since_index_entry,
            first_timestamp_ms=self.first_timestamp_ms,
            largest_timestamp_ms=self.largest_timestamp_ms,
            offset_of_largest_timestamp=self.offset_of_largest_timestamp,
        )

    def resume(self, known: KnownPart, end_position: int) -> bool:
        """Resume with the indexes as they were saved when the segment ended at `end_position`; False: scan instead."""
        index_files = self._new_index_files()
        index_files.expect(known.prefixes)
        saved = read_indexes(index_files, self.base_offset)
        if saved is None or saved[0].last_position >= end_position:
            return False
        self.forget_indexes()
        self._offset_index, self._time_index, self.transaction_index = saved
        self._index_files = index_files
        self.index_bytes = len(saved[0]) * TIME_ENTRY_BYTES
        self._bytes_since_index_entry = known.bytes_since_index_entry
        self.first_timestamp_ms = known.first_timestamp_ms
        self.largest_timestamp_ms = known.largest_timestamp_ms
        self.offset_of_largest_timestamp = known.offset_of_largest_timestamp
        return True

    def remove_index_files(self) -> None:
        """Remove index files that no longer tell the truth."""
        self._index_files.remove(*names.INDEX_FILE_SUFFIXES)

    def flush(self) -> None:
        """Return once the batches are on stable storage."""
        try:
            self._file.flush()
        except OSError as error:
            raise FlushFailed(*error.args) from error

    def handle(self) -> File:
        """Return a handle of the file of batches, which another thread may flush."""
        return self._file.duplicate()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def remove(self) -> None:
        """Remove the segment's files, the log first, and close it: opening removes an index without a log."""
        try:
            self._file_system.remove(self._path(names.LOG_SUFFIX))
            self.remove_index_files()
        finally:
            self.discard()

    def discard(self) -> None:
        """Give the file back, which has no name any more."""
        self._file_system.discard(self._file)

    def remove_noting(self, next_offset: int) -> None:
        """Close the segment and remove its files, but for an empty one that says that all below an offset is deleted.

        It takes no room on the disk, not even for a name: the log gets another one before it is emptied.
        """
        self.close()
        note = names.segment_file(self._directory, next_offset, names.DELETED_SUFFIX)
        self._file_system.rename(self._path(names.LOG_SUFFIX), note)
        self._file_system.flush_directory(self._directory)
        file = self._file_system.open(note)
        try:
            file.truncate(0)
        finally:
            file.close()
        self.remove_index_files()

    def _path(self, suffix: str) -> str:
        return names.segment_file(self._directory, self.base_offset, suffix) + self._name_ending

    def _new_index_files(self) -> IndexFiles:
        return IndexFiles(
            self._file_system, names.segment_file(self._directory, self.base_offset, ""), self._name_ending
        )

    def _indexes(self) -> dict[str, OffsetIndex | TimeIndex | TransactionIndex]:
        return {
            names.TRANSACTION_INDEX_SUFFIX: self.transaction_index,
            names.TIME_INDEX_SUFFIX: self.time_index,
            names.OFFSET_INDEX_SUFFIX: self.offset_index,
        }

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.add(last_offset, position)
        time_index.add(self.largest_timestamp_ms, self.offset_of_largest_timestamp)
        # The time index has at most as many entries, and each of its entries is the larger one.
        self.index_bytes = len(offset_index) * TIME_ENTRY_BYTES

    def _rebuild_sparse_indexes(self) -> None:
        # Where a batch is damaged, what there is of the indexes still leads past it.
        self._require_ascending()
        transaction_index, index_files = self.transaction_index, self._index_files
        self.forget_indexes()
        self.transaction_index, self._index_files = transaction_index, index_files
        self._index_files.remove(names.OFFSET_INDEX_SUFFIX, names.TIME_INDEX_SUFFIX)
        for position, header in self.headers():
            self.note_batch(position, header.size_bytes, header.last_offset, timestamp_of(header))

    def _require_ascending(self) -> None:
        """Step over all batches; LogDamaged where one has offsets that no index can hold, which no checksum covers."""
        next_offset = self.base_offset
        for position, header in self.headers():
            if header.base_offset < next_offset or header.last_offset > self.base_offset + MAX_RELATIVE_OFFSET:
                raise self._damaged(position)
            next_offset = header.next_offset

    def _found(self, find: Callable[[], BatchLocation | None]) -> BatchLocation | None:
        try:
            return find()
        except LogDamaged:
            # The index may be what is damaged, and the batches tell.
            self._rebuild_sparse_indexes()
            return find()

    def _locate(self, offset: int, from_position: int) -> BatchLocation | None:
        for location in self._indexed_locations(offset, from_position):
            if location.last_offset >= offset:
                return location
        return None

    def _indexed_locations(self, offset: int, from_position: int = 0) -> Iterator[BatchLocation]:
        """Step over the batches from the last indexed one that does not lie behind `offset`, if the index is right."""
        indexed_offset, indexed_position = self.offset_index.entry_at_or_before(offset) or (None, 0)
        position = max(from_position, indexed_position)
        for location in batch_locations(self._file, position, self.size_bytes, self._damaged):
            is_indexed = location.position == indexed_position and indexed_offset is not None
            if is_indexed and location.last_offset != indexed_offset:
                raise self._damaged(indexed_position)
            yield location

    def _damaged(self, position: int) -> LogDamaged:
        return LogDamaged(f"{self._path(names.LOG_SUFFIX)}: no batch begins at byte {position}, where one should")
