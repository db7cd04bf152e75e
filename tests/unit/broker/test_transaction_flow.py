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


# Transactions with many writers


def begun(broker, tag="batch-1"):
    reply = broker.begin_branched("job", tag)
    assert (reply.error_code, reply.tag_is_committed) == (ErrorCode.NONE, False)
    return reply.producer


def attempt(broker, owner, value, *partitions):
    """One attempt of one worker: a branch of its own, written to straight at the leaders."""
    branch = broker.open_branch("job", owner)
    for partition in partitions or (ORDERS, PAYMENTS):
        assert broker.produce("job", branch, partition, value, version=2) is ErrorCode.NONE
    return branch


def test_of_two_attempts_only_the_one_that_is_named_is_seen(broker):
    owner = begun(broker)
    attempt(broker, owner, b"task 1, failed", ORDERS)
    first = attempt(broker, owner, b"task 1")
    second = attempt(broker, owner, b"task 2", PAYMENTS)
    assert broker.produce("job", first, ORDERS, b"task 1, more", 1, version=2) is ErrorCode.NONE
    attempt(broker, owner, b"task 2, speculated")
    assert broker.produce("job", owner, ORDERS, b"driver", version=2) is ErrorCode.NONE
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == []

    assert broker.end_branched("job", owner, first, second).error_code is ErrorCode.NONE
    assert broker.committed(ORDERS) == [b"task 1", b"task 1, more", b"driver"]
    assert broker.committed(PAYMENTS) == [b"task 1", b"task 2"]


def test_an_attempt_that_comes_too_late_opens_nothing(broker):
    owner = begun(broker)
    named, other = attempt(broker, owner, b"named", ORDERS), attempt(broker, owner, b"other", ORDERS)
    broker.end_branched("job", owner, named)
    for branch in (named, other):
        assert broker.produce("job", branch, ORDERS, b"late", 1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
        late = broker.produce("job", branch, PAYMENTS, b"late", version=2)
        assert late in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert broker.committed(ORDERS) == [b"named"]
    # Nothing is left open that readers would have to wait for.
    producer = broker.init("tx")
    write_both(broker, producer, b"after")
    broker.end("tx", producer, commit=True)
    assert broker.committed(ORDERS) == [b"named", b"after"]
    assert broker.committed(PAYMENTS) == [b"after"]


@pytest.mark.parametrize("commits", [True, False])
def test_a_batch_that_is_run_again_is_seen_once(broker, commits):
    owner = begun(broker)
    branch = attempt(broker, owner, b"row")
    broker.loses_marker_calls = True
    if commits:
        assert broker.end_branched("job", owner, branch).error_code is ErrorCode.NONE
    broker.restart_coordinator()
    broker.loses_marker_calls = False
    broker.pass_time(1000)

    reply = broker.begin_branched("job", "batch-1")
    assert reply.error_code is ErrorCode.NONE
    assert reply.tag_is_committed is commits
    if not commits:
        assert broker.produce("job", branch, ORDERS, b"zombie", 1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
        again = attempt(broker, reply.producer, b"row")
        assert broker.end_branched("job", reply.producer, again).error_code is ErrorCode.NONE
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == [b"row"]


def test_one_batch_after_the_other(broker):
    expected = []
    for batch in range(3):
        owner = begun(broker, f"batch-{batch}")
        branch = attempt(broker, owner, b"%d" % batch)
        attempt(broker, owner, b"unwanted")
        broker.end_branched("job", owner, branch)
        expected.append(b"%d" % batch)
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == expected
    assert broker.begin_branched("job", "batch-2").tag_is_committed


def test_a_job_that_times_out_lets_readers_go_on(broker):
    owner = broker.begin_branched("job", "batch-1", timeout_ms=1000).producer
    branch = attempt(broker, owner, b"never ended")
    broker.pass_time(1001)
    broker.pass_time(1000)
    producer = broker.init("tx")
    write_both(broker, producer, b"after")
    broker.end("tx", producer, commit=True)
    assert broker.committed(ORDERS) == broker.committed(PAYMENTS) == [b"after"]
    assert broker.end_branched("job", owner, branch).error_code is ErrorCode.PRODUCER_FENCED
