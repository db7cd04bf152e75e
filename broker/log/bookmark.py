"""Bookmarks: a position in the last segment up to which everything is known, so that recovery starts there (ADR 18).

After the death of a process only its last write can be torn, but producers, open transactions and index entries were in
its memory. A bookmark has all of that as of `position`, and recovery reads on from there.

It is believed only in the boot in which it was written, because then the page cache has all that was written before it.
So it is never flushed. A log that truncates the segment removes the bookmark first, and recovery that finds that it
does not fit reads the whole segment instead. Nothing is ever truncated on its word alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from crc32c import crc32c

from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.filesystem import FileSystem, replace_file
from eagleray.broker.log import names
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.index_files import KnownPart
from eagleray.broker.log.producer_entry import CachedBatch, ProducerEntry
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.segment import Segment
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import HEADER_BYTES, decode_header

if TYPE_CHECKING:
    from eagleray.broker.log.readable_log import ReadableLog

_VERSION = 1
_CHECKSUM_BYTES = 4


class BookmarkedProducer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A producer with all of its cached batches, of which Kafka's snapshots keep only the last.

    A producer that was cut off by the death of the leader may repeat up to five batches, and all have to be recognised.
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
    """The state of a log when its last segment ended at `position`, and the log at `offset`."""

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
    """Transactions that were decided but not replicated, as in `UnstableTransactions`."""

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

    def producer_state(self, now_ms: int) -> ProducerState:
        """Return the producers as the log knew them, heard of now: they could not be while no process was there."""
        return ProducerState([producer.entry() for producer in self.producers], self.unreplicated, now_ms=now_ms)


def read_bookmark(file_system: FileSystem, directory: str) -> Bookmark | None:
    """Return the bookmark of a directory; None where there is none that can be read."""
    path = _path(directory)
    data = file_system.read_bytes(path) if file_system.exists(path) else b""
    body = data[_CHECKSUM_BYTES:]
    if data[:_CHECKSUM_BYTES] != _checksum(body):
        return None
    try:
        bookmark = msgspec.msgpack.decode(body, type=Bookmark)
    except CANNOT_DECODE:
        return None
    return bookmark if bookmark.version == _VERSION else None


def is_bookmark_damaged(file_system: FileSystem, directory: str) -> bool:
    """Whether there is a bookmark that cannot be read: how far the log went is unknown then."""
    return file_system.exists(_path(directory)) and read_bookmark(file_system, directory) is None


def write_bookmark(file_system: FileSystem, directory: str, bookmark: Bookmark) -> None:
    """Replace the bookmark; on an OSError the one before is still there, and still true."""
    body = msgspec.msgpack.encode(bookmark)
    replace_file(file_system, _path(directory), _checksum(body) + body)


def remove_bookmark(file_system: FileSystem, directory: str) -> None:
    """Make the next opening read the whole segment."""
    file_system.remove(_path(directory))


def try_to_remove_bookmark(file_system: FileSystem, directory: str) -> None:
    """Make the next opening read the whole segment, if the disk that has just failed still allows it."""
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
