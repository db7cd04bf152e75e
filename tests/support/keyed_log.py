"""A log of keyed records and a model of it, by which compaction is judged.

The model is the plain list of all records that were ever appended, with the outcome of their transactions. It knows
nothing of segments or compaction: whatever compaction does, a reader has to end up with the same value of each key.
"""

import copy
from collections.abc import Sequence

import msgspec

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import Appended
from eagleray.broker.log.compaction import Compaction
from eagleray.broker.log.config import LogConfig, TimestampType
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.producer_state import Origin, ProducerState, Rejection
from eagleray.broker.log.reading import Isolation
from eagleray.broker.log.recovery import load_producers, replay_producers
from eagleray.protocol.records import (
    BatchHeader,
    CompressionType,
    NewRecord,
    Record,
    RecordBatch,
    build_batch,
    split_batches,
)
from tests.support.batches import whole_batches
from tests.support.consumer import committed_records
from tests.support.logs import end_marker

DIRECTORY = "/topic-0"
START_MS = 1_700_000_000_000
DELETE_RETENTION_MS = 1_000
COORDINATOR_EPOCH = 3
NO_PRODUCER = -1
IDEMPOTENT = 100
FIRST_TRANSACTIONAL = 200

KeyAndValue = tuple[bytes | None, bytes | None]


def compacting(**settings: object) -> LogConfig:
    """Make a config by which everything is compacted as soon as it may be."""
    defaults = {
        "segment_bytes": 1024,
        "index_interval_bytes": 0,
        "cleanup_delete": False,
        "cleanup_compact": True,
        "min_cleanable_dirty_ratio": 0.0,
        "delete_retention_ms": DELETE_RETENTION_MS,
    }
    return LogConfig(**(defaults | settings))


class Written(msgspec.Struct):
    """A record of the model. Its outcome is not known while its transaction is open."""

    record: Record
    is_committed: bool | None


class Sender(msgspec.Struct):
    """A producer as it knows itself."""

    producer_id: int
    epoch: int = 0
    next_sequence: int = 0
    last_header: BatchHeader | None = None
    last_base_offset: int = -1
    undecided: list[Written] = []

    @property
    def is_transactional(self) -> bool:
        return self.producer_id >= FIRST_TRANSACTIONAL


class KeyedLog:
    """Appends to a log and keeps the model beside it."""

    def __init__(self, file_system: FileSystem, config: LogConfig, directory: str = DIRECTORY) -> None:
        self.file_system = file_system
        self.directory = directory
        self.config = config
        self.now_ms = START_MS
        self.written: list[Written] = []
        self.senders: dict[int, Sender] = {}
        self.first_cleaned_ms: dict[int, int] = {}
        self.open()

    def open(self) -> None:
        self.log = PartitionLog.open(self.file_system, self.directory, self.config, now_ms=self.now_ms)

    def on(self, file_system: FileSystem) -> "KeyedLog":
        """Open what another disk has of the same log, with the same model."""
        other = copy.copy(self)
        other.file_system = file_system
        other.written, other.senders = copy.deepcopy((self.written, self.senders))
        other.first_cleaned_ms = dict(self.first_cleaned_ms)
        other.open()
        return other

    # What happens to it

    def put(
        self,
        *pairs: KeyAndValue,
        producer_id: int = NO_PRODUCER,
        compression: CompressionType = CompressionType.NONE,
    ) -> Appended:
        """Append one batch with these keys and values."""
        self.now_ms += 1
        sender = self.senders.setdefault(producer_id, Sender(producer_id))
        records = [NewRecord(value, key, self.now_ms + number) for number, (key, value) in enumerate(pairs)]
        batch = self.next_batch(sender, records, compression)
        if any(key is None for key, _ in pairs):
            # A log takes none while it is compacted, but it may have some of the time before.
            self.log.reconfigure(msgspec.structs.replace(self.config, cleanup_compact=False, cleanup_delete=True))
        (appended,) = self.log.append([batch], leader_epoch=0, now_ms=self.now_ms)
        self.log.reconfigure(self.config)
        assert isinstance(appended, Appended), appended
        assert not appended.is_duplicate
        self._note(sender, batch, appended, records)
        return appended

    def end(self, producer_id: int, *, commit: bool, bump: bool = False) -> int:
        """Append a marker; with `bump` it carries the next epoch, as in version 2 of transactions."""
        self.now_ms += 1
        sender = self.senders.setdefault(producer_id, Sender(producer_id))
        if bump:
            sender.epoch, sender.next_sequence, sender.last_header = sender.epoch + 1, 0, None
        marker = end_marker(producer_id, sender.epoch, commit, COORDINATOR_EPOCH)
        (appended,) = self.log.append_markers([marker], leader_epoch=0, now_ms=self.now_ms)
        assert isinstance(appended, Appended)
        for written in sender.undecided:
            written.is_committed = commit
        sender.undecided = []
        return appended.base_offset

    def roll(self) -> None:
        """Close the active segment, so that it can be compacted."""
        if self.log.active_segment.size_bytes:
            self.log.roll(self.log.log_end_offset, self.now_ms)

    def replicate(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)

    def compaction(self, **settings: int) -> Compaction | None:
        return self.log.compaction(self.now_ms, **settings)

    def compact(self, **settings: int) -> bool:
        """Compact all that can be compacted; return whether there was anything."""
        compaction = self.compaction(**settings)
        if compaction is None:
            return False
        while compaction.step():
            pass
        self.compacted(compaction)
        return True

    def compacted(self, compaction: Compaction) -> None:
        """Note when tombstones were first met, if the compaction came to its end."""
        end_offset = compaction.report.cleaned_up_to
        if end_offset is not None:
            assert self.log.cleaned_up_to == end_offset
            for written in self.written:
                if written.record.offset < end_offset:
                    self.first_cleaned_ms.setdefault(written.record.offset, compaction._now_ms)

    def next_batch(self, sender: Sender, records: Sequence[NewRecord], compression: CompressionType) -> RecordBatch:
        is_plain = sender.producer_id == NO_PRODUCER
        data = build_batch(
            records,
            producer_id=sender.producer_id,
            producer_epoch=-1 if is_plain else sender.epoch,
            base_sequence=-1 if is_plain else sender.next_sequence,
            transactional=sender.is_transactional,
            compression=compression,
        )
        return split_batches(data)[0]

    def _note(self, sender: Sender, batch: RecordBatch, appended: Appended, records: Sequence[NewRecord]) -> None:
        new = [
            Written(
                Record(appended.base_offset + number, self._timestamp_of(record), record.key, record.value),
                None if sender.is_transactional else True,
            )
            for number, record in enumerate(records)
        ]
        self.written += new
        if sender.is_transactional:
            sender.undecided = sender.undecided + new
        if sender.producer_id != NO_PRODUCER:
            sender.next_sequence += len(records)
            sender.last_header, sender.last_base_offset = batch.header, appended.base_offset

    def _timestamp_of(self, record: NewRecord) -> int:
        is_appended = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return self.now_ms if is_appended else record.timestamp

    # What is to be seen in it

    def committed(self) -> list[Record]:
        """Read the whole log as a consumer at read_committed does, in small fetches."""
        found: list[Record] = []
        offset = self.log.log_start_offset
        while offset < self.log.last_stable_offset:
            fetched = self.log.read(offset, max_bytes=500, isolation=Isolation.READ_COMMITTED)
            batches = whole_batches(fetched.records)
            if not batches:
                break
            found += committed_records(batches, fetched.aborted_transactions, from_offset=offset)
            offset = batches[-1].header.next_offset
        return found

    def headers(self) -> list[BatchHeader]:
        """Return the headers of all batches in the files."""
        return [header for segment in self.log.segments for _, header in segment.headers()]

    def survivors(self) -> list[Record]:
        """Return all records in the files, markers left out, whether readers see them or not."""
        return [record for batch in self.batches() if not batch.header.is_control for record in batch.records()]

    def batches(self) -> list[RecordBatch]:
        return [batch for segment in self.log.segments for batch in split_batches(segment.read(0, segment.size_bytes))]

    def expected(self) -> dict[bytes, bytes]:
        """Return the value of each key that a consumer at read_committed ends up with."""
        start, end = self.log.log_start_offset, self.log.last_stable_offset
        return newest_values(
            [each.record for each in self.written if each.is_committed and start <= each.record.offset < end]
        )

    # Whether it is right

    def check(self) -> None:
        """Compare what is in the log with the model."""
        committed = self.committed()
        offsets = [record.offset for record in committed]
        assert offsets == sorted(set(offsets))
        assert newest_values(committed) == self.expected()
        by_offset = {written.record.offset: written for written in self.written}
        for record in committed:
            assert by_offset[record.offset].record == record
            assert by_offset[record.offset].is_committed
        for record in self.survivors():
            assert by_offset[record.offset].record == record
        self.check_producers()

    def check_compacted(self) -> None:
        """Nothing superseded, aborted or without a key is left of what was compacted, and tombstones go in time."""
        end_offset = self.log.cleaned_up_to
        decided = [each for each in self.written if each.record.offset < end_offset]
        newest = {each.record.key: each.record.offset for each in decided if each.is_committed}
        for record in self.survivors():
            if self.log.log_start_offset <= record.offset < end_offset:
                assert record.key is not None
                assert newest[record.key] == record.offset

    def check_tombstones(self, *, seen_at_ms: int) -> None:
        """A tombstone that nothing has superseded is there until its horizon, and not after a compaction past it."""
        start = self.log.log_start_offset
        newest = {each.record.key: each.record for each in self.written if each.is_committed}
        there = {record.offset for record in self.survivors()}
        for record in newest.values():
            first_ms = self.first_cleaned_ms.get(record.offset)
            if record.value is None and record.key is not None and first_ms is not None and record.offset >= start:
                is_due = first_ms < seen_at_ms and first_ms + DELETE_RETENTION_MS <= seen_at_ms
                assert (record.offset in there) == (not is_due)

    def check_producers(self) -> None:
        """Ask what each producer would be answered, which changes nothing."""
        decide = self.log.producers.check_data
        for sender in self.senders.values():
            if sender.producer_id == NO_PRODUCER:
                continue
            following = self.next_batch(sender, [NewRecord(b"v", b"k")], CompressionType.NONE)
            assert decide(following.header, Origin.CLIENT, self.now_ms) is None
            if sender.last_header is not None:
                repeated = decide(sender.last_header, Origin.CLIENT, self.now_ms)
                assert repeated is not None
                assert not isinstance(repeated, Rejection)
                assert repeated.first_offset == sender.last_base_offset

    def check_snapshots(self) -> None:
        """From whichever snapshot a recovery would start, it ends up with what the log knows of its producers."""
        for segment in self.log.segments:
            producers, offset = load_producers(self.file_system, self.directory, segment.base_offset, self.now_ms)
            if offset or not self.log.log_start_offset:
                replay_producers(self.log.segments, producers, offset, self.log.log_end_offset, self.now_ms)
                assert describe(producers) == self.producers()

    def producers(self) -> dict[int, tuple[int, ...]]:
        """Describe what the log knows of its producers, without the older ones of their cached batches."""
        return describe(self.log.producers)


def describe(producers: ProducerState) -> dict[int, tuple[int, ...]]:
    """Describe what decides about a producer's next batch; the coordinator's epoch goes with the last marker."""
    return {
        entry.producer_id: (
            entry.epoch,
            entry.open_since_offset,
            entry.last_sequence,
            entry.batches[-1].last_offset if entry.batches else -1,
        )
        for entry in producers
    }


def newest_values(records: Sequence[Record]) -> dict[bytes, bytes]:
    """Do what a reader that keeps a table does: the last value of each key stands, a tombstone removes it."""
    values: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
    return values
