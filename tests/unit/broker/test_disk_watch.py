"""When a node refuses what clients write, by the room on its disk and by what the disk does."""

import errno
import os

import pytest

from eagleray.broker.runtime.deadlines import AT_ONCE_MS
from eagleray.broker.runtime.disk_watch import (
    FIRST_HOLD_MS,
    LONGEST_HOLD_MS,
    LOOK_MS,
    LOOK_WITH_ROOM_MS,
    DiskSpace,
    DiskState,
    DiskWatch,
    Watermarks,
)

TOTAL = 1_000_000
MARKS = Watermarks(low_free_bytes=1000, min_free_bytes=100, reserve_bytes=40)
FLUSH_TIMEOUT_MS = 30_000


class Disk:
    """A disk whose room a test sets by hand, with a clock and the reserve."""

    def __init__(self, free_bytes: int = 10_000, marks: Watermarks = MARKS, total_bytes: int = TOTAL) -> None:
        self.watch = DiskWatch(marks, FLUSH_TIMEOUT_MS)
        self.total_bytes = total_bytes
        self.has_reserve = False
        self.now_ms = 5_000
        self.free_bytes = free_bytes
        self.look()

    def look(
        self, free_bytes: int | None = None, *, is_read_only: bool = False, flushing_ms: int | None = None
    ) -> DiskState:
        self.free_bytes = self.free_bytes if free_bytes is None else free_bytes
        since_ms = None if flushing_ms is None else self.now_ms - flushing_ms
        self.watch.looked(
            DiskSpace(self.free_bytes, self.total_bytes, is_read_only), self.now_ms, flushing_since_ms=since_ms
        )
        wants = self.watch.wants_reserve(has_reserve=self.has_reserve)
        self.free_bytes += self.watch.reserve_bytes * (self.has_reserve - wants)
        self.has_reserve = wants
        return self.watch.state

    def refuse(self, number: int = errno.ENOSPC) -> bool:
        return self.watch.refused(OSError(number, os.strerror(number)), self.now_ms)


def test_a_disk_with_room_takes_everything_and_has_its_reserve():
    disk = Disk()
    assert (disk.watch.state, disk.watch.refusal, disk.has_reserve) == (DiskState.OK, "", True)
    assert disk.free_bytes == 10_000 - 40


def test_a_disk_with_little_room_is_low_and_takes_everything():
    disk = Disk()
    assert disk.look(999) is DiskState.LOW
    assert disk.watch.refusal == ""
    assert disk.look(1000) is DiskState.LOW, "it does not change back at once"
    assert disk.look(1100) is DiskState.OK


def test_a_full_disk_refuses_until_there_is_room_for_the_reserve_as_well():
    disk = Disk()
    assert disk.look(99) is DiskState.FULL
    assert "99 bytes free" in disk.watch.refusal
    assert "Delete topics" in disk.watch.refusal
    assert (disk.has_reserve, disk.free_bytes) == (False, 139)
    assert disk.look() is DiskState.FULL, "the room of the reserve is not for clients"
    assert disk.look(164) is DiskState.FULL
    assert disk.look(165) is DiskState.LOW
    assert (disk.watch.refusal, disk.has_reserve, disk.free_bytes) == ("", True, 125)
    assert disk.look() is DiskState.LOW, "the reserve did not fill it again"


def test_watermarks_of_a_small_disk_are_parts_of_it():
    disk = Disk(free_bytes=600, total_bytes=1000, marks=Watermarks(10**9, 10**8, 10**7))
    assert disk.watch.state is DiskState.OK
    assert disk.watch.reserve_bytes == 10
    assert disk.look(199) is DiskState.LOW
    assert disk.look(49) is DiskState.FULL


def test_watermarks_of_zero_never_refuse_and_keep_no_reserve():
    disk = Disk(free_bytes=0, marks=Watermarks(0, 0, 0))
    assert (disk.watch.state, disk.has_reserve) == (DiskState.OK, False)


def test_a_refused_write_holds_all_others_back_for_twice_as_long_each_time():
    """A quota, or a lack of inodes, shows in no number of free bytes."""
    disk = Disk()
    waits = []
    for _ in range(7):
        assert disk.refuse()
        assert disk.watch.next_look_ms == AT_ONCE_MS
        assert not disk.refuse(), "the others of the same moment are no news"
        begun_ms = disk.now_ms
        assert disk.look() is DiskState.FULL
        assert "although" in disk.watch.refusal
        while disk.watch.refusal:
            disk.now_ms = disk.watch.next_look_ms
            disk.look()
        waits.append(disk.now_ms - begun_ms)
    assert waits == [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    disk.now_ms += LONGEST_HOLD_MS + 1
    disk.refuse()
    disk.now_ms += FIRST_HOLD_MS
    assert disk.look() is DiskState.OK, "after a long time without a refusal it begins anew"


def test_a_refusal_for_lack_of_room_holds_nothing_back_once_there_is_room():
    disk = Disk()
    for _ in range(5):
        assert disk.refuse()
        assert disk.look(0) is DiskState.FULL
        disk.now_ms += LOOK_MS
        assert disk.look(10_000) is DiskState.OK


def test_other_errors_are_not_about_room():
    disk = Disk()
    assert not disk.refuse(errno.EIO)
    assert disk.watch.refusal == ""


@pytest.mark.parametrize("is_refused_first", [True, False])
def test_a_read_only_file_system_refuses_until_it_is_writable_again(is_refused_first: bool):
    disk = Disk()
    if is_refused_first:
        assert disk.refuse(errno.EROFS)
        assert disk.watch.state is DiskState.READ_ONLY
    assert disk.look(is_read_only=True) is DiskState.READ_ONLY
    assert "mount it for writing" in disk.watch.refusal
    assert disk.has_reserve, "a file cannot be removed there"
    disk.now_ms += LOOK_MS
    assert disk.look() is DiskState.OK


def test_a_flush_that_does_not_return_refuses_until_it_does():
    disk = Disk()
    assert disk.look(flushing_ms=FLUSH_TIMEOUT_MS - 1) is DiskState.OK
    assert disk.look(flushing_ms=FLUSH_TIMEOUT_MS) is DiskState.STUCK
    assert "storage.flush.timeout.ms (30000)" in disk.watch.refusal
    assert disk.has_reserve
    assert disk.look() is DiskState.OK


def test_a_disk_is_looked_at_more_often_when_it_has_little_room():
    disk = Disk()
    assert disk.watch.next_look_ms == disk.now_ms + LOOK_WITH_ROOM_MS
    disk.look(3999)
    assert disk.watch.next_look_ms == disk.now_ms + LOOK_MS
