"""Compactions that end at each operation on the disk: nothing is lost, doubled or left lying about."""

import random
from collections.abc import Callable, Iterator
from types import NoneType

import pytest

from eagleray.broker.log import names
from eagleray.broker.log.errors import CompactionFailed, LogError, LogOffline
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled, Step
from tests.support.keyed_log import DIRECTORY, FIRST_TRANSACTIONAL, IDEMPOTENT, KeyedLog, compacting
from tests.support.simulated_disk import SimulatedDisk

ALICE, BOB = FIRST_TRANSACTIONAL, FIRST_TRANSACTIONAL + 1

Prepared = tuple[KeyedLog, SimulatedDisk]


def write_round(keyed: KeyedLog, number: int) -> None:
    """Write some segments, of which little will stay."""
    keyed.put((b"a", bytes(300)), (b"b", b"%d" % number))
    keyed.put((b"a", b"%d" % number), (b"gone", b"1"), producer_id=IDEMPOTENT)
    keyed.put((b"c", bytes(300)), (b"kept %d" % number, b"1"), producer_id=ALICE)
    keyed.put((b"c", b"aborted"), producer_id=BOB)
    keyed.put((b"gone", None), (b"a", bytes(300)))
    keyed.end(BOB, commit=False)
    keyed.roll()
    keyed.end(ALICE, commit=True)
    keyed.put((b"b", bytes(500)))
    keyed.put((None, bytes(500)))
    keyed.roll()
    keyed.replicate()


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    """A log that was compacted, written to and closed; every compaction is of a copy of it."""
    disk = SimulatedDisk()
    keyed = KeyedLog(disk, compacting())
    write_round(keyed, 1)
    write_round(keyed, 2)
    assert keyed.compact()
    write_round(keyed, 3)
    keyed.put((b"a", b"in the active segment"), producer_id=IDEMPOTENT)
    keyed.replicate()
    keyed.log.close()
    return keyed, disk


def finish(keyed: KeyedLog) -> None:
    compaction = keyed.compaction()
    assert compaction is not None
    while compaction.step():
        pass


def reopened(prepared: Prepared) -> Prepared:
    keyed, disk = prepared
    disk = disk.copy()
    keyed = keyed.on(disk)
    keyed.replicate()
    return keyed, disk


def steps_of_a_compaction(prepared: Prepared) -> list[Step]:
    keyed, disk = reopened(prepared)
    disk.trace.clear()
    finish(keyed)
    assert len(disk.trace) > 50
    return list(disk.trace)


def killed_at_each_step(prepared: Prepared) -> Iterator[Prepared]:
    """Yield the log as it is when the process has died before each step on the disk, or in the middle of a write."""
    for number, step in enumerate(steps_of_a_compaction(prepared)):
        for done_bytes in {0, step.size_bytes // 2}:
            keyed, disk = reopened(prepared)
            fault = Fault(Outcome.KILL, skip=number, done_bytes=done_bytes)
            with disk.injected(fault), pytest.raises(ProcessKilled):
                finish(keyed)
            yield keyed, disk


def check_recovered(crashed: KeyedLog, disk: SimulatedDisk) -> None:
    """Open the log again and compare it; then let a compaction come to its end."""
    keyed = crashed.on(disk)
    assert keyed.log.log_end_offset == crashed.log.log_end_offset
    keyed.replicate()
    assert not leftovers(disk)
    keyed.check()
    assert keyed.producers() == crashed.producers()
    segments = keyed.log.segments
    ends = [list(segment.headers())[-1][1].next_offset for segment in segments[:-1]]
    assert ends == [segment.base_offset for segment in segments[1:]]
    keyed.compact()
    keyed.check()
    keyed.check_compacted()
    keyed.check_snapshots()
    assert keyed.log.cleaned_up_to == segments[-1].base_offset
    assert not leftovers(disk)


def leftovers(disk: SimulatedDisk) -> list[str]:
    found = disk.list_directory(DIRECTORY)
    logs = {name.split(".")[0] for name in found if name.endswith(names.LOG_SUFFIX)}
    return [
        name
        for name in found
        if name.endswith((names.CLEANED_SUFFIX, names.SWAP_SUFFIX, names.TEMPORARY_SUFFIX))
        or (name.endswith(names.INDEX_SUFFIXES) and name.split(".")[0] not in logs)
    ]


def test_the_process_dies(prepared: Prepared) -> None:
    for keyed, disk in killed_at_each_step(prepared):
        disk.crash_process()
        check_recovered(keyed, disk)


@pytest.mark.parametrize("seed", ["nothing", 1, 2])
def test_the_power_fails(prepared: Prepared, seed: str | int) -> None:
    """What was not flushed survives or not, each sector and each name by itself."""
    for number, (keyed, disk) in enumerate(killed_at_each_step(prepared)):
        disk.lose_power(keeper(seed, number))
        check_recovered(keyed, disk)


def keeper(seed: str | int, number: int) -> Callable[[], bool]:
    if seed == "nothing":
        return lambda: False
    chance = random.Random(f"{seed}-{number}")
    return lambda: chance.random() < 0.5


def test_the_power_fails_before_what_supersedes_was_flushed(prepared: Prepared) -> None:
    """A value that was on stable storage gives way only to one that is as well."""
    kept = newest_offsets(reopened(prepared)[0])
    keyed, disk = reopened(prepared)
    write_round(keyed, 4)
    for crashed, its_disk in killed_at_each_step((keyed, disk)):
        its_disk.lose_power(lambda: False)
        found = newest_offsets(crashed.on(its_disk))
        assert all(found[key] >= offset for key, offset in kept.items())


def newest_offsets(keyed: KeyedLog) -> dict[bytes, int]:
    keyed.replicate()
    return {record.key: record.offset for record in keyed.committed() if record.key is not None}


@pytest.mark.parametrize("is_lasting", [False, True])
def test_the_disk_refuses_an_operation(prepared: Prepared, is_lasting: bool) -> None:
    """The log serves on, or is offline and can be opened again; either way nothing is lost."""
    written = reopened(prepared)
    # This is not flushed yet, and so the compaction has to.
    write_round(written[0], 4)
    outcomes = set()
    for number, step in enumerate(steps_of_a_compaction(written)):
        for done_bytes in {0, step.size_bytes // 2}:
            keyed, disk = reopened(written)
            fault = Fault(Outcome.FAIL, skip=number, done_bytes=done_bytes, is_lasting=is_lasting)
            with disk.injected(fault):
                error = error_of_a_compaction(keyed)
            outcomes.add((type(error), keyed.log.is_online))
            if keyed.log.is_online:
                keyed.check()
                keyed.put((b"a", b"the log serves on"))
                keyed.replicate()
            else:
                disk.crash_process()
            check_recovered(keyed, disk)
    # What is not needed any more and cannot be removed disturbs nobody.
    expected = {(LogOffline, False), (CompactionFailed, True), (NoneType, True)}
    assert outcomes == (expected if not is_lasting else expected - {(NoneType, True)})


def error_of_a_compaction(keyed: KeyedLog) -> LogError | None:
    try:
        finish(keyed)
    except LogError as error:
        return error
    return None


def test_the_disk_is_full(prepared: Prepared) -> None:
    for free_bytes in (0, 1, 100, 300):
        keyed, disk = reopened(prepared)
        disk.free_bytes = free_bytes
        with pytest.raises(CompactionFailed):
            finish(keyed)
        assert keyed.log.is_online
        keyed.check()
        assert not leftovers(disk)
        disk.free_bytes = None
        check_recovered(keyed, disk)


def test_half_a_swap_is_not_taken_for_a_whole_one(prepared: Prepared) -> None:
    """Indexes under `.swap` names without a log were never decided about."""
    keyed, disk = reopened(prepared)
    with (
        disk.injected(Fault(Outcome.KILL, on=Operation.RENAME, path_ending=".log.swap")),
        pytest.raises(ProcessKilled),
    ):
        finish(keyed)
    found = disk.list_directory(DIRECTORY)
    assert any(name.endswith(".index.swap") for name in found)
    assert any(name.endswith(".log.cleaned") for name in found)
    disk.crash_process()
    check_recovered(keyed, disk)
