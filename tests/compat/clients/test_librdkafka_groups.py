"""librdkafka's consumer groups, by both of Kafka's protocols."""

import time
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Partition

from tests.compat.clients.librdkafka import SECONDS, consuming, plain_producer, read_count, values
from tests.support.clusters import fresh

CLASSIC = {"session_timeout_ms": 6000}
NEXT_GENERATION = {"group_protocol": "consumer"}
PROTOCOLS = [
    pytest.param({**CLASSIC, "partition_assignment_strategy": "range"}, id="range"),
    pytest.param({**CLASSIC, "partition_assignment_strategy": "roundrobin"}, id="roundrobin"),
    pytest.param({**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"}, id="cooperative"),
    pytest.param(NEXT_GENERATION, id="consumer"),
]


def poll_until(consumers, is_true, what, found=None):
    """Let all consumers take part in their group until something holds; `found` gets what they read meanwhile."""
    deadline = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < deadline, (what, [owned(consumer) for consumer in consumers])
        for consumer in consumers:
            message = consumer.poll(0.05)
            if found is not None and message is not None and message.error() is None:
                found.append(message.value())


def owned(consumer):
    return {partition.partition for partition in consumer.assignment()}


def shared(consumers, partitions):
    """Whether each partition has exactly one owner, and each consumer something to do."""
    sets = [owned(consumer) for consumer in consumers]
    return all(sets) and sum(map(len, sets)) == partitions and set().union(*sets) == set(range(partitions))


def fill(bootstrap_servers, topic, partitions, tag):
    producer = plain_producer(bootstrap_servers)
    for partition in range(partitions):
        producer.produce(topic, b"%s %d" % (tag, partition), partition=partition)
    assert producer.flush(20) == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_share_and_one_takes_over(bootstrap_servers, make_topic, protocol):
    topic, group = make_topic("shared", partitions=4), fresh("group")
    with consuming(bootstrap_servers, group, **protocol) as staying:
        staying.subscribe([topic])
        poll_until([staying], lambda: owned(staying) == {0, 1, 2, 3}, "the first has all")
        with consuming(bootstrap_servers, group, **protocol) as leaving:
            leaving.subscribe([topic])
            both = [staying, leaving]
            poll_until(both, lambda: shared(both, 4), "two share")
            fill(bootstrap_servers, topic, 4, b"shared")
            found = []
            poll_until(both, lambda: len(found) == 4, "the records have come", found)
            assert sorted(found) == [b"shared %d" % number for number in range(4)]
            for consumer in both:
                consumer.commit(asynchronous=False)
        poll_until([staying], lambda: owned(staying) == {0, 1, 2, 3}, "the first has all again")
        fill(bootstrap_servers, topic, 4, b"alone")
        assert sorted(values(read_count(staying, 4))) == [b"alone %d" % number for number in range(4)]


@pytest.mark.parametrize("protocol", [CLASSIC, NEXT_GENERATION], ids=["classic", "consumer"])
def test_committed_offsets_outlive_the_consumer(bootstrap_servers, make_topic, protocol):
    topic, group = make_topic("offsets"), fresh("group")
    producer = plain_producer(bootstrap_servers)
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    producer.flush()
    with consuming(bootstrap_servers, group, **protocol) as consumer:
        consumer.subscribe([topic])
        third = read_count(consumer, 3)[-1]
        (committed,) = consumer.commit(message=third, asynchronous=False)
        assert (committed.offset, committed.error) == (3, None)
    with consuming(bootstrap_servers, group, **protocol) as consumer:
        assert [each.offset for each in consumer.committed([Partition(topic, 0)], SECONDS)] == [3]
        consumer.subscribe([topic])
        assert values(read_count(consumer, 7)) == [b"%d" % number for number in range(3, 10)]


@pytest.mark.parametrize("protocol", [CLASSIC, NEXT_GENERATION], ids=["classic", "consumer"])
def test_a_static_member_comes_back_without_a_rebalance(bootstrap_servers, make_topic, protocol):
    topic, group = make_topic("static", partitions=4), fresh("group")
    revoked = []
    with ExitStack() as stack:
        other = stack.enter_context(consuming(bootstrap_servers, group, group_instance_id="other", **protocol))
        other.subscribe([topic], on_revoke=lambda _, partitions: revoked.append(partitions))
        with consuming(bootstrap_servers, group, group_instance_id="static", **protocol) as member:
            member.subscribe([topic])
            poll_until([other, member], lambda: shared([other, member], 4), "two share")
            before, kept = owned(member), owned(other)
        # A static member that closes does not leave; its partitions wait for it.
        revoked.clear()
        member = stack.enter_context(consuming(bootstrap_servers, group, group_instance_id="static", **protocol))
        member.subscribe([topic])
        poll_until([member, other], lambda: owned(member) == before, "the member has its partitions again")
        assert (owned(other), revoked) == (kept, [])


def test_a_second_member_of_one_instance_fences_the_first(bootstrap_servers, make_topic):
    topic, group = make_topic("instance"), fresh("group")
    fenced = []
    with ExitStack() as stack:
        options = {"group_instance_id": "only", **CLASSIC}
        first = stack.enter_context(consuming(bootstrap_servers, group, **options))
        first.subscribe([topic])
        poll_until([first], lambda: owned(first) == {0}, "the first has it")
        second = stack.enter_context(consuming(bootstrap_servers, group, **options))
        second.subscribe([topic])

        def is_fenced():
            message = first.poll(0.05)
            if message is not None and message.error() is not None:
                fenced.append(message.error())
            return any(error.code() == KafkaError._FATAL for error in fenced)

        poll_until([second], lambda: is_fenced() and owned(second) == {0}, "the first is fenced")


def test_offsets_of_an_old_generation_are_refused(bootstrap_servers, make_topic):
    topic, group = make_topic("generation"), fresh("group")
    fill(bootstrap_servers, topic, 1, b"one")
    with consuming(bootstrap_servers, group, **CLASSIC) as member:
        member.subscribe([topic])
        read_count(member, 1)
        with consuming(bootstrap_servers, group) as stranger, pytest.raises(KafkaException) as raised:
            stranger.commit(offsets=[Partition(topic, 0, 1)], asynchronous=False)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
