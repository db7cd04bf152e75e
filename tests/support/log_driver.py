"""Works on a partition log step by step, and keeps the account of what it was told in a `History`."""

from collections.abc import Sequence

import msgspec

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import Appended
from eagleray.broker.log import config as log_config
from eagleray.broker.log.config import LogConfig, TimestampType
from eagleray.broker.log.flushing import BackgroundFlush
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.producer_state import Rejection
from eagleray.broker.log.settling import Surroundings
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import (
    CompressionType,
    EndTransactionMarker,
    NewRecord,
    build_batch,
    build_marker,
    place_in,
    split_batches,
    stamp_append_time,
)
from tests.support.log_history import Entry, History, ModelProducer, conclude
from tests.support.logs import end_marker

DIRECTORY = "/topic-0"
COORDINATOR_EPOCH = 3


class Producer(msgspec.Struct, frozen=True):
    """Somebody who writes into the log."""

    producer_id: int
    is_transactional: bool


PLAIN = Producer(-1, is_transactional=False)
IDEMPOTENT = Producer(100, is_transactional=False)
TRANSACTIONAL = tuple(Producer(200 + number, is_transactional=True) for number in range(3))
PRODUCERS = (PLAIN, IDEMPOTENT, *TRANSACTIONAL)


class NewBatch(msgspec.Struct, frozen=True):
    """What a producer sends next: its sequence and epoch follow from what it sent before."""

    producer: Producer
    record_count: int = 1
    value_bytes: int = 8
    in_new_epoch: bool = False
    compression: CompressionType = CompressionType.NONE


class Append(msgspec.Struct, frozen=True):
    """Batches of one or more producers, in one call."""

    batches: tuple[NewBatch, ...]


class EndTransactions(msgspec.Struct, frozen=True):
    """Markers for all transactional producers that have something open, or for every one of them."""

    commit: tuple[bool, ...]
    even_empty: bool = False


class Repeat(msgspec.Struct, frozen=True):
    """A producer sends one of its last five batches again; 0 is the last."""

    producer: Producer
    back: int = 0


class SkipSequence(msgspec.Struct, frozen=True):
    """A producer sends a batch although the one before it is missing."""

    producer: Producer


class ElectLeader(msgspec.Struct, frozen=True):
    """The next append carries a higher leader epoch."""


class AdvanceHighWatermark(msgspec.Struct, frozen=True):
    """So many percent of the batches are replicated."""

    percent: int


class DeleteRecords(msgspec.Struct, frozen=True):
    """Delete so many percent of what lies below the high watermark, down to the middle of a batch."""

    percent: int


class Truncate(msgspec.Struct, frozen=True):
    """Drop so many of the last batches."""

    count: int


class ApplyRetention(msgspec.Struct, frozen=True):
    """Wait, then let go of what is too old."""

    waited_ms: int


class Flush(msgspec.Struct, frozen=True):
    """Force everything to the disk."""


class BeginFlush(msgspec.Struct, frozen=True):
    """Begin to flush what there is by now, in another thread."""


class FinishFlush(msgspec.Struct, frozen=True):
    """Let the flush that was begun come to its end, if there is one."""


class WriteCheckpoint(msgspec.Struct, frozen=True):
    """Keep what the segments do not tell."""


class WriteBookmark(msgspec.Struct, frozen=True):
    """Note up to where everything is known."""


class Reopen(msgspec.Struct, frozen=True):
    """Close the log and open it again."""


Step = (
    Append
    | EndTransactions
    | Repeat
    | SkipSequence
    | ElectLeader
    | AdvanceHighWatermark
    | DeleteRecords
    | Truncate
    | ApplyRetention
    | Flush
    | BeginFlush
    | FinishFlush
    | WriteCheckpoint
    | WriteBookmark
    | Reopen
)


class LogDriver:
    """Takes steps on a log and checks each answer against the history."""

    def __init__(self, file_system: FileSystem, config: LogConfig, directory: str = DIRECTORY) -> None:
        self._file_system = file_system
        self._directory = directory
        self._values = 0
        # The epochs begin with the first election. Without any, their file is never written.
        self._leader_epoch = -1
        self._known_from_offset = 0
        self.config = config
        self.now_ms = 1_700_000_000_000
        self.history = History()
        self.log: PartitionLog
        self._flush: BackgroundFlush | None = None
        self.open()

    def open(self) -> None:
        # Where nothing is acknowledged before it is flushed, a log that has lost some of its end, and no other has it,
        # waits for a person. This one has others, so that it goes on.
        beside_others = Surroundings(others_in_sync=self.config.flush is log_config.Flush.COMMIT)
        self.log = PartitionLog.open(
            self._file_system, self._directory, self.config, now_ms=self.now_ms, surroundings=beside_others
        )
        # The thread has died with its process.
        self._flush = None
        self.rewound()

    def take(self, step: Step) -> None:
        self.now_ms += 7
        match step:
            case Append(batches):
                self.append(self._place_all(batches))
            case EndTransactions(commit, even_empty):
                self._end_transactions(commit, even_empty=even_empty)
            case Repeat(producer, back):
                self._repeat(producer, back)
            case SkipSequence(producer):
                self._skip_sequence(producer)
            case ElectLeader():
                self._leader_epoch += 1
            case AdvanceHighWatermark(percent):
                self._advance_high_watermark(percent)
            case DeleteRecords(percent):
                self._delete_records(self.log.high_watermark * percent // 100)
            case Truncate(count):
                self._truncate(count)
            case ApplyRetention(waited_ms):
                self._apply_retention(waited_ms)
            case Flush():
                self.log.flush()
                self.history.flushed_end = self.log.log_end_offset
            case BeginFlush():
                self._flush = self._flush or self.log.begin_flush()
            case FinishFlush():
                self._finish_flush()
            case WriteCheckpoint():
                self.log.write_checkpoint()
            case WriteBookmark():
                self.log.write_bookmark()
            case Reopen():
                self.reopen()

    def _finish_flush(self) -> None:
        flush, self._flush = self._flush, None
        if flush is None:
            return
        self.log.finish_flush(flush, flush.run())
        if flush.rewinds == self.log._rewinds:
            assert self.log.recovery_point >= flush.end_offset
            self.history.flushed_end = max(self.history.flushed_end, flush.end_offset)

    def append(self, entries: Sequence[Entry]) -> None:
        """Append batches that are in their places already, which the log has to find for itself."""
        self.history.promise(entries)
        sent = [split_batches(unplaced(entry))[0] for entry in entries]
        results = self.log.append(sent, leader_epoch=self._leader_epoch, now_ms=self.now_ms)
        self._expect_appended(results, entries)

    def rewound(self) -> None:
        """Note that the log took its state from the files, where a snapshot stands for what was not scanned."""
        log = self.log
        if log.recovery.known_bytes:
            # A bookmark has whatever the process before knew.
            return
        self._known_from_offset = log.active_segment.base_offset if log.recovery.scanned_bytes else log.log_end_offset

    def reopen(self) -> None:
        self.log.close()
        self.history.flushed_end = self.history.end_offset
        self.open()

    def producers(self) -> dict[int, ModelProducer]:
        return conclude(self.history.entries).producers

    def next_batch(self, new: NewBatch, producers: dict[int, ModelProducer], base_offset: int) -> Entry:
        """Build what a producer sends next, in the place that the log will give it."""
        known = producers.get(new.producer.producer_id, ModelProducer(0))
        is_new_epoch = new.in_new_epoch and known.open_since_offset is None
        self._values += 1
        value = b"%d:" % self._values + b"." * new.value_bytes
        records = [NewRecord(value, b"key", self.now_ms + number) for number in range(new.record_count)]
        if new.producer.producer_id < 0:
            data = build_batch(records, compression=new.compression)
        else:
            data = build_batch(
                records,
                producer_id=new.producer.producer_id,
                producer_epoch=known.epoch + is_new_epoch,
                base_sequence=0 if is_new_epoch else known.next_sequence,
                transactional=new.producer.is_transactional,
                compression=new.compression,
            )
        return self._placed(data, base_offset)

    def _placed(self, data: bytes, base_offset: int) -> Entry:
        if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            data = stamp_append_time(split_batches(data)[0], self.now_ms)
        placed = bytearray(data)
        place_in(placed, 0, base_offset, self._leader_epoch)
        return Entry.of(bytes(placed))

    def _place_all(self, batches: Sequence[NewBatch]) -> list[Entry]:
        placed: list[Entry] = []
        for new in batches:
            producers = conclude([*self.history.entries, *placed]).producers
            base_offset = placed[-1].next_offset if placed else self.log.log_end_offset
            placed.append(self.next_batch(new, producers, base_offset))
        return placed

    def _expect_appended(self, results: Sequence[Appended | Rejection], entries: Sequence[Entry]) -> None:
        append_time_ms = self.now_ms if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME else -1
        for result, entry in zip(results, entries, strict=True):
            stamped_ms = -1 if entry.header.is_control else append_time_ms
            assert result == Appended(entry.base_offset, entry.header.last_offset, stamped_ms)
        self.history.acknowledge()
        assert self.log.log_end_offset == self.history.end_offset

    def _end_transactions(self, commit: Sequence[bool], *, even_empty: bool) -> None:
        known = self.producers()
        markers, entries = [], []
        for producer, commits in zip(TRANSACTIONAL, commit, strict=True):
            state = known.get(producer.producer_id, ModelProducer(0))
            if state.open_since_offset is None and not even_empty:
                continue
            markers.append(end_marker(producer.producer_id, state.epoch, commits, COORDINATOR_EPOCH))
            data = build_marker(
                EndTransactionMarker(commits, COORDINATOR_EPOCH),
                producer_id=producer.producer_id,
                producer_epoch=state.epoch,
                timestamp_ms=self.now_ms,
                base_offset=self.log.log_end_offset + len(entries),
                leader_epoch=self._leader_epoch,
            )
            entries.append(Entry.of(data))
        self.history.promise(entries)
        results = self.log.append_markers(markers, leader_epoch=self._leader_epoch, now_ms=self.now_ms)
        self._expect_appended(results, entries)

    def _repeat(self, producer: Producer, back: int) -> None:
        state = self.producers().get(producer.producer_id)
        if state is None or len(state.last_batches) <= back:
            return
        entry = state.last_batches[-1 - back]
        sent = split_batches(unplaced(entry))
        (result,) = self.log.append(sent, leader_epoch=self._leader_epoch, now_ms=self.now_ms)
        if isinstance(result, Rejection):
            # A snapshot keeps the last batch of a producer only, as Kafka's does.
            assert result.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert back
            assert entry.base_offset < self._known_from_offset
        else:
            assert result.is_duplicate
            assert (result.base_offset, result.last_offset) == (entry.base_offset, entry.header.last_offset)

    def _skip_sequence(self, producer: Producer) -> None:
        producers = self.producers()
        if producer.producer_id not in producers:
            return
        producers[producer.producer_id].next_sequence += 1
        entry = self.next_batch(NewBatch(producer), producers, self.log.log_end_offset)
        (result,) = self.log.append(split_batches(unplaced(entry)), leader_epoch=self._leader_epoch, now_ms=self.now_ms)
        assert isinstance(result, Rejection)
        assert result.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _advance_high_watermark(self, percent: int) -> None:
        ends = [entry.next_offset for entry in self.history.entries]
        if ends:
            self.log.advance_high_watermark(ends[(len(ends) - 1) * percent // 100])
            self.history.high_watermark = self.log.high_watermark

    def _delete_records(self, before_offset: int) -> None:
        self.history.start_in_flight = max(before_offset, self.history.start_offset)
        start_offset = self.log.delete_records(before_offset)
        assert start_offset == self.history.start_in_flight
        self.history.start_offset = start_offset

    def _truncate(self, count: int) -> None:
        offsets = [
            entry.base_offset for entry in self.history.entries if entry.base_offset >= self.log.log_start_offset
        ]
        if not offsets:
            return
        to_offset = offsets[-min(count, len(offsets))]
        self.history.truncating_to = to_offset
        self.log.truncate(to_offset, now_ms=self.now_ms)
        self.history.truncated(to_offset)
        assert self.log.log_end_offset == to_offset
        self.rewound()

    def _apply_retention(self, waited_ms: int) -> None:
        self.now_ms += waited_ms
        self.history.start_in_flight = self.log.high_watermark
        self.log.apply_retention(self.now_ms)
        self.history.start_offset = self.log.log_start_offset


def unplaced(entry: Entry) -> bytes:
    """Return the batch as its producer sent it; with append time, a stamp that the log will overwrite."""
    data = bytearray(entry.data)
    place_in(data, 0, 0, -1)
    return bytes(data)
