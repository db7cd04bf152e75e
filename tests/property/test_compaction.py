"""Whatever is written and whenever it is compacted, a reader ends up with the same value of each key."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from unittest import mock

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st

from eagleray.broker.log import compaction as compaction_module
from eagleray.broker.log import names
from eagleray.broker.log.config import TimestampType
from eagleray.protocol.records import CompressionType
from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.keyed_log import (
    DELETE_RETENTION_MS,
    DIRECTORY,
    FIRST_TRANSACTIONAL,
    IDEMPOTENT,
    NO_PRODUCER,
    KeyAndValue,
    KeyedLog,
    compacting,
)
from tests.support.simulated_disk import SimulatedDisk

TRANSACTIONAL = (FIRST_TRANSACTIONAL, FIRST_TRANSACTIONAL + 1, FIRST_TRANSACTIONAL + 2)


class Put(msgspec.Struct, frozen=True):
    producer_id: int
    pairs: tuple[KeyAndValue, ...]
    compression: CompressionType


class End(msgspec.Struct, frozen=True):
    producer_id: int
    commit: bool
    bump: bool


class Roll(msgspec.Struct, frozen=True):
    pass


class Replicate(msgspec.Struct, frozen=True):
    pass


class Wait(msgspec.Struct, frozen=True):
    waited_ms: int


class DeleteRecords(msgspec.Struct, frozen=True):
    percent: int


class Compact(msgspec.Struct, frozen=True):
    """A compaction with other steps between its own; where they end it is given up, or comes to its end.

    With `ended`, it begins when all transactions are, and everything is replicated and in closed segments.
    """

    max_keys: int
    ended: tuple[bool, ...]
    between: tuple["Write", ...]
    to_its_end: bool


class Reopen(msgspec.Struct, frozen=True):
    closed: bool


Write = Put | End | Roll | Replicate | DeleteRecords
Step = Write | Wait | Compact | Reopen

# Longer than a digest or shorter, empty or missing; few, so that they meet again.
keys = st.sampled_from([b"a", b"b", b"", b"a key that is longer than its digest", None])
values = st.one_of(st.none(), st.binary(max_size=3), st.just(bytes(200)))
puts = st.builds(
    Put,
    producer_id=st.sampled_from([NO_PRODUCER, IDEMPOTENT, *TRANSACTIONAL]),
    pairs=st.lists(st.tuples(keys, values), min_size=1, max_size=3).map(tuple),
    compression=st.sampled_from([CompressionType.NONE, CompressionType.NONE, CompressionType.LZ4]),
)
ends = st.builds(End, producer_id=st.sampled_from(TRANSACTIONAL), commit=st.booleans(), bump=st.booleans())
writes = st.one_of(
    puts,
    puts,
    puts,
    ends,
    ends,
    st.just(Roll()),
    st.just(Replicate()),
    st.builds(DeleteRecords, percent=st.integers(0, 60)),
)
compacts = st.builds(
    Compact,
    max_keys=st.sampled_from([1, 2, 100, 100]),
    ended=st.one_of(st.tuples(*[st.booleans()] * len(TRANSACTIONAL)), st.just(())),
    between=st.lists(writes, max_size=4).map(tuple),
    to_its_end=st.sampled_from([True, True, False]),
)
waits = st.builds(Wait, waited_ms=st.sampled_from([2 * DELETE_RETENTION_MS, DELETE_RETENTION_MS // 2, 1]))
reopens = st.builds(Reopen, closed=st.booleans())


@st.composite
def workloads(draw: st.DrawFn) -> list[Step]:
    """Draw rounds of writing, compacting and something that a later compaction may notice."""
    workload: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        workload += draw(st.lists(writes, min_size=1, max_size=12))
        workload += draw(st.lists(compacts, min_size=1, max_size=2))
        workload += draw(st.lists(st.one_of(waits, reopens), max_size=2))
    return workload


class Driver:
    """Takes steps on a log and checks it after each that could break it."""

    def __init__(self, disk: SimulatedDisk, timestamp_type: TimestampType) -> None:
        self.disk = disk
        self.keyed = KeyedLog(disk, compacting(message_timestamp_type=timestamp_type))

    def take(self, step: Step) -> None:
        keyed = self.keyed
        match step:
            case Put(producer_id, pairs, compression):
                keyed.put(*pairs, producer_id=producer_id, compression=compression)
            case End(producer_id, commit, bump):
                keyed.end(producer_id, commit=commit, bump=bump)
            case Roll():
                keyed.roll()
            case Replicate():
                keyed.replicate()
            case Wait(waited_ms):
                keyed.now_ms += waited_ms
            case DeleteRecords(percent):
                start_offset = keyed.log.log_start_offset
                keyed.log.delete_records(start_offset + (keyed.log.high_watermark - start_offset) * percent // 100)
            case Compact(max_keys, ended, between, to_its_end):
                if ended:
                    self.end_all(ended)
                self._compact(max_keys, between, to_its_end=to_its_end)
            case Reopen(closed):
                self.reopen(closed=closed)

    def end_all(self, ended: tuple[bool, ...]) -> None:
        """End the open transactions, replicate everything and begin a new segment, so that all can be compacted."""
        for producer_id, commit in zip(TRANSACTIONAL, ended, strict=True):
            if producer_id in self.keyed.senders and self.keyed.senders[producer_id].undecided:
                self.keyed.end(producer_id, commit=commit)
        self.keyed.roll()
        self.keyed.replicate()

    def _compact(self, max_keys: int, between: tuple[Write, ...], *, to_its_end: bool) -> None:
        compaction = self.keyed.compaction(max_keys=max_keys)
        if compaction is None:
            return
        begun_ms = self.keyed.now_ms
        has_more = True
        for step in between:
            has_more = compaction.step()
            self.take(step)
            self.keyed.check()
        while has_more and to_its_end:
            has_more = compaction.step()
            self.keyed.check()
        compaction.stop()
        assert not leftovers(self.disk)
        if compaction.report.cleaned_up_to is not None:
            event("a compaction came to its end")
            self.keyed.compacted(compaction)
            self.keyed.check_compacted()
            self.keyed.check_snapshots()
            self.keyed.check_tombstones(seen_at_ms=begun_ms)

    def reopen(self, *, closed: bool, lost: tuple[str, ...] = ()) -> None:
        """Open the log again after it was closed or its process died, and files with these endings were lost."""
        before = self.keyed.producers()
        high_watermark = self.keyed.log.high_watermark
        if closed:
            self.keyed.log.close()
        else:
            self.disk.crash_process()
        for path in self.disk.tree():
            if path.endswith(lost):
                self.disk.remove(path)
        self.keyed.open()
        self.keyed.log.advance_high_watermark(high_watermark)
        assert self.keyed.producers() == before


@contextmanager
def small_steps() -> Iterator[None]:
    """Have compactions do so little in one step that much can happen between them."""
    with mock.patch.object(compaction_module, "STEP_BYTES", 300):
        yield


def leftovers(disk: SimulatedDisk) -> list[str]:
    """Return files that a compaction or a crash should not have left behind."""
    endings = (names.CLEANED_SUFFIX, names.SWAP_SUFFIX, names.TEMPORARY_SUFFIX)
    found = disk.list_directory(DIRECTORY)
    logs = {name.split(".")[0] for name in found if name.endswith(names.LOG_SUFFIX)}
    return [
        name
        for name in found
        if name.endswith(endings) or (name.endswith(names.INDEX_SUFFIXES) and name.split(".")[0] not in logs)
    ]


@given(workloads(), st.sampled_from(TimestampType))
def test_compaction_changes_nothing_that_a_reader_keeps(workload: list[Step], timestamp_type: TimestampType) -> None:
    driver = Driver(SimulatedDisk(), timestamp_type)
    with small_steps():
        for step in workload:
            driver.take(step)
            driver.keyed.check()
        driver.reopen(closed=False, lost=names.INDEX_SUFFIXES)
        driver.keyed.check()
        if not driver.keyed.log.log_start_offset:
            # Of a producer whose records were deleted on request, nothing but the snapshots would tell.
            driver.reopen(closed=False, lost=(names.SNAPSHOT_SUFFIX,))
            driver.keyed.check()


@given(workloads(), st.integers(0, 60), st.one_of(st.none(), st.randoms(use_true_random=False)))
def test_a_crash_in_a_compaction_loses_nothing(workload: list[Step], skip: int, power: Random | None) -> None:
    """The process dies at some operation on the disk; with `power` the machine does, and forgets at random."""
    driver = Driver(SimulatedDisk(), TimestampType.CREATE_TIME)
    disk, keyed = driver.disk, driver.keyed
    for step in workload:
        driver.take(step)
    driver.end_all((True, False, True))
    driver.reopen(closed=True)
    end_offset, before = keyed.log.log_end_offset, keyed.producers()
    with disk.possibly(Fault(Outcome.KILL, skip=skip)) as fault, suppress(ProcessKilled):
        keyed.compact()
    event(f"killed: {fault.has_fired}")
    if power is None:
        disk.crash_process()
    else:
        disk.lose_power(lambda: power.random() < 0.5)
    keyed.open()
    keyed.replicate()
    assert keyed.log.log_end_offset == end_offset
    assert keyed.producers() == before
    assert not leftovers(disk)
    keyed.check()
    keyed.compact()
    keyed.check()
    keyed.check_compacted()
