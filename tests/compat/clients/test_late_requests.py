"""Clients of transaction version 1 whose requests come late, on connections that they have left.

The connection of a client stalls when a request is on the way; the client gives it up, repeats the request on another
one, and goes on. Then what had stalled arrives. Apache Kafka takes a late commit for one of the next transaction, which
is torn from its producer (KAFKA-17754), begins a transaction by a late AddPartitionsToTxn that the producer knows
nothing of, and commits late offsets with the next transaction. Here none of them changes anything.
"""

import asyncio

import pytest
from aiokafka import TopicPartition
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Partition

from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.compat.clients.holding_proxy import ADD_PARTITIONS, END_TXN, TXN_OFFSET_COMMIT, HoldingProxy
from tests.compat.clients.librdkafka import consuming, read_to_end, transactional_producer, values
from tests.compat.clients.test_aiokafka import committed_values as committed_by_aiokafka
from tests.compat.clients.test_aiokafka import producing
from tests.compat.java.java_client import JavaError
from tests.support.clusters import fresh, within_deadline
from tests.support.version_1_producer import SECONDS, Version1Producer, error_of

IMPATIENT_MS = 1000
"""When a client gives a connection up; short, so that the tests are."""

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NONE = ErrorCode.NONE


@pytest.fixture
def proxy(bootstrap_servers):
    with HoldingProxy(bootstrap_servers, without_features=True) as proxy:
        yield proxy


def seen_as_committed(bootstrap_servers, topic):
    with consuming(bootstrap_servers, fresh("reader"), isolation_level="read_committed") as consumer:
        return values(read_to_end(consumer, topic))


def check(bootstrap_servers, topic, late, *, is_kafka, could_abort):
    """See what has become of a transaction that was committed, and of one that its producer wanted aborted."""
    found = seen_as_committed(bootstrap_servers, topic)
    if is_kafka:
        assert (error_of(late), could_abort) == (NONE, False)
        assert found == [b"one", b"two"], "the late commit has committed what its producer wanted aborted"
    else:
        assert (error_of(late), could_abort) == (CONCURRENT, True)
        assert found == [b"one"]


def scripted(bootstrap_servers, transactional_id):
    host, port = bootstrap_servers.split(",")[0].rsplit(":", 1)
    return Version1Producer(host, int(port), transactional_id)


def impatient_producer(proxy, transactional_id):
    """A producer of librdkafka that soon goes on with another connection."""
    return transactional_producer(
        proxy.bootstrap_servers,
        transactional_id,
        socket_timeout_ms=IMPATIENT_MS,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
        retry_backoff_ms=20,
    )


# EndTxn


def test_scripted_client(bootstrap_servers, make_topic, is_kafka):
    topic = make_topic("late")

    async def scenario():
        async with scripted(bootstrap_servers, fresh("id")) as producer:
            await producer.init()
            await producer.begin(topic, b"one")
            old = await producer.connect_to_coordinator()
            assert await producer.end(commit=True) == NONE
            await producer.begin(topic, b"two")
            late = await producer.ask_once(old, producer.ending(commit=True))
            return late, await producer.end(commit=False)

    late, aborted = asyncio.run(scenario())
    check(bootstrap_servers, topic, late, is_kafka=is_kafka, could_abort=aborted == NONE)


def test_librdkafka(bootstrap_servers, proxy, make_topic, is_kafka):
    topic = make_topic("late")
    producer = impatient_producer(proxy, fresh("id"))
    producer.begin_transaction()
    producer.produce(topic, b"one")
    assert producer.flush(20) == 0
    held = proxy.hold_next(END_TXN)
    producer.commit_transaction(60)
    assert held.is_held.is_set()
    producer.begin_transaction()
    producer.produce(topic, b"two")
    assert producer.flush(20) == 0

    late = held.release()
    try:
        producer.abort_transaction(60)
        could_abort = True
    except KafkaException:
        could_abort = False

    check(bootstrap_servers, topic, late, is_kafka=is_kafka, could_abort=could_abort)


def test_aiokafka(bootstrap_servers, proxy, make_topic, is_kafka):
    topic = make_topic("late")

    async def scenario():
        options = {"transactional_id": fresh("id"), "request_timeout_ms": IMPATIENT_MS}
        async with producing(proxy.bootstrap_servers, **options) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"one")
            held = proxy.hold_next(END_TXN)
            await producer.commit_transaction()
            assert held.is_held.is_set()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"two")
            late = await asyncio.to_thread(held.release)
            try:
                await asyncio.wait_for(producer.abort_transaction(), 20)
                could_abort = True
            except Exception:  # noqa: BLE001 - whatever it raises, it could not
                could_abort = False
        return late, could_abort

    late, could_abort = within_deadline(scenario())
    check(bootstrap_servers, topic, late, is_kafka=is_kafka, could_abort=could_abort)
    assert within_deadline(committed_by_aiokafka(bootstrap_servers, topic)) == (
        [b"one", b"two"] if is_kafka else [b"one"]
    )


@pytest.fixture
def java_producer(java, proxy):
    """A producer of Kafka's Java client that soon goes on with another connection, in version 1; and its id."""
    name, transactional_id = fresh("producer"), fresh("id")
    config = {
        "bootstrap.servers": proxy.bootstrap_servers,
        "transactional.id": transactional_id,
        "request.timeout.ms": f"{IMPATIENT_MS}",
        "delivery.timeout.ms": "20000",
        "reconnect.backoff.ms": "10",
        "retry.backoff.ms": "20",
    }
    java.do("open_producer", name=name, config=config)
    yield name, transactional_id
    java.do("close_producer", name=name)


def test_java_without_the_feature_of_version_2(bootstrap_servers, proxy, java, java_producer, make_topic, is_kafka):
    topic, (producer, _) = make_topic("late"), java_producer
    java.do("begin", name=producer)
    java.do("send", name=producer, topic=topic, values=["one"])
    held = proxy.hold_next(END_TXN)
    java.do("commit", name=producer)
    assert held.is_held.is_set()
    assert held.version < 5
    java.do("begin", name=producer)
    java.do("send", name=producer, topic=topic, values=["two"])
    late = held.release()
    try:
        java.do("abort", name=producer)
        could_abort = True
    except JavaError:
        could_abort = False

    check(bootstrap_servers, topic, late, is_kafka=is_kafka, could_abort=could_abort)


# AddPartitionsToTxn


async def state_of(bootstrap_servers, transactional_id):
    """The state of a transactional id, as Kafka's tools show it."""
    async with scripted(bootstrap_servers, transactional_id) as spectator:
        await spectator.connect_to_coordinator()
        answer = await spectator.coordinator.ask(DescribeTransactionsRequest((transactional_id,)), 0)
    return answer.transaction_states[0].transaction_state


async def until_complete(bootstrap_servers, transactional_id):
    """Wait for the markers; as long as they are under way, Kafka too has each request repeated."""
    async with asyncio.timeout(SECONDS):
        while await state_of(bootstrap_servers, transactional_id) != "CompleteCommit":
            await asyncio.sleep(0.05)


def check_phantom(bootstrap_servers, transactional_id, late, *, is_kafka):
    """See whether a transaction is open that its producer has not begun."""
    state = asyncio.run(state_of(bootstrap_servers, transactional_id))
    if is_kafka:
        assert (error_of(late), state) == (NONE, "Ongoing"), "the late request has begun a transaction"
    else:
        assert (error_of(late), state) == (CONCURRENT, "CompleteCommit")


def test_late_partitions_of_a_scripted_client(bootstrap_servers, make_topic, is_kafka):
    topic, transactional_id = make_topic("late"), fresh("id")

    async def scenario():
        async with scripted(bootstrap_servers, transactional_id) as producer:
            await producer.init()
            old = await producer.connect_to_coordinator()
            adding = producer.adding(topic)
            await producer.begin(topic, b"one")
            assert await producer.end(commit=True) == NONE
            await until_complete(bootstrap_servers, transactional_id)
            return await producer.ask_once(old, adding)

    late = asyncio.run(scenario())
    check_phantom(bootstrap_servers, transactional_id, late, is_kafka=is_kafka)
    assert seen_as_committed(bootstrap_servers, topic) == [b"one"]


def test_late_partitions_of_librdkafka(bootstrap_servers, proxy, make_topic, is_kafka):
    topic, transactional_id = make_topic("late"), fresh("id")
    producer = impatient_producer(proxy, transactional_id)
    held = proxy.hold_next(ADD_PARTITIONS)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    assert producer.flush(20) == 0
    assert held.is_held.is_set()
    producer.commit_transaction(60)
    asyncio.run(until_complete(bootstrap_servers, transactional_id))

    late = held.release()

    check_phantom(bootstrap_servers, transactional_id, late, is_kafka=is_kafka)
    assert seen_as_committed(bootstrap_servers, topic) == [b"one"]


def test_late_partitions_of_aiokafka(bootstrap_servers, proxy, make_topic, is_kafka):
    topic, transactional_id = make_topic("late"), fresh("id")

    async def scenario():
        options = {"transactional_id": transactional_id, "request_timeout_ms": IMPATIENT_MS}
        async with producing(proxy.bootstrap_servers, **options) as producer:
            held = proxy.hold_next(ADD_PARTITIONS)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"one")
            assert held.is_held.is_set()
            await producer.commit_transaction()
            await until_complete(bootstrap_servers, transactional_id)
            return await asyncio.to_thread(held.release)

    late = within_deadline(scenario())
    check_phantom(bootstrap_servers, transactional_id, late, is_kafka=is_kafka)


def test_late_partitions_of_java(bootstrap_servers, proxy, java, java_producer, make_topic, is_kafka):
    topic, (producer, transactional_id) = make_topic("late"), java_producer
    held = proxy.hold_next(ADD_PARTITIONS)
    java.do("begin", name=producer)
    java.do("send", name=producer, topic=topic, values=["one"])
    assert held.is_held.is_set()
    java.do("commit", name=producer)
    asyncio.run(until_complete(bootstrap_servers, transactional_id))

    late = held.release()

    check_phantom(bootstrap_servers, transactional_id, late, is_kafka=is_kafka)


# TxnOffsetCommit


def committed_offset(bootstrap_servers, group, topic):
    async def ask():
        async with scripted(bootstrap_servers, fresh("id")) as spectator:
            return await spectator.committed_offset(group, topic)

    return asyncio.run(ask())


def check_offset(found, late, *, is_kafka):
    """See where a group is whose first transaction took it to 1, and the next one to 5."""
    if is_kafka:
        assert (error_of(late), found) == (NONE, 1), "the late offset is committed with the next transaction"
    else:
        assert (error_of(late), found) == (LOADING, 5)


def test_late_offsets_of_a_scripted_client(bootstrap_servers, make_topic, is_kafka):
    topic, group = make_topic("late"), fresh("group")

    async def scenario():
        async with scripted(bootstrap_servers, fresh("id")) as producer:
            await producer.init()
            await producer.begin(topic, b"one")
            late_commit = producer.committing_offset(group, topic, 1)
            await producer.connect_to_group_coordinator(group)
            old = await producer.connect_to_group_coordinator(group)
            await producer.add_offsets(group, topic, 1)
            assert await producer.end(commit=True) == NONE
            await producer.begin(topic, b"two")
            await producer.add_offsets(group, topic, 5)
            late = await producer.ask_once(old, late_commit)
            assert await producer.end(commit=True) == NONE
            return late

    late = asyncio.run(scenario())
    check_offset(committed_offset(bootstrap_servers, group, topic), late, is_kafka=is_kafka)


def test_late_offsets_of_librdkafka(bootstrap_servers, proxy, make_topic, is_kafka):
    topic, group = make_topic("late"), fresh("group")
    producer = impatient_producer(proxy, fresh("id"))
    with consuming(bootstrap_servers, group) as consumer:
        metadata = consumer.consumer_group_metadata()
    held = proxy.hold_next(TXN_OFFSET_COMMIT)
    for value, offset in (b"one", 1), (b"two", 5):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.send_offsets_to_transaction([Partition(topic, 0, offset)], metadata, 60)
        assert held.is_held.is_set()
        if offset == 1:
            producer.commit_transaction(60)

    late = held.release()
    producer.commit_transaction(60)

    check_offset(committed_offset(bootstrap_servers, group, topic), late, is_kafka=is_kafka)


def test_late_offsets_of_aiokafka(bootstrap_servers, proxy, make_topic, is_kafka):
    topic, group = make_topic("late"), fresh("group")

    async def scenario():
        options = {"transactional_id": fresh("id"), "request_timeout_ms": IMPATIENT_MS}
        async with producing(proxy.bootstrap_servers, **options) as producer:
            held = proxy.hold_next(TXN_OFFSET_COMMIT)
            for offset in (1, 5):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % offset)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group)
                assert held.is_held.is_set()
                late = await asyncio.to_thread(held.release) if offset == 5 else None
                await producer.commit_transaction()
        return late

    late = within_deadline(scenario())
    check_offset(committed_offset(bootstrap_servers, group, topic), late, is_kafka=is_kafka)


def test_late_offsets_of_java(bootstrap_servers, proxy, java, java_producer, make_topic, is_kafka):
    topic, group, (producer, _) = make_topic("late"), fresh("group"), java_producer
    consumer = fresh("consumer")
    java.do("open_consumer", name=consumer, topic=topic, config={"group.id": group})
    held = proxy.hold_next(TXN_OFFSET_COMMIT)
    for offset in (1, 5):
        java.do("begin", name=producer)
        java.do("send", name=producer, topic=topic, values=[f"{offset}"])
        java.do("send_offsets", name=producer, topic=topic, partition=0, offset=offset, consumer=consumer)
        assert held.is_held.is_set()
        if offset == 1:
            java.do("commit", name=producer)

    late = held.release()
    java.do("commit", name=producer)
    java.do("close_consumer", name=consumer)

    check_offset(committed_offset(bootstrap_servers, group, topic), late, is_kafka=is_kafka)
