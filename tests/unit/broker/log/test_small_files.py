"""The small files of a log that decide about data: damaged, of an earlier release, and half migrated."""

import msgspec
import pytest

from eagleray.broker.generations import summed
from eagleray.broker.log import LogConfig, LogDamaged, PartitionLog, Surroundings
from eagleray.broker.log.checkpoint import Checkpoint, read_checkpoint
from eagleray.broker.log.leader_epochs import EpochStart
from tests.support.batches import NOW_MS, data_batch, offsets_of
from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.logs import DIRECTORY, OpenLog, append, everything
from tests.support.simulated_disk import SimulatedDisk

SMALL = {"segment_bytes": 1024, "index_interval_bytes": 0}
CHECKPOINTS = (f"{DIRECTORY}/partition-checkpoint", f"{DIRECTORY}/partition-checkpoint.2")
LARGE_VALUE = bytes(900)
OLD_FIELDS = (
    "log_start_offset",
    "high_watermark",
    "recovery_point",
    "cleaned_up_to",
    "boot_id",
    "closed_cleanly",
    "failed_flush_boot_id",
    "flushes_first",
)


def fill(log: PartitionLog) -> None:
    for epoch in (1, 1, 4, 6):
        append(log, data_batch(value=LARGE_VALUE), leader_epoch=epoch)
    log.advance_high_watermark(4)
    log.delete_records(1)
    log.write_checkpoint()


def overwrite(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.write((data,))
    file.flush()


def as_version_1(disk: SimulatedDisk) -> None:
    """Leave the checkpoint as the release before wrote it."""
    newest = msgspec.to_builtins(read_checkpoint(disk, DIRECTORY).checkpoint)
    old = {"version": 1, **{field: newest[field] for field in OLD_FIELDS}}
    disk.remove(CHECKPOINTS[1])
    overwrite(disk, CHECKPOINTS[0], summed(msgspec.json.encode(old)))
    disk.flush_directory(DIRECTORY)


def test_damaged_checkpoint_is_not_taken_for_none(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """Its log start and its high watermark would fall to 0."""
    fill(open_log(**SMALL))
    disk.crash_process()
    for path in CHECKPOINTS:
        overwrite(disk, path, b"")
    before = disk.tree()
    with pytest.raises(LogDamaged, match=r"eagleray storage repair .* --accept-loss"):
        open_log(**SMALL)
    assert disk.tree() == before


@pytest.mark.parametrize("reboots", [False, True])
def test_generation_before_serves_where_the_newest_is_damaged(
    open_log: OpenLog, disk: SimulatedDisk, reboots: bool
) -> None:
    log = open_log(**SMALL)
    fill(log)
    newest = read_checkpoint(disk, DIRECTORY).checkpoint.sequence
    disk.lose_power(lambda: True) if reboots else disk.crash_process()
    disk.rot(CHECKPOINTS[1 - newest % 2], 30, 0x01)
    again = open_log(**SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (1, 4)
    assert again.recovery.scanned_bytes == again.size_bytes, "less may have been certain than it says"
    append(again, data_batch(), leader_epoch=6)
    again.write_checkpoint()
    assert read_checkpoint(disk, DIRECTORY).is_newest


def test_person_may_give_up_a_checkpoint(open_log: OpenLog, disk: SimulatedDisk) -> None:
    fill(open_log(**SMALL))
    disk.crash_process()
    for path in CHECKPOINTS:
        overwrite(disk, path, b"")
    overwrite(disk, f"{DIRECTORY}/accept-loss", b"checkpoint\n")
    again = open_log(**SMALL)
    assert (again.log_start_offset, again.log_end_offset, again.high_watermark) == (1, 4, 1)
    assert offsets_of(everything(again)) == [1, 2, 3]
    assert not disk.exists(f"{DIRECTORY}/accept-loss")
    again.close()
    assert open_log(**SMALL).recovery.scanned_bytes == 0


def test_damaged_epochs_come_from_the_checkpoint_where_no_batch_tells(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log)
    expected = [EpochStart(1, 1), EpochStart(4, 2), EpochStart(6, 3)]
    assert list(log.epochs) == expected
    # An epoch of which compaction has left no batch.
    log.epochs.assign(8, 4)
    append(log, data_batch(), leader_epoch=9)
    log.write_checkpoint()
    disk.crash_process()
    disk.rot(f"{DIRECTORY}/leader-epoch-checkpoint", 5, 0x01)
    assert list(open_log(**SMALL).epochs) == [*expected, EpochStart(9, 4)]


def test_epochs_behind_a_cut_are_not_in_the_second_copy(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log)
    log.truncate(2, now_ms=NOW_MS)
    assert read_checkpoint(disk, DIRECTORY).checkpoint.epochs == ((1, 1),)


def test_checkpoint_keeps_the_id_of_the_topic(disk: SimulatedDisk) -> None:
    known = Surroundings(topic_id=bytes(range(16)))
    log = PartitionLog.open(disk, DIRECTORY, LogConfig(), now_ms=NOW_MS, surroundings=known)
    append(log, data_batch())
    assert read_checkpoint(disk, DIRECTORY).checkpoint.topic_id == bytes(range(16)).hex()


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("keeps", [None, False, True], ids=["killed", "nothing unflushed left", "all left"])
def test_log_of_the_release_before_is_migrated_whenever_that_is_interrupted(
    open_log: OpenLog, disk: SimulatedDisk, closes: bool, keeps: bool | None
) -> None:
    log = open_log(**SMALL)
    fill(log)
    log.close() if closes else log.flush()
    disk.crash_process()
    as_version_1(disk)

    def migrate(on: SimulatedDisk) -> None:
        opened = PartitionLog.open(on, DIRECTORY, LogConfig(**SMALL), now_ms=NOW_MS)
        append(opened, data_batch(), leader_epoch=6)
        opened.write_checkpoint()
        opened.close()

    rehearsal = disk.copy()
    begun = len(rehearsal.trace)
    migrate(rehearsal)
    for number in range(len(rehearsal.trace) - begun):
        crashed = disk.copy()
        with crashed.injected(Fault(Outcome.KILL, skip=number, done_bytes=1)), pytest.raises(ProcessKilled):
            migrate(crashed)
        crashed.crash_process() if keeps is None else crashed.lose_power(lambda: bool(keeps))
        again = PartitionLog.open(crashed, DIRECTORY, LogConfig(**SMALL), now_ms=NOW_MS)
        assert again.log_start_offset == 1
        assert again.log_end_offset in (4, 5)
        assert offsets_of(everything(again))[:3] == [1, 2, 3]
    assert read_checkpoint(rehearsal, DIRECTORY).checkpoint.version == Checkpoint().version
