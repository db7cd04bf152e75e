"""Whole transactions through all the machines, before any actor has a part in them."""

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.protocol.errors import ErrorCode
from tests.support.broker_in_memory import BrokerInMemory

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)


@pytest.fixture
def broker():
    return BrokerInMemory(ORDERS, PAYMENTS)


def write_both(broker, producer, value, sequence=0):
    assert broker.add("tx", producer, ORDERS, PAYMENTS) is ErrorCode.NONE
    for partition in (ORDERS, PAYMENTS):
        assert broker.produce("tx", producer, partition, value, sequence) is ErrorCode.NONE


def test_a_commit_shows_all_partitions_at_once_and_an_abort_shows_none(broker):
    producer = broker.init("tx")
    write_both(broker, producer, b"paid")
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == []
    assert broker.end("tx", producer, commit=True).error_code is ErrorCode.NONE
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == [b"paid"]
    write_both(broker, producer, b"taken back", 1)
    assert broker.end("tx", producer, commit=False).error_code is ErrorCode.NONE
    write_both(broker, producer, b"paid again", 2)
    broker.end("tx", producer, commit=True)
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == [b"paid", b"paid again"]


def test_in_version_2_partitions_are_added_by_their_leaders_and_each_transaction_has_its_epoch(broker):
    producer = broker.init("tx")
    for value in (b"one", b"two", b"three"):
        assert broker.produce("tx", producer, ORDERS, value, version=2) is ErrorCode.NONE
        reply = broker.end("tx", producer, commit=value != b"two", version=2)
        assert reply.error_code is ErrorCode.NONE
        assert reply.producer == ProducerIdentity(producer.producer_id, producer.epoch + 1)
        producer = reply.producer
    assert broker.committed(ORDERS) == [b"one", b"three"]


def test_a_partition_that_was_not_added_takes_nothing(broker):
    producer = broker.init("tx")
    broker.add("tx", producer, ORDERS)
    assert broker.produce("tx", producer, PAYMENTS, b"stray") is ErrorCode.TRANSACTION_ABORTABLE
    assert broker.produce("tx", producer, ORDERS, b"fine") is ErrorCode.NONE


def test_a_batch_that_comes_after_the_end_opens_nothing(broker):
    producer = broker.init("tx")
    write_both(broker, producer, b"paid")
    broker.end("tx", producer, commit=True)
    assert broker.produce("tx", producer, ORDERS, b"late", 1) is ErrorCode.TRANSACTION_ABORTABLE
    assert broker.committed(ORDERS) == [b"paid"]


def test_a_new_producer_aborts_what_its_predecessor_left_and_fences_it(broker):
    zombie = broker.init("tx")
    write_both(broker, zombie, b"left open")
    successor = broker.init("tx")
    assert successor.producer_id == zombie.producer_id
    assert successor.epoch > zombie.epoch
    assert broker.produce("tx", zombie, ORDERS, b"zombie", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end("tx", zombie, commit=True).error_code is ErrorCode.PRODUCER_FENCED
    write_both(broker, successor, b"paid")
    broker.end("tx", successor, commit=True)
    assert broker.committed(ORDERS) == [b"paid"]


def test_a_transaction_that_times_out_is_aborted_and_lets_readers_go_on(broker):
    slow, other = broker.init("tx", timeout_ms=1000), broker.init("other")
    write_both(broker, slow, b"never ended")
    broker.add("other", other, ORDERS)
    broker.produce("other", other, ORDERS, b"behind it")
    broker.end("other", other, commit=True)
    assert broker.committed(ORDERS) == []
    broker.pass_time(1001)
    broker.pass_time(1000)
    assert broker.committed(ORDERS) == [b"behind it"]
    assert broker.end("tx", slow, commit=True).error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_outlives_the_coordinator_that_made_it(broker, commit):
    producer = broker.init("tx")
    write_both(broker, producer, b"paid")
    broker.loses_marker_calls = True
    assert broker.end("tx", producer, commit=commit).error_code is ErrorCode.NONE
    assert broker.committed(ORDERS) == []
    broker.restart_coordinator()
    broker.loses_marker_calls = False
    broker.pass_time(1000)
    expected = [b"paid"] if commit else []
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == expected
    assert broker.end("tx", producer, commit=commit).error_code is ErrorCode.NONE
    assert broker.end("tx", producer, commit=not commit).error_code is ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_outlives_the_coordinator(broker):
    producer = broker.init("tx")
    write_both(broker, producer, b"before")
    broker.restart_coordinator()
    assert broker.produce("tx", producer, ORDERS, b"after", 1) is ErrorCode.NONE
    assert broker.end("tx", producer, commit=True).error_code is ErrorCode.NONE
    assert broker.committed(ORDERS) == [b"before", b"after"]
    assert broker.committed(PAYMENTS) == [b"before"]
