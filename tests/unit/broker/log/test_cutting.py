"""A log that is not valid up to where it should be: what is cut, what is kept of it, and when nothing is touched."""

import pytest

from eagleray.broker.log import Flush, LogConfig, PartitionLog
from eagleray.broker.log.bookmark import read_bookmark
from eagleray.broker.log.cutting import TORN_KEPT, kept_files
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.settling import Surroundings
from eagleray.broker.log.torn_or_rotten import Verdict
from eagleray.protocol.records import place_in
from tests.support.batches import NOW_MS, data_batch, offsets_of, placed
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.logs import DIRECTORY, OpenLog, append, base_offsets, everything
from tests.support.simulated_disk import SimulatedDisk

SMALL = {"segment_bytes": 1024, "index_interval_bytes": 0}
COMMIT = {**SMALL, "flush": Flush.COMMIT}
LARGE_VALUE = bytes(600)
SEGMENTS = 9
OTHERS = Surroundings(others_in_sync=True)


def log_file(base_offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def fill(log: PartitionLog, count: int, *, leader_epoch: int = 0) -> None:
    """Append batches, each in a segment of its own."""
    for _ in range(count):
        append(log, data_batch(value=LARGE_VALUE), leader_epoch=leader_epoch)


def everything_written() -> bool:
    return True


def open_beside_others(disk: SimulatedDisk, **settings: object) -> PartitionLog:
    return PartitionLog.open(disk, DIRECTORY, LogConfig(**settings), now_ms=NOW_MS, surroundings=OTHERS)


def accept(disk: SimulatedDisk, offset: int) -> None:
    file = disk.open(f"{DIRECTORY}/accept-loss")
    file.truncate(0)
    file.write((b"%d\n" % offset,))
    file.close()


def sizes(disk: SimulatedDisk) -> dict[str, int]:
    """The files of batches, and all that is kept."""
    return {
        path.rsplit("/", 1)[1]: len(data)
        for path, data in disk.tree().items()
        if path.endswith((".log", ".cut", ".torn"))
    }


# One rotten byte


def test_rotten_byte_and_another_boot_cut_no_flushed_segment(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, SEGMENTS)
    log.flush()
    log.write_checkpoint()
    disk.lose_power(everything_written)
    disk.rot(log_file(SEGMENTS - 1), 100, 0xFF)
    before = disk.tree()
    with pytest.raises(LogDamaged, match=f"accept the loss of everything from offset {SEGMENTS - 1} on"):
        open_log(**SMALL)
    assert disk.tree() == before


def test_unflushed_end_of_a_sole_replica_is_kept_as_files(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, SEGMENTS)
    whole = {name: size for name, size in sizes(disk).items() if name.endswith(".log")}
    disk.lose_power(everything_written)
    disk.rot(log_file(1), 100, 0xFF)
    again = open_log(**SMALL)
    assert (again.log_end_offset, base_offsets(again)) == (1, [0, 1])
    recovery = again.recovery
    assert (recovery.verdict, recovery.cut_segments) == (Verdict.CUT_UNFLUSHED, SEGMENTS - 2)
    assert recovery.cut_bytes == sum(sizes(disk)[name] for name in recovery.kept_files)
    kept = [name.replace(".cut", ".log") for name in recovery.kept_files]
    assert {name: sizes(disk)[name.replace(".log", ".cut")] for name in kept} == {name: whole[name] for name in kept}
    assert [name for name in disk.list_directory(DIRECTORY) if name.endswith(".snapshot")] == [
        "00000000000000000001.snapshot"
    ]
    append(again, data_batch())
    disk.lose_power(everything_written)
    assert (open_log(**SMALL).log_end_offset, kept_files(disk, DIRECTORY)) == (2, list(recovery.kept_files))


def test_second_loss_at_the_same_offset_keeps_what_the_first_has_kept(open_log: OpenLog, disk: SimulatedDisk) -> None:
    for value in (b"a", b"b"):
        log = open_log(**SMALL)
        append(log, data_batch(value=value * 100), data_batch(value=value))
        disk.lose_power(everything_written)
        disk.rot(log_file(0), 100, 0xFF)
        assert open_log(**SMALL).log_end_offset == 0
    assert kept_files(disk, DIRECTORY) == ["00000000000000000000.cut", "00000000000000000000.cut.1"]


@pytest.mark.parametrize("settings", [SMALL, COMMIT], ids=["os", "commit"])
def test_unflushed_end_that_others_have_is_cut_and_followed(disk: SimulatedDisk, settings: dict) -> None:
    log = open_beside_others(disk, **settings)
    append(log, data_batch(), data_batch(), data_batch())
    disk.lose_power(everything_written)
    disk.rot(log_file(0), log.size_bytes // 3 + 30, 0xFF)
    again = open_beside_others(disk, **settings)
    assert (again.log_end_offset, again.recovery.verdict) == (1, Verdict.CUT_AND_FOLLOW)
    assert sizes(disk)[again.recovery.kept_files[0]] == log.size_bytes // 3 * 2


def test_log_that_flushes_first_waits_for_a_person_where_valid_batches_lie_behind(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log(**COMMIT)
    append(log, data_batch(), data_batch(), data_batch())
    disk.lose_power(everything_written)
    disk.rot(log_file(0), log.size_bytes // 3 + 30, 0xFF)
    before = disk.tree()
    with pytest.raises(LogDamaged, match=r"from offset 1 on: `eagleray storage repair .* --accept-loss"):
        open_log(**COMMIT)
    assert disk.tree() == before
    accept(disk, 2)
    with pytest.raises(LogDamaged):
        open_log(**COMMIT)
    accept(disk, 1)
    again = open_log(**COMMIT)
    assert (again.log_end_offset, again.recovery.is_loss_accepted) == (1, True)
    assert not disk.exists(f"{DIRECTORY}/accept-loss")
    assert sizes(disk)["00000000000000000001.cut"] == log.size_bytes // 3 * 2


def test_log_that_flushes_first_cuts_a_last_batch_that_it_never_flushed(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**COMMIT)
    append(log, data_batch(), data_batch())
    disk.lose_power(everything_written)
    disk.rot(log_file(0), log.size_bytes // 2 + 30, 0xFF)
    again = open_log(**COMMIT)
    assert (again.log_end_offset, again.recovery.verdict) == (1, Verdict.CUT)
    assert kept_files(disk, DIRECTORY) == ["00000000000000000001.torn"]


# The same boot


def test_valid_batch_behind_a_bad_one_is_no_torn_write(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    append(log, data_batch(), data_batch(), data_batch())
    disk.crash_process()
    disk.rot(log_file(0), log.size_bytes // 3 + 30, 0xFF)
    before = disk.tree()
    with pytest.raises(LogDamaged):
        open_log(**SMALL)
    with pytest.raises(LogDamaged, match="is damaged"):
        open_beside_others(disk, **SMALL)
    assert disk.tree() == before


@pytest.mark.parametrize("position", range(8, 12))
@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_wrong_length_does_not_pass_for_a_torn_write(
    open_log: OpenLog, disk: SimulatedDisk, position: int, mask: int
) -> None:
    log = open_log(**SMALL)
    append(log, data_batch(), data_batch(), data_batch())
    disk.crash_process()
    disk.rot(log_file(0), log.size_bytes // 3 + position, mask)
    with pytest.raises(LogDamaged):
        open_log(**SMALL)


def test_batches_among_the_records_of_a_torn_one_are_not_taken_for_those_of_the_log(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    """A producer may send the bytes of another log."""
    log = open_log()
    append(log, data_batch())
    size_bytes = log.size_bytes
    inner = bytearray(bytes(data_batch().view))
    place_in(inner, 0, 1, 0)
    fault = Fault(Outcome.KILL, on=Operation.WRITE, path_ending=".log", done_bytes=300)
    with disk.injected(fault), pytest.raises(ProcessKilled):
        append(log, data_batch(value=bytes(inner) + bytes(600)))
    disk.crash_process()
    again = open_log()
    assert (again.log_end_offset, again.size_bytes) == (1, size_bytes)
    assert (again.recovery.verdict, again.recovery.cut_bytes) == (Verdict.CUT, 300)


@pytest.mark.parametrize("known_by", ["high watermark", "recovery point", "bookmark"])
def test_batch_that_is_known_to_have_been_there_is_no_torn_write(
    open_log: OpenLog, disk: SimulatedDisk, known_by: str
) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    if known_by == "bookmark":
        log.write_bookmark()
    elif known_by == "recovery point":
        log.flush()
    else:
        log.advance_high_watermark(2)
    if known_by != "bookmark":
        log.write_checkpoint()
    disk.crash_process()
    disk.rot(log_file(0), log.size_bytes // 2 + 30, 0xFF)
    if known_by == "bookmark":
        # As long as the batch at the bookmark looks as it did, nobody looks at what lies before.
        disk.rot(log_file(0), log.size_bytes // 2 + 5, 0xFF)
        assert read_bookmark(disk, DIRECTORY) is not None
    before = disk.tree()
    with pytest.raises(LogDamaged):
        open_log()
    assert disk.tree() == before


def test_nothing_is_cut_as_torn_where_the_bookmark_is_damaged_that_says_how_far_the_log_went(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    """Both generations of what the bookmark guards may be gone with it: the stop may lie before its end."""
    log = open_log()
    append(log, data_batch(), data_batch())
    log.write_bookmark()
    disk.crash_process()
    disk.rot(log_file(0), log.size_bytes // 2 + 30, 0xFF)
    disk.rot(f"{DIRECTORY}/segment-bookmark", 20, 0xFF)
    before = disk.tree()
    with pytest.raises(LogDamaged, match="is not valid; nothing was changed"):
        open_log()
    assert disk.tree() == before


def test_log_with_a_damaged_bookmark_opens_where_all_its_batches_are_whole(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    log.write_bookmark()
    disk.crash_process()
    disk.rot(f"{DIRECTORY}/segment-bookmark", 20, 0xFF)
    assert open_log().log_end_offset == 2


def test_bookmark_that_a_loss_of_power_has_torn_makes_no_torn_write_of_the_next_boot_a_damage(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, data_batch())
    log.close()
    disk.rot(f"{DIRECTORY}/segment-bookmark", 20, 0xFF)
    disk.lose_power(lambda: True)
    log = open_log()
    append(log, data_batch())
    fault = Fault(Outcome.KILL, on=Operation.WRITE, path_ending=".log", done_bytes=10)
    with disk.injected(fault), pytest.raises(ProcessKilled):
        append(log, data_batch())
    disk.crash_process()
    again = open_log()
    assert (again.log_end_offset, again.recovery.verdict) == (2, Verdict.CUT)


def test_file_that_lost_its_end_is_damaged(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """What is left is whole, so that only the high watermark tells."""
    log = open_log()
    append(log, data_batch(), data_batch(), data_batch())
    log.advance_high_watermark(3)
    log.write_checkpoint()
    disk.crash_process()
    disk.open(log_file(0)).truncate(log.size_bytes // 3)
    with pytest.raises(LogDamaged, match="it ends at 1, and the log went on to 3"):
        open_log()


def test_torn_ends_are_kept_and_the_oldest_go(open_log: OpenLog, disk: SimulatedDisk) -> None:
    for number in range(TORN_KEPT + 3):
        log = open_log()
        append(log, data_batch())
        torn = Fault(Outcome.KILL, on=Operation.WRITE, path_ending=".log", done_bytes=20 + number)
        with disk.injected(torn), pytest.raises(ProcessKilled):
            append(log, data_batch())
        disk.crash_process()
    again = open_log()
    assert len(kept_files(disk, DIRECTORY)) == TORN_KEPT
    newest = f"{again.log_end_offset:020d}.torn"
    assert kept_files(disk, DIRECTORY)[-1] == newest
    assert sizes(disk)[newest] == 20 + TORN_KEPT + 2


# Closed segments


def test_person_may_give_up_what_lies_behind_a_damaged_closed_segment(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, SEGMENTS)
    log.advance_high_watermark(SEGMENTS)
    log.close()
    disk.remove(log_file(4, ".index"))
    disk.rot(log_file(4), 100, 0xFF)
    with pytest.raises(LogDamaged, match="from offset 4 on"):
        open_log(**SMALL)
    accept(disk, 4)
    again = open_log(**SMALL)
    assert (again.log_end_offset, again.high_watermark, again.recovery_point) == (4, 4, 4)
    assert (again.recovery.is_loss_accepted, again.recovery.cut_segments) == (True, SEGMENTS - 5)
    assert len(again.recovery.kept_files) == SEGMENTS - 4
    assert offsets_of(everything(again)) == [0, 1, 2, 3]
    assert append(again, data_batch())[0].base_offset == 4


def test_accepted_cut_survives_a_crash_at_every_operation(disk: SimulatedDisk) -> None:
    """Either the log is still as it was, or it is cut; what lay behind is there in either case."""
    log = PartitionLog.open(disk, DIRECTORY, LogConfig(**SMALL), now_ms=NOW_MS)
    fill(log, SEGMENTS)
    log.advance_high_watermark(SEGMENTS)
    log.close()
    disk.remove(log_file(4, ".index"))
    disk.rot(log_file(4), 100, 0xFF)
    accept(disk, 4)
    disk.flush_directory(DIRECTORY)
    rehearsal = disk.copy()
    begun = len(rehearsal.trace)
    PartitionLog.open(rehearsal, DIRECTORY, LogConfig(**SMALL), now_ms=NOW_MS)
    kept_bytes = sum(size for name, size in sizes(rehearsal).items())
    for number in range(len(rehearsal.trace) - begun):
        for done_bytes in (0, 1):
            crashed = disk.copy()
            with (
                crashed.injected(Fault(Outcome.KILL, skip=number, done_bytes=done_bytes)),
                pytest.raises(ProcessKilled),
            ):
                PartitionLog.open(crashed, DIRECTORY, LogConfig(**SMALL), now_ms=NOW_MS)
            crashed.crash_process()
            again = PartitionLog.open(crashed, DIRECTORY, LogConfig(**SMALL), now_ms=NOW_MS)
            assert again.log_end_offset == 4
            assert sum(size for name, size in sizes(crashed).items()) >= kept_bytes


# What no checksum covers


def test_gap_in_a_log_that_was_never_compacted_is_damage(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), data_batch())
    size_bytes = log.size_bytes // 3
    disk.crash_process()
    data = disk.tree()[log_file(0)]
    file = disk.open(log_file(0))
    file.truncate(size_bytes)
    file.write((data[2 * size_bytes :],))
    with pytest.raises(LogDamaged):
        open_log()


def test_gap_that_a_leader_has_sent_is_none_after_a_crash(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    assert not log.may_have_gaps
    log.append_replicated([placed(data_batch(), 7, 0)], now_ms=NOW_MS)
    disk.lose_power(everything_written)
    again = open_log()
    assert (again.may_have_gaps, again.log_end_offset) == (True, 8)


@pytest.mark.parametrize("mask", [0x01, 0x10])
def test_epoch_that_falls_is_damage(open_log: OpenLog, disk: SimulatedDisk, mask: int) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), data_batch(), leader_epoch=17)
    disk.crash_process()
    disk.rot(log_file(0), log.size_bytes // 3 + 15, mask)
    with pytest.raises(LogDamaged):
        open_log()


def test_epoch_that_the_partition_never_had_is_damage(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), leader_epoch=3)
    disk.crash_process()
    disk.rot(log_file(0), log.size_bytes // 2 + 15, 0x10)
    known = Surroundings(latest_epoch=3)
    with pytest.raises(LogDamaged):
        PartitionLog.open(disk, DIRECTORY, LogConfig(), now_ms=NOW_MS, surroundings=known)


# Segments that are gone


@pytest.mark.parametrize("is_closed", [True, False])
def test_lost_first_segment_is_not_taken_for_a_deleted_one(
    open_log: OpenLog, disk: SimulatedDisk, is_closed: bool
) -> None:
    log = open_log(**SMALL)
    fill(log, SEGMENTS)
    log.advance_high_watermark(SEGMENTS)
    log.write_checkpoint()
    if is_closed:
        log.close()
    disk.crash_process()
    disk.remove(log_file(0))
    before = sizes(disk)
    with pytest.raises(LogDamaged, match="begins at 0, and nothing of it is left before 1"):
        open_log(**SMALL)
    assert sizes(disk) == before
    with pytest.raises(LogDamaged, match="begins at 0"):
        open_beside_others(disk, **SMALL)


def test_log_whose_beginning_is_given_up_goes_on_without_what_lay_behind_it(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log(**SMALL)
    fill(log, SEGMENTS)
    log.close()
    disk.remove(log_file(0))
    accept(disk, 0)
    again = open_log(**SMALL)
    assert everything(again) == b""
    assert again.log_start_offset == again.log_end_offset
    assert len([name for name in sizes(disk) if name.endswith(".cut")]) == SEGMENTS - 1


def test_deletion_that_a_crash_interrupted_is_no_damage(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, SEGMENTS)
    log.advance_high_watermark(SEGMENTS)
    with disk.injected(Fault(Outcome.KILL, on=Operation.REMOVE, skip=3)), pytest.raises(ProcessKilled):
        log.delete_records(SEGMENTS - 1)
    disk.crash_process()
    assert open_log(**SMALL).log_start_offset == SEGMENTS - 1


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("is_cut", [True, False])
def test_what_a_segment_in_the_middle_has_lost_is_noticed_in_the_same_boot(
    open_log: OpenLog, disk: SimulatedDisk, is_closed: bool, is_cut: bool
) -> None:
    log = open_log(segment_bytes=2048, index_interval_bytes=0)
    fill(log, SEGMENTS)
    names = base_offsets(log)
    if is_closed:
        log.close()
    disk.crash_process()
    if is_cut:
        file = disk.open(log_file(names[1]))
        file.truncate(file.size() // 2)
        file.close()
    else:
        disk.remove(log_file(names[1]))
    before = sizes(disk)
    with pytest.raises(LogDamaged):
        open_log(segment_bytes=2048, index_interval_bytes=0)
    assert sizes(disk) == before


def test_segments_that_were_swapped_are_noticed_in_the_same_boot(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, SEGMENTS)
    disk.crash_process()
    for source, target in ((1, 100), (2, 1), (100, 2)):
        disk.rename(log_file(source), log_file(target))
    with pytest.raises(LogDamaged):
        open_log(**SMALL)
