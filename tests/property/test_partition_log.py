"""The partition log against a model that is a plain list of batches, read at any offset, isolation and size."""

import hypothesis
import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from eagleray.broker.log import (
    Appended,
    Isolation,
    LogConfig,
    LogSlice,
    PartitionLog,
    Rejection,
    TimestampType,
)
from eagleray.protocol.records import Record, RecordBatch, split_batches
from tests.property.log_model import LogModel
from tests.support.batches import NOW_MS, data_batch, whole_batches
from tests.support.consumer import committed_records
from tests.support.logs import DIRECTORY, end_marker, everything
from tests.support.simulated_disk import SimulatedDisk

LEADER_EPOCH = 3
TRANSACTIONAL_PRODUCERS = (1, 2, 3)
PLAIN_PRODUCER = 4

parts = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]) | st.floats(0, 1)
"""Somewhere between two offsets, which are only known when the rule runs."""
isolations = st.sampled_from([Isolation.READ_COMMITTED, Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED])
timestamp_steps_ms = st.integers(-20, 20)


class Write(msgspec.Struct, frozen=True):
    """One append with a batch of each producer; timestamps go back and forth inside of batches and between them."""

    producer_ids: list[int]
    record_count: int
    timestamp_step_ms: int
    value_bytes: int


class End(msgspec.Struct, frozen=True):
    """A marker to each producer, whether it has written anything or not."""

    producer_ids: list[int]
    commit: bool


class CatchUp(msgspec.Struct, frozen=True):
    """The followers replicate a part of what they do not have yet."""

    part: float


writes = st.builds(
    Write,
    st.lists(st.sampled_from([-1, PLAIN_PRODUCER, *TRANSACTIONAL_PRODUCERS]), min_size=1, max_size=4),
    st.integers(1, 3),
    timestamp_steps_ms,
    st.sampled_from([0, 10, 60, 300]),
)
ends = st.builds(
    End, st.lists(st.sampled_from(TRANSACTIONAL_PRODUCERS), min_size=1, max_size=3, unique=True), st.booleans()
)
stories = st.lists(writes | ends | st.builds(CatchUp, parts), min_size=4, max_size=20)


class PartitionLogMachine(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.sampled_from([1024, 1500, 10**6]),
        index_interval_bytes=st.sampled_from([0, 150, 4096]),
        timestamp_type=st.sampled_from(TimestampType),
        retention_bytes=st.sampled_from([-1, 2000]),
        story=stories,
    )
    def open(
        self,
        segment_bytes: int,
        index_interval_bytes: int,
        timestamp_type: TimestampType,
        retention_bytes: int,
        story: list[Write | End | CatchUp],
    ) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            message_timestamp_type=timestamp_type,
            retention_bytes=retention_bytes,
        )
        self.disk = SimulatedDisk()
        self.model = LogModel()
        self.now_ms = NOW_MS
        self.sequences: dict[int, int] = {}
        self.settled_when_marked = 0
        self.reopen()
        self.producers_work(story)

    def reopen(self) -> None:
        self.log = PartitionLog.open(self.disk, DIRECTORY, self.config, now_ms=self.now_ms)

    # What happens to the log

    @rule(story=stories)
    def producers_work(self, story: list[Write | End | CatchUp]) -> None:
        for event in story:
            self.now_ms += 5
            if isinstance(event, Write):
                self.write(event)
            elif isinstance(event, End):
                self.end(event)
            else:
                self.followers_catch_up(event.part)

    def write(self, write: Write) -> None:
        batches: list[RecordBatch] = []
        count = write.record_count
        for number, producer_id in enumerate(write.producer_ids):
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + count
            steps_ms = [write.timestamp_step_ms * (each + number) for each in range(count)]
            batches.append(
                data_batch(
                    count,
                    producer_id=producer_id,
                    sequence=sequence,
                    transactional=producer_id in TRANSACTIONAL_PRODUCERS,
                    timestamps_ms=[self.now_ms + step_ms for step_ms in steps_ms],
                    value=b"x" * write.value_bytes,
                )
            )
        self.note_appended(self.log.append(batches, leader_epoch=LEADER_EPOCH, now_ms=self.now_ms))

    def end(self, end: End) -> None:
        markers = [end_marker(producer_id, 0, end.commit, 0) for producer_id in end.producer_ids]
        self.note_appended(self.log.append_markers(markers, leader_epoch=LEADER_EPOCH, now_ms=self.now_ms))

    def note_appended(self, results: list[Appended | Rejection]) -> None:
        """Take what was appended into the model, where it must have been placed right behind the end."""
        data, offset = b"", self.model.end_offset
        while offset < self.log.log_end_offset:
            data += self.log.read_for_replica(offset, max_bytes=10**9)
            offset = split_batches(data)[-1].header.next_offset
        for batch, result in zip(split_batches(data), results, strict=True):
            header = batch.header
            assert isinstance(result, Appended), result
            assert not result.is_duplicate
            assert result.base_offset == header.base_offset == self.model.end_offset
            assert result.last_offset == header.last_offset
            assert header.partition_leader_epoch == LEADER_EPOCH
            self.model.append(batch)

    @rule(part=parts)
    def followers_catch_up(self, part: float) -> None:
        self.model.high_watermark = self.model.boundary(self.model.high_watermark, part)
        self.log.advance_high_watermark(self.model.high_watermark)

    @rule(part=parts)
    def records_are_deleted(self, part: float) -> None:
        """Delete up to any offset, in the middle of a batch or a transaction as well."""
        before_offset = between(self.model.start_offset, self.model.high_watermark, part / 4)
        assert self.log.delete_records(before_offset) == before_offset
        self.model.start_offset = before_offset

    @rule()
    def old_segments_go(self) -> None:
        self.log.apply_retention(self.now_ms)
        start_offset = self.log.log_start_offset
        assert self.model.start_offset <= start_offset <= self.model.high_watermark
        assert start_offset in (self.model.start_offset, self.log.segments[0].base_offset)
        self.model.start_offset = start_offset

    @rule(part=parts)
    def a_follower_cuts_its_end(self, part: float) -> None:
        to_offset = between(self.model.start_offset, self.model.end_offset, 1 - part / 4)
        self.log.truncate(to_offset, now_ms=self.now_ms)
        if to_offset < self.model.end_offset:
            self.model.cut(to_offset)
            self.model.settled_up_to = self.log.active_segment.base_offset
            self.sequences = self.model.next_sequences()

    @rule()
    def everything_up_to_here_is_written_down(self) -> None:
        self.log.write_bookmark()
        self.settled_when_marked = self.model.settled_up_to

    @rule(dies=st.booleans())
    def the_log_is_opened_again(self, dies: bool) -> None:
        if dies:
            self.log.write_checkpoint()
            self.disk.crash_process()
            self.reopen()
            is_marked = self.log.recovery.known_bytes > 0
            self.model.settled_up_to = self.settled_when_marked if is_marked else self.log.active_segment.base_offset
            hypothesis.event(f"died and went on from a bookmark: {is_marked}")
        else:
            self.log.close()
            self.settled_when_marked = self.model.settled_up_to
            self.model.settled_up_to = self.model.end_offset
            self.reopen()

    # What readers see

    @rule(reads=st.lists(st.tuples(parts, st.integers(0, 3000), isolations), min_size=3, max_size=8))
    def somebody_reads(self, reads: list[tuple[float, int, Isolation]]) -> None:
        for part, max_bytes, isolation in reads:
            offset = between(self.model.start_offset, self.model.end_offset, part)
            found = self.log.read(offset, max_bytes=max_bytes, isolation=isolation)
            self.check_records(found.records, offset, self.model.readable_end(isolation), max_bytes)
            if isolation is Isolation.READ_COMMITTED:
                self.check_aborted(found, offset)
            else:
                assert found.aborted_transactions == []
            offsets = (found.log_start_offset, found.last_stable_offset, found.high_watermark)
            assert offsets == (self.model.start_offset, self.model.last_stable_offset, self.model.high_watermark)

    @rule(max_bytes=st.sampled_from([1, 300, 10**6]))
    def a_consumer_reads_all_that_is_committed(self, max_bytes: int) -> None:
        """Fetch from the start to the last stable offset, as a consumer does, one slice after the other."""
        offset, end_offset = self.model.start_offset, self.model.last_stable_offset
        consumed: list[Record] = []
        while offset < end_offset:
            found = self.log.read(offset, max_bytes=max_bytes, isolation=Isolation.READ_COMMITTED)
            batches = whole_batches(found.records)
            consumed += committed_records(batches, found.aborted_transactions, from_offset=offset)
            assert batches[-1].header.next_offset > offset
            offset = batches[-1].header.next_offset
        assert consumed == self.model.committed(self.model.start_offset, end_offset)

    @rule(parts_of_time=st.lists(st.floats(-0.1, 1.1), min_size=1, max_size=5), isolation=isolations)
    def somebody_asks_for_a_time(self, parts_of_time: list[float], isolation: Isolation) -> None:
        for part in parts_of_time:
            timestamp_ms = between(NOW_MS, self.now_ms, part)
            found = self.log.offset_for_timestamp(timestamp_ms, isolation)
            assert found == self.model.first_at_or_after(timestamp_ms, isolation)

    @invariant()
    def the_offsets_are_those_of_the_model(self) -> None:
        log, model = self.log, self.model
        assert (log.log_start_offset, log.log_end_offset) == (model.start_offset, model.end_offset)
        assert (log.high_watermark, log.last_stable_offset) == (model.high_watermark, model.last_stable_offset)
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset

    # Checks

    def check_records(self, records: bytes, offset: int, end_offset: int, max_bytes: int) -> None:
        """A slice is batches of the model from the right one on, as many as fit, up to the end of a segment at most."""
        readable = self.model.batches_from(offset, end_offset)
        beginnings = {segment.base_offset for segment in self.log.segments}
        expected = b""
        for written in readable:
            if expected and written.base_offset in beginnings:
                break
            expected += written.data
        limit = max(max_bytes, len(readable[0].data)) if readable else 0
        assert records == expected[:limit]

    def check_aborted(self, found: LogSlice, offset: int) -> None:
        """The list of aborted transactions is enough for a consumer, and names none that it has no use for."""
        batches = whole_batches(found.records)
        named = [(each.producer_id, each.first_offset, each.last_offset) for each in found.aborted_transactions]
        assert named == sorted(set(named), key=lambda bounds: bounds[2])
        if not batches:
            assert named == []
            return
        next_offset = batches[-1].header.next_offset
        visible = committed_records(batches, found.aborted_transactions, from_offset=offset)
        assert visible == self.model.committed(offset, next_offset)
        needed = {transaction.bounds for transaction in self.model.aborted(offset, next_offset)}
        bound = min(self.model.last_stable_offset, self.bound_of_slice(len(found.records), batches))
        useful = {transaction.bounds for transaction in self.model.aborted(offset, bound)}
        assert needed <= set(named) <= useful

    def bound_of_slice(self, size_bytes: int, batches: list[RecordBatch]) -> int:
        """Return the offset from which on a transaction certainly has nothing in the slice, by the sparse index.

        With an entry for every batch, that is the end of the first batch that lies wholly behind the slice. Otherwise
        it is at most the end of the segment.
        """
        next_offset = batches[-1].header.next_offset
        beginnings = [segment.base_offset for segment in self.log.segments]
        segment_end = next((base for base in beginnings if base >= next_offset), self.model.end_offset)
        if self.config.index_interval_bytes:
            return segment_end
        is_cut = size_bytes > sum(batch.header.size_bytes for batch in batches)
        behind = [written for written in self.model.written if written.base_offset >= next_offset]
        outside = behind[1:] if is_cut else behind
        return min(segment_end, outside[0].last_offset) if outside else segment_end

    def teardown(self) -> None:
        if hasattr(self, "log"):
            kept = [written.data for written in self.model.written if written.last_offset >= self.log.log_start_offset]
            assert everything(self.log) == b"".join(kept)
            self.log.close()


def between(first: int, last: int, part: float) -> int:
    return first + round(part * (last - first))


TestPartitionLog = PartitionLogMachine.TestCase
