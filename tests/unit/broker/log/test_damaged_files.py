"""A file that can be made again from the batches costs time when it is damaged, and never an answer or a record."""

from collections.abc import Callable

import pytest

from eagleray.broker.log import Isolation, PartitionLog
from eagleray.broker.log.epoch_file import read_epochs, write_epochs
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.leader_epochs import EpochStart
from eagleray.broker.log.reading import TimestampedOffset
from tests.support.batches import NOW_MS, data_batch, offsets_of
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.logs import DIRECTORY, OpenLog, aborted_in, append, append_markers, end_marker, everything
from tests.support.simulated_disk import SimulatedDisk

SMALL = {"segment_bytes": 1024, "index_interval_bytes": 0}
LARGE_VALUE = bytes(900)
BATCHES = 4


def file_of(base_offset: int, suffix: str) -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def fill(log: PartitionLog) -> None:
    """Append a segment of four batches, each younger than the one before, and another segment."""
    stamps = [NOW_MS + number for number in range(BATCHES)]
    append(log, *[data_batch(timestamps_ms=[stamp]) for stamp in stamps])
    append(log, data_batch(value=LARGE_VALUE, timestamps_ms=[NOW_MS + BATCHES]))
    log.flush()
    log.advance_high_watermark(log.log_end_offset)
    log.write_checkpoint()


def reboot(disk: SimulatedDisk) -> None:
    disk.lose_power(lambda: True)


def check_reading(log: PartitionLog) -> None:
    assert offsets_of(everything(log)) == [0, 1, 2, 3, 4]
    assert log.segments[0].end_offset() == BATCHES


def check_search_by_time(log: PartitionLog) -> None:
    for offset in range(BATCHES + 1):
        found = log.offset_for_timestamp(NOW_MS + offset, Isolation.READ_UNCOMMITTED)
        assert found == TimestampedOffset(NOW_MS + offset, offset)


@pytest.mark.parametrize("check", [check_reading, check_search_by_time])
@pytest.mark.parametrize("position", range(3 * 8))
def test_offset_index_with_one_wrong_bit_misleads_neither_readers_nor_searches(
    open_log: OpenLog, disk: SimulatedDisk, position: int, check: Callable[[PartitionLog], None]
) -> None:
    fill(open_log(**SMALL))
    reboot(disk)
    disk.rot(file_of(0, ".index"), position, 0x01)
    check(open_log(**SMALL))


@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_offset_that_no_index_can_hold_is_damage_of_the_log(open_log: OpenLog, disk: SimulatedDisk, mask: int) -> None:
    """No checksum covers the offset of a batch, and a reader that meets it looks whether the index is wrong."""
    log = open_log(**SMALL)
    fill(log)
    location = log.segments[0].locate(2)
    assert location is not None
    reboot(disk)
    disk.rot(file_of(0, ".log"), location.position, mask)
    again = open_log(**SMALL)
    with pytest.raises(LogDamaged):
        again.read_for_replica(2, max_bytes=1)
    assert offsets_of(again.read_for_replica(1, max_bytes=1)) == [1]


def overwrite(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.write((data,))
    file.flush()
    file.close()


def abort_and_fill(log: PartitionLog) -> None:
    """Append an aborted transaction, then what `fill` does in a segment of its own and in another epoch."""
    append(log, data_batch(producer_id=7, transactional=True, value=bytes(300)))
    append_markers(log, end_marker(7, 0, commit=False, coordinator_epoch=0))
    append(log, data_batch(value=LARGE_VALUE), leader_epoch=3)
    append(log, data_batch(value=LARGE_VALUE), leader_epoch=5)
    log.flush()
    log.advance_high_watermark(log.log_end_offset)
    log.write_checkpoint()


def bytes_of(disk: SimulatedDisk, path: str) -> range:
    return range(len(disk.tree()[path]))


@pytest.mark.parametrize("is_closed", [False, True])
def test_transaction_index_with_a_wrong_byte_shows_no_aborted_record(
    open_log: OpenLog, disk: SimulatedDisk, is_closed: bool
) -> None:
    log = open_log(**SMALL)
    abort_and_fill(log)
    if is_closed:
        log.close()
    reboot(disk)
    path = file_of(0, ".txnindex")
    (aborted,) = aborted_in(open_log(**SMALL))
    for position in bytes_of(disk, path):
        disk.rot(path, position, 0x01)
        assert aborted_in(open_log(**SMALL)) == [aborted]


def test_transaction_index_that_is_gone_shows_no_aborted_record(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """There is none where nothing was aborted, so that its absence alone tells nothing."""
    abort_and_fill(open_log(**SMALL))
    reboot(disk)
    disk.remove(file_of(0, ".txnindex"))
    (aborted,) = aborted_in(open_log(**SMALL))
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 1)


def test_time_index_with_a_wrong_byte_passes_over_no_record(open_log: OpenLog, disk: SimulatedDisk) -> None:
    fill(open_log(**SMALL))
    reboot(disk)
    path = file_of(0, ".timeindex")
    good = disk.tree()[path]
    for position in range(len(good)):
        again = open_log(**SMALL)
        again.close()
        assert disk.tree()[path] == good, "it was built anew"
        disk.rot(path, position, 0x01)
        again = open_log(**SMALL)
        assert again.segments[0].largest_timestamp_ms == NOW_MS + BATCHES - 1
        check_search_by_time(again)
        again.close()


def test_retention_goes_by_the_batches_where_the_time_index_is_wrong(open_log: OpenLog, disk: SimulatedDisk) -> None:
    settings = {"segment_bytes": 1024, "index_interval_bytes": 10**6, "retention_ms": 1_000}
    fill(open_log(**settings))
    reboot(disk)
    path = file_of(0, ".timeindex")
    # The one entry is now older than the batch that it speaks of, by seconds at the least.
    old = disk.tree()[path][5]
    assert old > 0
    disk.rot(path, 5, old)
    again = open_log(**settings)
    assert again.apply_retention(NOW_MS + 500) == 0
    assert again.log_start_offset == 0


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "leader-epoch-checkpoint.checksum"])
def test_epochs_with_a_wrong_byte_come_from_the_batches(open_log: OpenLog, disk: SimulatedDisk, name: str) -> None:
    abort_and_fill(open_log(**SMALL))
    reboot(disk)
    epochs = [EpochStart(0, 0), EpochStart(3, 2), EpochStart(5, 3)]
    for position in bytes_of(disk, f"{DIRECTORY}/{name}"):
        assert list(open_log(**SMALL).epochs) == epochs
        disk.rot(f"{DIRECTORY}/{name}", position % len(disk.tree()[f"{DIRECTORY}/{name}"]), 0x01)


def test_epochs_without_a_checksum_are_taken_as_they_are(open_log: OpenLog, disk: SimulatedDisk) -> None:
    abort_and_fill(open_log(**SMALL))
    reboot(disk)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint.checksum")
    overwrite(disk, f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n0 0\n5 3\n")
    assert list(open_log(**SMALL).epochs) == [EpochStart(0, 0), EpochStart(5, 3)]


def test_process_that_dies_between_epochs_and_their_checksum_leaves_both_good(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log(**SMALL)
    append(log, data_batch(), leader_epoch=1)
    epochs = read_epochs(disk, DIRECTORY)
    later = epochs.copy()
    later.assign(2, 1)
    written = later.encode()
    # The checksum is renamed into its place, and then the epochs are.
    with disk.injected(Fault(Outcome.KILL, on=Operation.RENAME, skip=1)), pytest.raises(ProcessKilled):
        write_epochs(disk, DIRECTORY, later)
    disk.crash_process()
    assert read_epochs(disk, DIRECTORY).encode() == epochs.encode()
    overwrite(disk, f"{DIRECTORY}/leader-epoch-checkpoint", written)
    assert read_epochs(disk, DIRECTORY).encode() == written


@pytest.mark.parametrize("data", [b"", bytes(3), bytes(200), b"\xff" * 34, b"garbage"], ids=repr)
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".checksums"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_overwritten_index_file_changes_no_answer(
    open_log: OpenLog, disk: SimulatedDisk, data: bytes, suffix: str, is_closed: bool
) -> None:
    log = open_log(**SMALL)
    abort_and_fill(log)
    before = everything(log), aborted_in(log), [segment.largest_timestamp_ms for segment in log.segments]
    if is_closed:
        log.close()
    reboot(disk)
    overwrite(disk, file_of(0, suffix), data)
    again = open_log(**SMALL)
    assert before == (
        everything(again),
        aborted_in(again),
        [segment.largest_timestamp_ms for segment in again.segments],
    )
