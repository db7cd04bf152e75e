"""aiokafka: its producers, groups and transactions."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import ProducerFenced

from tests.support.clusters import fresh, until_async, within_deadline

SECONDS = 120


def producing(bootstrap_servers, **options):
    return AIOKafkaProducer(bootstrap_servers=bootstrap_servers, retry_backoff_ms=20, **options)


def consuming(bootstrap_servers, *topics, **options):
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap_servers, **defaults | options)


async def read_count(consumer, count):
    records = []
    deadline = time.monotonic() + SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records have come"
        records.extend(record for batch in (await consumer.getmany(timeout_ms=100)).values() for record in batch)
    return records


async def read_to_end(consumer, topic, partitions=1):
    """Read from the beginning to the end that the consumer may see."""
    assigned = [TopicPartition(topic, number) for number in range(partitions)]
    consumer.assign(assigned)
    await consumer.seek_to_beginning()
    ends = await consumer.end_offsets(assigned)
    found = []

    async def is_at_end():
        batches = await consumer.getmany(timeout_ms=50)
        found.extend(record.value for batch in batches.values() for record in batch)
        return all([await consumer.position(partition) >= ends[partition] for partition in assigned])

    await until_async(is_at_end, f"{topic} is read to {ends}", SECONDS)
    return found


async def committed_values(bootstrap_servers, topic, partitions=1):
    async with consuming(bootstrap_servers, isolation_level="read_committed") as consumer:
        return await read_to_end(consumer, topic, partitions)


@pytest.mark.parametrize("options", [{"acks": 1}, {"enable_idempotence": True}], ids=["plain", "idempotent"])
def test_producer(bootstrap_servers, make_topic, options):
    topic = make_topic("produced", partitions=2)

    async def scenario():
        async with producing(bootstrap_servers, **options) as producer:
            sent = [await producer.send(topic, b"%d" % number, key=b"key") for number in range(20)]
            assert [record.offset for record in await asyncio.gather(*sent)] == list(range(20))
        assert await committed_values(bootstrap_servers, topic, 2) == [b"%d" % number for number in range(20)]

    within_deadline(scenario())


def test_transactions(bootstrap_servers, make_topic):
    topic = make_topic("transactions", partitions=2)

    async def scenario():
        async with producing(bootstrap_servers, transactional_id=fresh("id")) as producer:
            for number in range(8):
                await producer.begin_transaction()
                for partition in range(2):
                    await producer.send_and_wait(topic, b"%d" % number, partition=partition)
                await (producer.abort_transaction() if number % 4 == 3 else producer.commit_transaction())
        committed = [b"%d" % number for number in range(8) if number % 4 != 3]
        assert sorted(await committed_values(bootstrap_servers, topic, 2)) == sorted(committed * 2)

    within_deadline(scenario())


def test_read_committed_stops_at_the_last_stable_offset(bootstrap_servers, history):
    async def scenario():
        async with consuming(bootstrap_servers, isolation_level="read_uncommitted") as consumer:
            assert await read_to_end(consumer, history.topic) == history.everything
        async with consuming(bootstrap_servers, isolation_level="read_committed") as consumer:
            assert await read_to_end(consumer, history.topic) == history.stable
            await asyncio.to_thread(history.finish)
            assert [record.value for record in await read_count(consumer, 2)] == history.rest

    within_deadline(scenario())


def test_the_older_of_two_producers_is_fenced(bootstrap_servers, make_topic):
    topic, transactional_id = make_topic("fenced"), fresh("id")

    async def scenario():
        older = producing(bootstrap_servers, transactional_id=transactional_id)
        await older.start()
        await older.begin_transaction()
        await older.send_and_wait(topic, b"older")
        async with producing(bootstrap_servers, transactional_id=transactional_id) as newer, newer.transaction():
            await newer.send(topic, b"newer")
        with pytest.raises(ProducerFenced):
            await older.commit_transaction()
        await older.stop()
        assert await committed_values(bootstrap_servers, topic) == [b"newer"]

    within_deadline(scenario())


def test_offsets_in_transactions(bootstrap_servers, make_topic):
    source, target, group = make_topic("source"), make_topic("target"), fresh("group")

    async def transform(worker, end):
        async with consuming(bootstrap_servers, source, group_id=group, max_poll_records=3) as consumer:
            records = (await read_count(consumer, 3))[:3]
            await worker.begin_transaction()
            for record in records:
                await worker.send(target, b"done " + record.value)
            position = {TopicPartition(source, 0): records[-1].offset + 1}
            await worker.send_offsets_to_transaction(position, group)
            await end()
            return [record.value for record in records]

    async def scenario():
        async with producing(bootstrap_servers) as plain:
            for number in range(6):
                await plain.send_and_wait(source, b"%d" % number)
        async with producing(bootstrap_servers, transactional_id=fresh("id")) as worker:
            assert await transform(worker, worker.abort_transaction) == [b"0", b"1", b"2"]
            assert await transform(worker, worker.commit_transaction) == [b"0", b"1", b"2"]
            assert await transform(worker, worker.commit_transaction) == [b"3", b"4", b"5"]
        assert await committed_values(bootstrap_servers, target) == [b"done %d" % number for number in range(6)]

    within_deadline(scenario())


def test_group(bootstrap_servers, make_topic):
    topic = make_topic("shared", partitions=4)
    options = {"group_id": fresh("group"), "heartbeat_interval_ms": 200, "session_timeout_ms": 6000}

    async def scenario():
        async with consuming(bootstrap_servers, topic, **options) as staying:

            async def has_all():
                return len(staying.assignment()) == 4

            await until_async(has_all, "the first has all", SECONDS)
            async with consuming(bootstrap_servers, topic, **options) as leaving:

                async def are_sharing():
                    return len(staying.assignment()) == len(leaving.assignment()) == 2

                await until_async(are_sharing, "two share", SECONDS)
                assert not staying.assignment() & leaving.assignment()
            await until_async(has_all, "the first has all again", SECONDS)

    within_deadline(scenario())


def test_admin(bootstrap_servers, make_topic):
    topic = make_topic("administered")

    async def scenario():
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
        await admin.start()
        try:
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert [partition["partition"] for partition in described["partitions"]] == [0]
            assert (await admin.describe_cluster())["brokers"]
        finally:
            await admin.close()

    within_deadline(scenario())
