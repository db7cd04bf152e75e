"""Iterating over a consumer: many records are taken over at once, and those that were yielded count as read."""

import asyncio

from eagleray.broker.groups.events import CommitOffsets
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import ClientClosed
from tests.support.background import Background
from tests.support.client_helpers import ORDERS, a_consumer, a_producer, outcome, settled


async def write_numbers(runtime, count, partitions=1):
    async with a_producer(runtime) as producer:
        for number in range(count):
            await producer.send("orders", b"%d" % number, partition=number % partitions)


async def iterate(consumer, count):
    """Take so many records by iterating, and leave the loop in the middle."""
    records = []
    async for record in consumer:
        records.append(record)
        if len(records) == count:
            break
    return records


def offsets_of(world):
    return [commit.offsets[0].offset for commit in world.asked(CommitOffsets)]


def polls_of(consumer):
    """Count from now on how often the consumer polls."""
    polls, real = [], consumer.read_ahead

    def read_ahead(*fields):
        polls.append(fields)
        return real(*fields)

    consumer.read_ahead = read_ahead
    return polls


# The asyncio consumer


async def test_commit_in_the_loop_covers_exactly_what_was_yielded(world, runtime):
    await write_numbers(runtime, 50)
    consumer = await a_consumer(runtime, ORDERS[0], group_id="readers")
    polls = polls_of(consumer)
    async for record in consumer:
        await consumer.commit()
        if record.offset == 40:
            break
    assert offsets_of(world) == list(range(1, 42))
    assert len(polls) == 1, "records are not polled for one by one"
    assert (consumer.positions(), await consumer.position(ORDERS[0])) == ({ORDERS[0]: 41}, 41)
    await consumer.close()


async def test_commit_in_the_loop_covers_what_was_yielded_of_each_partition(runtime):
    await write_numbers(runtime, 60, partitions=3)
    consumer = await a_consumer(runtime, group_id="readers")
    await settled(100)
    records = await iterate(consumer, 31)
    await consumer.commit()
    read = {partition: sum(each.topic_partition == partition for each in records) for partition in ORDERS}
    committed = await consumer.committed()
    assert {partition: found.offset for partition, found in committed.items()} == read
    await consumer.close()


async def test_automatic_commits_cover_exactly_what_was_yielded(world, runtime):
    await write_numbers(runtime, 20)
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 1000, "max_poll_records": 8}
    consumer = await a_consumer(runtime, ORDERS[0], group_id="readers", **settings)
    async for record in consumer:
        await asyncio.sleep(0.3)
        if record.offset == 17:
            break
    assert offsets_of(world) == [8, 16], "the polls behind all that the ones before have brought"
    await consumer.close()
    assert offsets_of(world) == [8, 16, 18], "and the end"


async def test_automatic_commit_before_a_revocation_covers_exactly_what_was_yielded(world, runtime):
    await write_numbers(runtime, 60, partitions=3)
    cluster = AsyncCluster(runtime)
    first = cluster.consumer("orders", group="readers", enable_auto_commit=True, auto_commit_interval_ms=10**6)
    await first.__aenter__()
    records = await iterate(first, 31)
    second = cluster.consumer("orders", group="readers")
    await second.__aenter__()
    while first.assignment() == {*ORDERS}:
        records += await first.poll(50, 1)
    (commit,) = world.asked(CommitOffsets)
    revoked = {*ORDERS} - first.assignment()
    read = {partition: sum(each.topic_partition == partition for each in records) for partition in ORDERS}
    committed = {each.partition: each.offset for each in commit.offsets}
    assert {partition: committed.get(partition, 0) for partition in revoked} == {
        partition: read[partition] for partition in revoked
    }
    assert not any(record.topic_partition in revoked for record in first.ahead)
    await second.close()
    await first.close()


async def test_poll_after_an_iteration_goes_on_behind_it_and_keeps_its_limit(runtime):
    await write_numbers(runtime, 20)
    consumer = await a_consumer(runtime, ORDERS[0])
    await iterate(consumer, 5)
    assert [record.offset for record in await consumer.poll(0, 3)] == [5, 6, 7]
    assert [record.offset for record in await consumer.poll(0)] == list(range(8, 20))
    await consumer.close()


async def test_seek_and_pause_between_iterations_lose_and_repeat_nothing(runtime):
    await write_numbers(runtime, 20)
    consumer = await a_consumer(runtime, ORDERS[0])
    await iterate(consumer, 5)
    consumer.pause(ORDERS[0])
    assert await consumer.poll(1000) == []
    consumer.resume(ORDERS[0])
    assert [record.offset for record in await iterate(consumer, 2)] == [5, 6]
    consumer.seek(ORDERS[0], 2)
    assert [record.offset for record in await iterate(consumer, 2)] == [2, 3]
    consumer.seek_to_beginning()
    assert [record.offset for record in await iterate(consumer, 2)] == [0, 1]
    await consumer.close()


async def test_iteration_ends_with_an_error_when_its_consumer_is_closed(runtime):
    await write_numbers(runtime, 20)
    consumer = await a_consumer(runtime, ORDERS[0])
    await iterate(consumer, 5)
    await consumer.close()
    assert isinstance(await outcome(iterate(consumer, 1)), ClientClosed)


async def test_consumer_without_a_group_reads_nothing_after_unsubscribing(runtime):
    await write_numbers(runtime, 20)
    consumer = await a_consumer(runtime, ORDERS[0])
    await iterate(consumer, 5)
    await consumer.unsubscribe()
    assert (consumer.assignment(), await consumer.poll(1000)) == (set(), [])
    await consumer.close()


# The blocking consumer


def fill(background, count):
    with background.cluster.producer() as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=0)


def read_until(consumer, offset):
    for record in consumer:
        if record.offset == offset:
            return


def test_commit_in_on_revoked_of_unsubscribing_covers_exactly_what_was_yielded(background: Background):
    fill(background, 20)
    with background.cluster.consumer(group="readers") as consumer:
        consumer.subscribe("orders", on_revoked=lambda _: consumer.commit())
        read_until(consumer, 4)
        consumer.unsubscribe()
        assert consumer.committed(ORDERS[0])[ORDERS[0]].offset == 5


def test_subscribing_to_more_topics_loses_no_record(background: Background):
    fill(background, 20)
    with background.cluster.consumer("orders", group="readers") as consumer:
        read_until(consumer, 4)
        consumer.subscribe("orders", "invoices")
        assert next(iter(consumer)).offset == 5


def test_blocking_poll_after_an_iteration_keeps_its_limit(background: Background):
    fill(background, 20)
    with background.cluster.consumer("orders") as consumer:
        read_until(consumer, 4)
        assert [record.offset for record in consumer.poll(0, 3)] == [5, 6, 7]
