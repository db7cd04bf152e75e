"""The small file of facts that the segments do not tell."""

import msgspec
import pytest

from eagleray.broker.generations import summed
from eagleray.broker.log import LogDamaged
from eagleray.broker.log.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.simulated_disk import SimulatedDisk

FULL = Checkpoint(
    log_start_offset=5, high_watermark=9, recovery_point=7, cleaned_up_to=6, boot_id="a-boot", closed_cleanly=True
)


def test_everything_comes_back() -> None:
    assert Checkpoint.decode(FULL.encode()) == FULL
    assert Checkpoint.decode(Checkpoint().encode()) == Checkpoint()


def test_a_person_can_read_it() -> None:
    assert b'\n  "high_watermark": 9,\n' in FULL.encode()
    assert FULL.encode().endswith(b"}\n")


def test_a_checkpoint_that_says_nothing_promises_nothing() -> None:
    nothing = Checkpoint()
    assert not nothing.closed_cleanly
    assert (nothing.recovery_point, nothing.high_watermark, nothing.log_start_offset) == (0, 0, 0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no checksum"),
        pytest.param(FULL.encode()[:-3], id="torn"),
        pytest.param(summed(b"\xff\xfe"), id="no text"),
        pytest.param(summed(b"[]"), id="another shape"),
        pytest.param(summed(b'{"high_watermark": "nine"}'), id="a wrong type"),
        pytest.param(summed(b'{"high_watermark": 9.5}'), id="a fraction"),
    ],
)
def test_a_damaged_file_is_noticed(data: bytes) -> None:
    assert Checkpoint.decode(data) is None


def test_a_field_of_a_later_release_is_skipped() -> None:
    text = b'{"high_watermark": 9, "invented_later": true}'
    assert Checkpoint.decode(summed(text)) == Checkpoint(high_watermark=9)


def test_every_flipped_bit_is_noticed() -> None:
    data = FULL.encode()
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            assert Checkpoint.decode(bytes(damaged)) is None


# Two generations

PATHS = ("/log/partition-checkpoint", "/log/partition-checkpoint.2")


def written(*watermarks: int) -> tuple[SimulatedDisk, Checkpoint]:
    """Write a generation for each of these high watermarks."""
    disk, checkpoint = SimulatedDisk(), Checkpoint()
    disk.make_directories("/log")
    for high_watermark in watermarks:
        checkpoint = write_checkpoint(disk, "/log", msgspec.structs.replace(checkpoint, high_watermark=high_watermark))
    return disk, checkpoint


def overwrite(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.write((data,))
    file.flush()


def test_newest_generation_counts_and_the_one_before_is_there() -> None:
    for count in range(1, 6):
        disk, checkpoint = written(*range(count))
        read = read_checkpoint(disk, "/log")
        assert (read.checkpoint, read.is_newest) == (checkpoint, True)
        assert len([path for path in PATHS if disk.exists(path)]) == min(count, 2)


@pytest.mark.parametrize("count", [2, 3])
def test_generation_before_counts_where_the_newest_is_damaged(count: int) -> None:
    disk, checkpoint = written(*range(count))
    disk.rot(PATHS[1 - checkpoint.sequence % 2], 20, 0x01)
    read = read_checkpoint(disk, "/log")
    assert (read.checkpoint.high_watermark, read.is_newest) == (count - 2, False)
    again = write_checkpoint(disk, "/log", read.checkpoint)
    read = read_checkpoint(disk, "/log")
    assert (read.checkpoint, read.is_newest) == (again, True), "the damaged one was written over"


@pytest.mark.parametrize("left", [b"", b"garbage", summed(b"[]")], ids=repr)
def test_checkpoint_that_cannot_be_read_is_none_that_was_never_written(left: bytes) -> None:
    disk, _ = written(1, 2)
    for path in PATHS:
        overwrite(disk, path, left)
    with pytest.raises(LogDamaged, match="no checkpoint can be read"):
        read_checkpoint(disk, "/log")


def test_new_directory_needs_no_checkpoint() -> None:
    disk = SimulatedDisk()
    assert read_checkpoint(disk, "/log").checkpoint == Checkpoint(may_have_gaps=False)
    disk.make_directories("/log")
    disk.open(f"/log/{0:020d}.log")
    assert read_checkpoint(disk, "/log").is_newest


def test_batches_without_a_checkpoint_are_no_new_directory() -> None:
    disk, _ = written()
    overwrite(disk, f"/log/{0:020d}.log", b"something")
    with pytest.raises(LogDamaged):
        read_checkpoint(disk, "/log")


def test_checkpoint_of_a_later_release_is_refused_by_its_version() -> None:
    disk, _ = written(1)
    overwrite(disk, PATHS[0], summed(b'{"version": 3, "sequence": 2}'))
    with pytest.raises(LogDamaged, match="version 3, and this release knows 2 at most"):
        read_checkpoint(disk, "/log")


def test_checkpoint_of_version_1_is_read_and_replaced() -> None:
    disk, _ = written()
    overwrite(disk, PATHS[0], summed(b'{"version": 1, "high_watermark": 7, "recovery_point": 5}'))
    first = read_checkpoint(disk, "/log").checkpoint
    assert (first.version, first.high_watermark, first.recovery_point, first.may_have_gaps) == (1, 7, 5, True)
    second = write_checkpoint(disk, "/log", first)
    assert (read_checkpoint(disk, "/log").checkpoint, second.version, second.sequence) == (second, 2, 1)


@pytest.mark.parametrize("keeps", [True, False])
def test_writing_survives_a_crash_at_every_operation(keeps: bool) -> None:
    for count in range(4):
        rehearsal, checkpoint = written(*range(count))
        begun = len(rehearsal.trace)
        write_checkpoint(rehearsal, "/log", checkpoint)
        for number in range(len(rehearsal.trace) - begun):
            disk, checkpoint = written(*range(count))
            with disk.injected(Fault(Outcome.KILL, skip=number, done_bytes=40)), pytest.raises(ProcessKilled):
                write_checkpoint(disk, "/log", checkpoint)
            disk.lose_power(lambda: keeps)
            read = read_checkpoint(disk, "/log")
            assert read.is_newest
            assert read.checkpoint.sequence in (count, count + 1)
