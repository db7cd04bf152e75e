"""The simulated disk forgets exactly what a real one may forget."""

import errno
import random

import pytest

from tests.support.faults import Fault, Operation, Outcome, ProcessKilled, Step
from tests.support.simulated_disk import SimulatedDisk


def nothing() -> bool:
    return False


def everything() -> bool:
    return True


def written(data: bytes, *, sector_bytes: int = 4, flush: bool = True) -> SimulatedDisk:
    """A disk whose `/file` has a durable name and this content."""
    disk = SimulatedDisk(sector_bytes=sector_bytes)
    file = disk.open("/file")
    file.write([data])
    if flush:
        file.flush()
    disk.flush_directory("/")
    return disk


def test_the_death_of_a_process_takes_nothing_that_was_written():
    disk = written(b"abc", flush=False)
    boot_id = disk.boot_id()
    file = disk.open("/file")
    disk.crash_process()
    assert disk.read_bytes("/file") == b"abc"
    assert disk.boot_id() == boot_id
    with pytest.raises(OSError, check=lambda error: error.errno == errno.EBADF):
        file.size()


def test_a_loss_of_power_takes_what_was_not_flushed():
    disk = written(b"abc")
    disk.open("/file").write([b"def"])
    boot_id = disk.boot_id()
    disk.lose_power(nothing)
    assert disk.read_bytes("/file") == b"abc"
    assert disk.boot_id() != boot_id


def test_a_loss_of_power_may_take_nothing():
    disk = written(b"abc")
    disk.open("/file").write([b"def"])
    disk.lose_power(everything)
    assert disk.read_bytes("/file") == b"abcdef"


def test_any_sectors_of_unflushed_writes_may_survive():
    seen = set()
    for seed in range(200):
        disk = written(b"ab")
        disk.open("/file").write([b"cdEFGHij"])
        chance = random.Random(seed)
        disk.lose_power(lambda chance=chance: chance.random() < 0.5)
        seen.add(disk.read_bytes("/file"))
    hole = b"abcd\0\0\0\0ij"
    lengthened = b"abcd" + bytes(6)
    assert {b"ab", b"abcd", b"abcdEFGH", b"abcdEFGHij", hole, lengthened, b"ab\0\0EFGHij"} <= seen
    assert all(content.replace(b"\0", b"") in b"abcdEFGHij" or b"\0" in content for content in seen)


def test_a_cut_may_be_lost_and_what_was_written_after_it_kept():
    disk = written(b"abcdef")
    file = disk.open("/file")
    file.truncate(4)
    file.write([b"XY"])
    answers = iter([False, True])
    disk.lose_power(lambda: next(answers))
    assert disk.read_bytes("/file") == b"abcdXY"


def test_a_name_that_was_not_flushed_may_be_lost_with_its_flushed_bytes():
    disk = SimulatedDisk()
    file = disk.open("/file")
    file.write([b"abc"])
    file.flush()
    assert not crashed(disk, nothing).exists("/file")
    assert crashed(disk, everything).read_bytes("/file") == b"abc"
    disk.flush_directory("/")
    assert crashed(disk, nothing).read_bytes("/file") == b"abc"


def test_a_rename_or_a_removal_that_was_not_flushed_may_be_undone():
    disk = written(b"abc")
    disk.rename("/file", "/other")
    assert crashed(disk, nothing).tree() == {"/file": b"abc"}
    assert crashed(disk, everything).tree() == {"/other": b"abc"}
    disk.flush_directory("/")
    disk.remove("/other")
    assert crashed(disk, nothing).tree() == {"/other": b"abc"}
    assert crashed(disk, everything).tree() == {}


def test_names_are_lost_one_by_one_but_each_in_its_order():
    disk = SimulatedDisk()
    for path in ("/a", "/b"):
        disk.open(path).close()
    disk.rename("/a", "/c")
    answers = iter([False, True])
    # The creation of /a is lost, so its rename cannot survive, and nobody is asked about it.
    disk.lose_power(lambda: next(answers))
    assert list(disk.tree()) == ["/b"]


def test_after_a_failed_flush_another_one_succeeds_without_writing():
    disk = written(b"abc")
    file = disk.open("/file")
    file.write([b"def"])
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH)), pytest.raises(OSError, match="error"):
        file.flush()
    file.write([b"ghi"])
    file.flush()
    assert file.read(0, 10) == b"abcdefghi"
    disk.lose_power(everything)
    assert disk.read_bytes("/file") == b"abc\0\0\0ghi"


def test_a_full_disk_takes_what_fits_and_then_nothing():
    disk = written(b"")
    file = disk.open("/file")
    disk.free_bytes = 5
    assert file.write([b"abc"]) == 3
    assert file.write([b"def"]) == 2
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
        file.write([b"f"])
    disk.free_bytes = None
    assert file.write([b"f"]) == 1
    assert disk.read_bytes("/file") == b"abcdef"


def test_a_fault_strikes_the_operation_that_it_names():
    disk = written(b"")
    file = disk.open("/file")
    fault = Fault(Outcome.FAIL, on=Operation.WRITE, path_ending="ile", skip=1, done_bytes=2, error_number=errno.EIO)
    with disk.injected(fault):
        disk.open("/other").write([b"other"])
        file.write([b"one"])
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EIO):
            file.write([b"two"])
        file.write([b"!"])
    assert disk.read_bytes("/file") == b"onetw!"


def test_a_killed_process_does_nothing_more():
    disk = written(b"")
    file = disk.open("/file")
    with disk.injected(Fault(Outcome.KILL, done_bytes=2)), pytest.raises(ProcessKilled):
        file.write([b"abc"])
    for use in (lambda: file.write([b"x"]), lambda: disk.open("/new"), lambda: disk.remove("/file")):
        with pytest.raises(ProcessKilled):
            use()
    disk.crash_process()
    assert disk.tree() == {"/file": b"ab"}


def test_a_fault_that_never_fires_fails_its_test():
    with pytest.raises(AssertionError, match="never reached"), SimulatedDisk().injected(Fault(Outcome.FAIL)):
        pass


def test_the_trace_has_what_changed_something():
    disk = SimulatedDisk()
    file = disk.open("/file")
    file.write([b"abc"])
    file.read(0, 3)
    disk.open("/file")
    file.flush()
    assert disk.trace == [
        Step(Operation.CREATE, "/file"),
        Step(Operation.WRITE, "/file", 3),
        Step(Operation.FLUSH, "/file"),
    ]


def test_rot_stays_through_everything():
    disk = written(b"abc")
    disk.rot("/file", 1, 0x01)
    assert disk.read_bytes("/file") == b"acc"
    disk.lose_power(nothing)
    assert disk.read_bytes("/file") == b"acc"


def crashed(disk: SimulatedDisk, keeps) -> SimulatedDisk:
    after = disk.copy()
    after.lose_power(keeps)
    return after
