"""The lives of a node: they ascend, and each knows whether the last one's records may be gone."""

from eagleray.actors.lives import Lives
from eagleray.broker.controller.losses import EVERYTHING, NO_LOSS, Loss
from eagleray.broker.identities import TopicPartition
from tests.support.simulated_disk import SimulatedDisk

PATH = "/nodes/7.life"
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
SOME = Loss((ORDERS,))


def lives(disk, boot_id="boot-1", flushed=()):
    disk.make_directories("/nodes")
    return Lives(disk, PATH, boot_id, after_loss_of_power=lambda: flushed)


def test_lives_ascend_over_restarts():
    disk = SimulatedDisk()
    first = lives(disk).begin()
    second = lives(disk).begin()
    third = lives(disk).begin(after=second.incarnation + 10**9)

    assert first.incarnation < second.incarnation < second.incarnation + 10**9 < third.incarnation


def test_a_node_without_a_past_may_have_lost_it():
    assert lives(SimulatedDisk()).begin().loss == EVERYTHING


def begin_and_tell(own):
    own.begin()
    own.told()


def test_a_process_that_died_has_lost_nothing():
    disk = SimulatedDisk()
    begin_and_tell(lives(disk))

    assert lives(disk).begin().loss == NO_LOSS


def test_a_loss_of_which_nobody_was_told_is_not_forgotten():
    disk = SimulatedDisk()
    lives(disk).begin()
    own = lives(disk)
    assert own.begin().loss == EVERYTHING, "the first life has lost everything, and may not have come to say so"
    own.told()
    assert lives(disk).begin().loss == NO_LOSS

    own = lives(disk)
    own.begin(loss=SOME)
    own.close()
    assert lives(disk).begin().loss == SOME, "however the life ended"


def test_a_machine_that_booted_has_lost_what_was_not_flushed():
    disk = SimulatedDisk()
    begin_and_tell(lives(disk))

    assert lives(disk, "boot-2").begin().loss == EVERYTHING


def test_a_node_that_was_closed_in_good_order_has_lost_nothing_whatever_the_machine_does():
    disk = SimulatedDisk()
    closed = lives(disk)
    begin_and_tell(closed)
    closed.close()

    assert lives(disk, "boot-2").begin().loss == NO_LOSS
    assert lives(disk, "boot-3").begin().loss == EVERYTHING, "the life in between was not closed"


def test_another_life_of_the_same_process_has_lost_only_what_it_says():
    own = lives(SimulatedDisk())
    begin_and_tell(own)

    assert own.begin().loss == NO_LOSS
    assert own.begin(loss=SOME).loss == SOME


def test_a_record_that_cannot_be_read_is_none():
    disk = SimulatedDisk()
    first = lives(disk).begin()
    disk.remove(PATH)
    file = disk.open(PATH)
    file.write((b"{",))
    file.close()

    again = lives(disk).begin()

    assert again.loss == EVERYTHING
    assert again.incarnation > first.incarnation


def test_what_was_flushed_is_in_doubt_when_the_machine_has_booted():
    disk = SimulatedDisk()
    begin_and_tell(lives(disk))
    own = lives(disk, "boot-2", (ORDERS, PAYMENTS))

    assert own.begin().loss == Loss((), (ORDERS, PAYMENTS), is_everything=True)
    assert own.begin(loss=SOME).loss == Loss((), (PAYMENTS,), is_everything=True), "nobody has been told"
    own.told()
    assert own.begin().loss == NO_LOSS


def test_a_doubt_of_which_nobody_was_told_is_not_forgotten_and_grows_with_the_next_boot():
    disk = SimulatedDisk()
    begin_and_tell(lives(disk))
    lives(disk, "boot-2", (ORDERS, PAYMENTS)).begin()

    assert lives(disk, "boot-2").begin().loss == Loss((), (ORDERS, PAYMENTS), is_everything=True)
    assert lives(disk, "boot-3", (PAYMENTS,)).begin().loss == Loss((), (PAYMENTS,), is_everything=True)


def test_without_a_boot_id_every_start_may_come_after_a_boot():
    disk = SimulatedDisk()
    begin_and_tell(lives(disk, ""))

    assert lives(disk, "").begin().loss == EVERYTHING
