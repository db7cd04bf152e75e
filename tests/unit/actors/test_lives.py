"""The lives of a node: they ascend, and each knows whether the last one's records may be gone."""

from eagleray.actors.lives import Lives
from tests.support.simulated_disk import SimulatedDisk

PATH = "/nodes/7.life"


def lives(disk, boot_id="boot-1"):
    disk.make_directories("/nodes")
    return Lives(disk, PATH, boot_id)


def test_lives_ascend_over_restarts():
    disk = SimulatedDisk()
    first = lives(disk).begin()
    second = lives(disk).begin()
    third = lives(disk).begin(after=second.incarnation + 10**9)

    assert first.incarnation < second.incarnation < second.incarnation + 10**9 < third.incarnation


def test_a_node_without_a_past_may_have_lost_it():
    assert lives(SimulatedDisk()).begin().has_lost


def begin_and_tell(own):
    own.begin()
    own.told()


def test_a_process_that_died_has_lost_nothing():
    disk = SimulatedDisk()
    begin_and_tell(lives(disk))

    assert not lives(disk).begin().has_lost


def test_a_loss_of_which_nobody_was_told_is_not_forgotten():
    disk = SimulatedDisk()
    lives(disk).begin()
    own = lives(disk)
    assert own.begin().has_lost, "the first life has lost everything, and may not have come to say so"
    own.told()
    assert not lives(disk).begin().has_lost

    own = lives(disk)
    own.begin(has_lost=True)
    own.close()
    assert lives(disk).begin().has_lost, "however the life ended"


def test_a_machine_that_booted_has_lost_what_was_not_flushed():
    disk = SimulatedDisk()
    lives(disk).begin()

    assert lives(disk, "boot-2").begin().has_lost


def test_a_node_that_was_closed_in_good_order_has_lost_nothing_whatever_the_machine_does():
    disk = SimulatedDisk()
    closed = lives(disk)
    begin_and_tell(closed)
    closed.close()

    assert not lives(disk, "boot-2").begin().has_lost
    assert lives(disk, "boot-3").begin().has_lost, "the life in between was not closed"


def test_another_life_of_the_same_process_has_lost_only_what_it_says():
    own = lives(SimulatedDisk())
    begin_and_tell(own)

    assert not own.begin().has_lost
    assert own.begin(has_lost=True).has_lost


def test_a_record_that_cannot_be_read_is_none():
    disk = SimulatedDisk()
    first = lives(disk).begin()
    disk.remove(PATH)
    file = disk.open(PATH)
    file.write((b"{",))
    file.close()

    again = lives(disk).begin()

    assert again.has_lost
    assert again.incarnation > first.incarnation
