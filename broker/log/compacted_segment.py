"""A segment that a compaction is writing, not yet part of the log."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import names
from eagleray.broker.log.errors import CompactionFailed
from eagleray.broker.log.segment import Segment, timestamp_of
from eagleray.broker.log.swapping import remove_cleaned
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.records import BytesLike, decode_header

MAX_SEGMENT_BYTES = 2**31 - 1
"""An index holds positions in four bytes."""

_FLUSH_BYTES = 1024 * 1024


class CompactedSegment:
    """What stays of some segments, under `.cleaned` names.

    Owns: the files of those names, while it is open. Persists: everything that was added, on stable storage, when
    `finish` returns. A crash leaves files that the next opening of the log sweeps up.
    """

    __slots__ = ("_buffers", "_flushed_bytes", "_segment", "is_open", "size_bytes")

    def __init__(
        self, file_system: FileSystem, directory: str, base_offset: int, *, index_interval_bytes: int, created_ms: int
    ) -> None:
        remove_cleaned(file_system, directory, base_offset)
        self._segment = Segment(
            file_system,
            directory,
            base_offset,
            index_interval_bytes=index_interval_bytes,
            created_ms=created_ms,
            name_ending=names.CLEANED_SUFFIX,
        )
        self._buffers: list[BytesLike] = []
        self.size_bytes = 0
        self._flushed_bytes = 0
        self.is_open = True

    def add(self, data: BytesLike) -> None:
        """Take a batch; it is in the file after the next `write`."""
        header = decode_header(data)
        if self.size_bytes + len(data) > MAX_SEGMENT_BYTES:
            raise CompactionFailed(
                f"the compacted segment {self._segment.base_offset} would be larger than {MAX_SEGMENT_BYTES} bytes, "
                f"because delete horizons make its batches longer: set segment.bytes lower"
            )
        self._segment.note_batch(self.size_bytes, len(data), header.last_offset, timestamp_of(header))
        self._buffers.append(data)
        self.size_bytes += len(data)

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Enter aborted transactions into the index."""
        for transaction in transactions:
            self._segment.transaction_index.add(transaction)

    def write(self) -> None:
        """Write what was added, and flush now and then, for one flush of everything would delay all other writes."""
        if self._buffers:
            self._segment.append(self._buffers, self.size_bytes - self._segment.size_bytes)
            self._buffers = []
        if self.size_bytes - self._flushed_bytes >= _FLUSH_BYTES:
            self._flush()

    def finish(self) -> None:
        """Write the rest and the indexes, all of it onto stable storage."""
        self.write()
        self._flush()
        self._segment.write_indexes()

    def close(self) -> None:
        """Close the files; another owner is responsible for them now."""
        self.is_open = False
        self._segment.close()

    def discard(self) -> None:
        """Close and remove the files."""
        self.is_open = False
        self._segment.remove()

    def _flush(self) -> None:
        self._segment.flush()
        self._flushed_bytes = self.size_bytes
