"""The incarnations of a node: they ascend, and each knows whether the last one's records may be gone."""

import pytest

from eagleray.actors.process.incarnations import Incarnations
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.losses import EVERYTHING, NO_LOSS, Loss
from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.simulated_disk import SimulatedDisk

PATH = "/nodes/7.life"
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
SOME = Loss((ORDERS,))


def incarnations(disk, boot_id="boot-1", flushed=()):
    disk.make_directories("/nodes")
    return Incarnations(disk, PATH, boot_id, after_loss_of_power=lambda: flushed)


def test_lives_ascend_over_restarts():
    disk = SimulatedDisk()
    first = incarnations(disk).begin()
    second = incarnations(disk).begin()
    third = incarnations(disk).begin(after=second.number + 10**9)

    assert first.number < second.number < second.number + 10**9 < third.number


def test_a_node_without_a_past_may_have_lost_it():
    assert incarnations(SimulatedDisk()).begin().loss == EVERYTHING


def begin_and_tell(own):
    own.begin()
    own.reported()


def test_a_process_that_died_has_lost_nothing():
    disk = SimulatedDisk()
    begin_and_tell(incarnations(disk))

    assert incarnations(disk).begin().loss == NO_LOSS


def test_unreported_loss_is_not_forgotten():
    disk = SimulatedDisk()
    incarnations(disk).begin()
    own = incarnations(disk)
    assert own.begin().loss == EVERYTHING, "the first incarnation has lost everything, and may not have come to say so"
    own.reported()
    assert incarnations(disk).begin().loss == NO_LOSS

    own = incarnations(disk)
    own.begin(loss=SOME)
    own.close()
    assert incarnations(disk).begin().loss == SOME, "however the incarnation ended"


def test_a_machine_that_booted_has_lost_what_was_not_flushed():
    disk = SimulatedDisk()
    begin_and_tell(incarnations(disk))

    assert incarnations(disk, "boot-2").begin().loss == EVERYTHING


def test_a_node_that_was_closed_in_good_order_has_lost_nothing_whatever_the_machine_does():
    disk = SimulatedDisk()
    closed = incarnations(disk)
    begin_and_tell(closed)
    closed.close()

    assert incarnations(disk, "boot-2").begin().loss == NO_LOSS
    assert incarnations(disk, "boot-3").begin().loss == EVERYTHING, "the incarnation in between was not closed"


def test_another_life_of_the_same_process_has_lost_only_what_it_says():
    own = incarnations(SimulatedDisk())
    begin_and_tell(own)

    assert own.begin().loss == NO_LOSS
    assert own.begin(loss=SOME).loss == SOME


def test_a_record_that_cannot_be_read_is_none():
    disk = SimulatedDisk()
    first = incarnations(disk).begin()
    disk.remove(PATH)
    file = disk.open(PATH)
    file.write((b"{",))
    file.close()

    again = incarnations(disk).begin()

    assert again.loss == EVERYTHING
    assert again.number > first.number


def test_flushed_records_are_in_doubt_when_the_machine_has_booted():
    disk = SimulatedDisk()
    begin_and_tell(incarnations(disk))
    own = incarnations(disk, "boot-2", (ORDERS, PAYMENTS))

    assert own.begin().loss == Loss((), (ORDERS, PAYMENTS), is_everything=True)
    assert own.begin(loss=SOME).loss == Loss((), (PAYMENTS,), is_everything=True), "nobody has been told"
    own.reported()
    assert own.begin().loss == NO_LOSS


def test_unreported_doubt_is_not_forgotten_and_grows_with_the_next_boot():
    disk = SimulatedDisk()
    begin_and_tell(incarnations(disk))
    incarnations(disk, "boot-2", (ORDERS, PAYMENTS)).begin()

    assert incarnations(disk, "boot-2").begin().loss == Loss((), (ORDERS, PAYMENTS), is_everything=True)
    assert incarnations(disk, "boot-3", (PAYMENTS,)).begin().loss == Loss((), (PAYMENTS,), is_everything=True)


def test_without_a_boot_id_every_start_may_come_after_a_boot():
    disk = SimulatedDisk()
    begin_and_tell(incarnations(disk, ""))

    assert incarnations(disk, "").begin().loss == EVERYTHING


# Damage

FILES = (PATH, f"{PATH}.2")


def overwrite(disk, path, data):
    file = disk.open(path)
    file.truncate(0)
    file.write((data,))
    file.flush()


@pytest.mark.parametrize("path", FILES)
def test_incarnation_that_cannot_be_read_may_have_lost_everything_and_is_not_repeated(path):
    disk = SimulatedDisk()
    begin_and_tell(incarnations(disk))
    last = incarnations(disk).begin()
    disk.rot(path, 20, 0x01)
    again = incarnations(disk).begin()
    assert again.loss == EVERYTHING
    assert again.number > last.number


def test_node_whose_files_are_all_damaged_may_have_lost_everything():
    disk = SimulatedDisk()
    begin_and_tell(incarnations(disk))
    for path in FILES:
        overwrite(disk, path, b"\0" * 40)
    assert incarnations(disk).begin().loss == EVERYTHING


def test_file_of_an_earlier_release_is_read_and_replaced():
    disk = SimulatedDisk()
    disk.make_directories("/nodes")
    overwrite(disk, PATH, b'{"incarnation":99,"boot_id":"boot-1","is_closed":true,"loss":[[],[],false]}')
    own = incarnations(disk, boot_id="boot-2")
    assert own.begin().loss == NO_LOSS
    assert disk.read_bytes(PATH).startswith(b"crc32c ")
    assert incarnations(disk, boot_id="boot-2").begin().loss == NO_LOSS


def test_begun_incarnation_survives_a_crash_at_every_operation():
    rehearsal = SimulatedDisk()
    begin_and_tell(incarnations(rehearsal))
    begun = len(rehearsal.trace)
    incarnations(rehearsal).begin()
    for number in range(len(rehearsal.trace) - begun):
        disk = SimulatedDisk()
        own = incarnations(disk)
        begin_and_tell(own)
        with disk.injected(Fault(Outcome.KILL, skip=number, done_bytes=30)), pytest.raises(ProcessKilled):
            incarnations(disk).begin()
        disk.lose_power(lambda: False)
        assert incarnations(disk).begin().loss == NO_LOSS
