"""A place in the last segment up to which everything is known, so that an opening need not look at what lies before.

After the death of a process only its last write can be torn, yet what a segment's batches say (producers, open
transactions, indexes) was in the memory of the process. A bookmark has all of that as it was when the segment
ended at `position`, and recovery reads on from there.

It is believed only in the boot in which it was written, for then the page cache has all that was written before it.
So it is never flushed. Whoever cuts the segment removes it first, and whoever finds that it does not fit reads the
whole segment instead. Nothing is ever cut off on its word alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from crc32c import crc32c

from eagleray.broker.filesystem import FileSystem, replace_file
from eagleray.broker.log import names
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.index_files import KnownPart
from eagleray.broker.log.producer_state import CachedBatch, ProducerEntry, ProducerState
from eagleray.broker.log.segment import Segment
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import HEADER_BYTES, decode_header

if TYPE_CHECKING:
    from eagleray.broker.log.readable_log import ReadableLog

_VERSION = 1
_CHECKSUM_BYTES = 4


class BookmarkedProducer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A producer with all of its cached batches, of which Kafka's snapshots keep the last alone.

    Who was cut off by the death of the leader sends up to five batches again, and all have to be known for repeats.
    """

    producer_id: int
    epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int
    open_since_offset: int
    batches: list[CachedBatch]

    def entry(self) -> ProducerEntry:
        """Return the producer as a log knows it."""
        entry = ProducerEntry(self.producer_id, self.epoch)
        entry.coordinator_epoch = self.coordinator_epoch
        entry.last_timestamp_ms = self.last_timestamp_ms
        entry.open_since_offset = self.open_since_offset
        for batch in self.batches:
            entry.remember(batch)
        return entry


class Bookmark(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a log was when its last segment ended at `position`, and the log at `offset`."""

    version: int = _VERSION
    boot_id: str
    base_offset: int
    """Of the segment."""

    position: int
    offset: int
    last_header: bytes
    """Of the batch that ends at `position`: its offsets, its length and the checksum of its records."""

    latest_epoch: int
    high_watermark: int
    producers: list[BookmarkedProducer]
    unreplicated: list[tuple[int, int]]
    """Transactions that were decided but not replicated, as `UnstableTransactions` has them."""

    indexes: KnownPart

    @classmethod
    def of(cls, log: ReadableLog, boot_id: str) -> Bookmark | None:
        """Save the indexes of the last segment and mark its end; None where there is nothing that could be marked."""
        segment = log.active_segment
        try:
            last = segment.last_location()
        except LogDamaged:
            return None
        if last is None or not boot_id:
            return None
        return cls(
            boot_id=boot_id,
            base_offset=segment.base_offset,
            position=segment.size_bytes,
            offset=log.log_end_offset,
            last_header=segment.read(last.position, HEADER_BYTES),
            latest_epoch=log.epochs.latest_epoch,
            high_watermark=log.high_watermark,
            producers=[_bookmarked(entry) for entry in log.producers],
            unreplicated=log.producers.unstable.unreplicated,
            indexes=segment.save_indexes(),
        )

    def fits(self, segment: Segment) -> bool:
        """Whether a segment has the very batch that ended where the bookmark is."""
        if segment.base_offset != self.base_offset or segment.size_bytes < self.position:
            return False
        try:
            header = decode_header(self.last_header)
        except ProtocolError:
            return False
        position = self.position - header.size_bytes
        is_there = position >= 0 and segment.read(position, HEADER_BYTES) == self.last_header
        return is_there and header.next_offset == self.offset

    def producer_state(self) -> ProducerState:
        """Return the producers as the log knew them."""
        return ProducerState([producer.entry() for producer in self.producers], self.unreplicated)


def read_bookmark(file_system: FileSystem, directory: str) -> Bookmark | None:
    """Return the bookmark of a directory; None where there is none that can be read."""
    path = _path(directory)
    data = file_system.read_bytes(path) if file_system.exists(path) else b""
    body = data[_CHECKSUM_BYTES:]
    if data[:_CHECKSUM_BYTES] != _checksum(body):
        return None
    try:
        bookmark = msgspec.msgpack.decode(body, type=Bookmark)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return bookmark if bookmark.version == _VERSION else None


def write_bookmark(file_system: FileSystem, directory: str, bookmark: Bookmark) -> None:
    """Put a bookmark in the place of the one before; on an OSError that one is still there, and still true."""
    body = msgspec.msgpack.encode(bookmark)
    replace_file(file_system, _path(directory), _checksum(body) + body)


def remove_bookmark(file_system: FileSystem, directory: str) -> None:
    """Have the next opening look at the whole segment."""
    file_system.remove(_path(directory))


def try_to_remove_bookmark(file_system: FileSystem, directory: str) -> None:
    """Have the next opening look at the whole segment, if the disk that has just failed still does so much."""
    with suppress(OSError):
        remove_bookmark(file_system, directory)


def _bookmarked(entry: ProducerEntry) -> BookmarkedProducer:
    return BookmarkedProducer(
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.last_timestamp_ms,
        entry.open_since_offset,
        entry.batches,
    )


def _checksum(body: bytes) -> bytes:
    return crc32c(body).to_bytes(_CHECKSUM_BYTES, "big")


def _path(directory: str) -> str:
    return f"{directory}/{names.BOOKMARK_FILE}"
