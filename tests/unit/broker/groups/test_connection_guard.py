"""Offsets that come late, on another connection than that of their producer, do not get into the next transaction."""

import pytest

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ClientConnection, ConnectionClosed
from eagleray.broker.runtime.connection_guard_mode import ConnectionGuardMode
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import ORDERS_0, ORDERS_1, PRODUCER, GroupDriver, marker, offset

OLD, NEW = 1, 2
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NONE = ErrorCode.NONE


class Committing(GroupDriver):
    """A group coordinator, and connections that hear every question before they commit again."""

    def __init__(self, mode=ConnectionGuardMode.ON):
        self.heard = {}
        super().__init__(GroupConfig(offsets_topic_num_partitions=1, transaction_v1_guard=mode))

    def commit_by(self, connection, *offsets, heard=True, **fields):
        client = ClientConnection(connection, self.heard.get(connection, NO_QUESTION) if heard else NO_QUESTION)
        request = self.commit_in_transaction(*(offsets or (offset(ORDERS_0, 5),)), client=client, **fields)
        if request in self.replies and self.replies[request].question != NO_QUESTION:
            self.heard[connection] = self.replies[request].question
        return request

    def committed_by(self, connection, *offsets, **fields):
        """Commit as a client does, which repeats what it is told to; return how often it was sent."""
        for attempt in range(1, 5):
            request = self.commit_by(connection, *offsets, **fields)
            self.settle()
            if self.error_of(request) is not LOADING:
                assert self.error_of(request) is NONE
                return attempt
        raise AssertionError("the client commits in vain")


@pytest.fixture
def driver():
    return Committing()


def test_first_commit_on_a_connection_is_asked_once(driver: Committing):
    assert driver.committed_by(OLD) == 2
    assert driver.committed_by(OLD, offset(ORDERS_1, 1)) == 1
    driver.ended(marker(PRODUCER))
    assert driver.committed_by(OLD) == 1


def test_refused_commit_asks_no_coordinator_and_changes_nothing(driver: Committing):
    request = driver.commit_by(OLD)

    assert driver.error_of(request) is LOADING
    assert not driver.questions
    assert not driver.appends


def test_late_commit_does_not_get_into_the_next_transaction(driver: Committing):
    driver.committed_by(OLD)
    driver.ended(marker(PRODUCER))
    assert driver.committed_by(NEW, offset(ORDERS_0, 8)) == 2
    # What is read here was sent in the transaction before.
    late = driver.commit_by(OLD, offset(ORDERS_1, 3), heard=False)
    driver.ended(marker(PRODUCER))

    assert driver.error_of(late) is LOADING
    assert driver.offsets() == {ORDERS_0: 8}


def test_commit_that_was_given_up_with_its_transaction_does_not_get_into_the_next(driver: Committing):
    """The client has given the commit up and aborted; what it does since then this coordinator has not seen."""
    driver.committed_by(OLD)
    driver.ended(marker(PRODUCER))
    driver.ended(marker(PRODUCER, commit=False))

    late = driver.commit_by(OLD, offset(ORDERS_0, 3))

    assert driver.error_of(late) is LOADING


def test_transaction_that_ends_without_the_offsets_it_was_to_have_asks_again(driver: Committing):
    driver.committed_by(OLD)
    driver.ended(marker(PRODUCER))
    driver.ended(marker(PRODUCER))

    assert driver.error_of(driver.commit_by(OLD)) is LOADING


def test_copies_that_come_together_are_all_refused(driver: Committing):
    requests = [driver.commit_by(OLD, heard=False) for _ in range(3)]

    assert [driver.error_of(request) for request in requests] == [LOADING] * 3


def test_closed_connection_has_neither_binding_nor_question(driver: Committing):
    driver.committed_by(OLD)
    driver.commit_by(NEW)

    driver.send(ConnectionClosed(OLD), ConnectionClosed(NEW))

    assert driver.error_of(driver.commit_by(OLD)) is LOADING
    assert driver.error_of(driver.commit_by(NEW)) is LOADING


def test_commit_that_waits_for_its_coordinator_does_not_outlive_its_connection(driver: Committing):
    driver.commit_by(OLD)
    waiting = driver.commit_by(OLD)
    assert waiting not in driver.replies
    assert len(driver.questions) == 1

    driver.send(ConnectionClosed(OLD))
    driver.settle()

    assert waiting in driver.replies
    assert driver.error_of(waiting) is not NONE
    assert driver.unstable() == set()


def test_commit_of_another_connection_waits_on_with_the_same_question(driver: Committing):
    driver.commit_by(OLD, version=2)
    other = driver.commit_by(NEW, version=2)

    driver.send(ConnectionClosed(OLD))
    driver.settle()

    assert driver.error_of(other) is NONE


def test_older_epoch_is_fenced_without_a_question(driver: Committing):
    driver.pending(offset(ORDERS_0, 5), producer=ProducerIdentity(PRODUCER.producer_id, PRODUCER.epoch + 1))

    assert driver.error_of(driver.commit_by(OLD)) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("mode", "version"), [(ConnectionGuardMode.OFF, 1), (ConnectionGuardMode.ON, 2)], ids=["off", "version 2"]
)
def test_commit_is_not_guarded(mode: ConnectionGuardMode, version: int):
    assert Committing(mode).committed_by(OLD, version=version) == 1


def test_asker_without_a_connection_of_a_client_is_not_guarded(driver: Committing):
    driver.pending(offset(ORDERS_0, 5))


def test_coordinator_that_has_loaded_its_log_again_asks_again(driver: Committing):
    driver.committed_by(OLD)
    driver.resign()
    driver.epoch += 1
    driver.lead()

    assert driver.committed_by(OLD) == 2
