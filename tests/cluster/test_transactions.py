"""The integration tests that the design asks for, on a real Ray, in both layouts."""

import asyncio

import pytest
import ray

from eagleray import TopicPartition
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.partitions.events import Produce
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, InitProducerId
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.errors import AbortableError, FatalError
from eagleray.client.retry_policy import RetryPolicy
from eagleray.protocol.records import NewRecord, build_batch
from tests.support.cluster_load import Load
from tests.support.clusters import (
    admin_of,
    assert_holds,
    client_of,
    decided,
    fresh,
    group_offset,
    until,
    until_async,
    values_in,
    within_deadline,
)

pytestmark = pytest.mark.slow


async def state_of(client, transactional_id):
    return (await admin_of(client).describe_transaction(transactional_id)).state


def test_full_transaction_flow(cluster):
    """Full transaction flow (InitProducerId, AddPartitions, Produce, EndTxn), request by request."""

    async def scenario():
        async with client_of(cluster) as client:
            topic, transactional_id = fresh("flow"), fresh("id")
            partition = TopicPartition(topic, 0)
            await admin_of(client).create_topic(topic, partitions=1)
            await client.runtime.view.find_topic(topic, 10_000)
            coordinator = client.runtime.view.transaction_coordinator(transactional_id)

            async def ask(node_id, message_type, *fields):
                question = Question(message_type, *fields)
                policy = RetryPolicy()
                return await call_with_retries(client.runtime, lambda: node_id, "asking", question, retry_policy=policy)

            begun = await ask(coordinator, InitProducerId, transactional_id)
            producer = begun.producer
            assert producer == ProducerIdentity(producer.producer_id, 0)
            assert await state_of(client, transactional_id) == "Empty"
            await ask(coordinator, AddPartitions, transactional_id, producer, (partition,))
            assert await state_of(client, transactional_id) == "Ongoing"
            batch = build_batch(
                [NewRecord(b"paid", timestamp=client.runtime.wall_ms())],
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=0,
                transactional=True,
            )
            leader = client.runtime.view.leaders[partition]
            await ask(leader, Produce, partition, batch, -1, transactional_id)
            assert await values_in(client, topic) == []
            assert await values_in(client, topic, "read_uncommitted") == [b"paid"]
            await ask(coordinator, EndTransaction, transactional_id, producer, True)
            await assert_holds(client, topic, [b"paid"])

            async def is_complete():
                return await state_of(client, transactional_id) == "CompleteCommit"

            await until_async(is_complete, "the transaction is complete")

    within_deadline(scenario())


def test_transactions_over_many_partitions(cluster):
    """Transactions over many partitions: each is seen in all of them or in none."""

    async def scenario():
        async with client_of(cluster) as client:
            topics = [fresh("left"), fresh("right")]
            for topic in topics:
                await admin_of(client).create_topic(topic, partitions=16)
            async with client.producer(transactional_id=fresh("id")) as producer:
                for turn in range(6):
                    producer.begin()
                    for topic in topics:
                        for number in range(16):
                            await producer.send(topic, b"%d %d" % (turn, number), partition=number)
                    await producer.flush()
                    await (producer.abort() if turn % 3 == 1 else producer.commit())
            for topic in topics:
                await assert_holds(
                    client, topic, [b"%d %d" % (turn, number) for turn in (0, 2, 3, 5) for number in range(16)]
                )
                assert len(await values_in(client, topic, "read_uncommitted")) == 6 * 16

    within_deadline(scenario())


def test_consume_process_produce_is_exactly_once(cluster):
    """Exactly-once consume-process-produce: a processor that fails again and again loses and repeats nothing."""

    async def scenario():
        async with client_of(cluster) as client:
            source, sink, group = fresh("source"), fresh("sink"), fresh("group")
            for topic in (source, sink):
                await admin_of(client).create_topic(topic, partitions=3)
            async with client.producer() as producer:
                for number in range(120):
                    await producer.send(source, b"%d" % number, partition=number % 3)
                await producer.flush()
            transactional_id, processed, lives = fresh("processor"), 0, 0
            while processed < 120:
                lives += 1
                processed = await process(client, source, sink, group, transactional_id, fails_after=17)
            assert lives > 3
            await assert_holds(client, sink, [b"done %d" % number for number in range(120)])
            for number in range(3):
                assert await group_offset(client, group, TopicPartition(source, number)) == 40

    within_deadline(scenario())


async def process(client, source, sink, group, transactional_id, *, fails_after):
    """One life of a processor: it fails in the middle of a transaction; how much its group has come by in all."""
    config = {"auto_offset_reset": "earliest", "isolation": "read_committed", "group": group}
    # Its transactional id first: what its predecessor left open is ended before the offsets are read.
    producer = client.producer(transactional_id=transactional_id)
    await producer.init()
    taken = 0
    async with client.consumer(source, **config) as consumer:
        partitions = [TopicPartition(source, number) for number in range(3)]
        while True:
            positions = [await consumer.position(partition) for partition in partitions]
            records = await consumer.poll(500, 10)
            if not records:
                await producer.close()
                return sum(positions)
            producer.begin()
            for record in records:
                await producer.send(sink, b"done " + record.value, partition=record.partition)
            behind = {record.topic_partition: record.offset + 1 for record in records}
            await producer.send_offsets(behind, consumer.group_metadata())
            taken += len(records)
            if taken >= fails_after:
                await producer.flush()
                return 0
            await producer.commit()


def test_transaction_times_out_and_is_aborted(cluster):
    """Transaction timeout and abort: readers go on, the slow producer is told, and what it wrote is never seen."""

    async def scenario():
        async with client_of(cluster) as client:
            topic, transactional_id = fresh("timeout"), fresh("slow")
            await admin_of(client).create_topic(topic, partitions=1)
            slow = client.producer(transactional_id=transactional_id, transaction_timeout_ms=300)
            await slow.init()
            slow.begin()
            await slow.send_and_wait(topic, b"slow")
            async with client.producer(transactional_id=fresh("quick")) as quick, quick.transaction():
                await quick.send(topic, b"quick")
            await assert_holds(client, topic, [b"quick"])
            assert await state_of(client, transactional_id) == "CompleteAbort"
            with pytest.raises((AbortableError, FatalError)):
                await slow.commit()
            await slow.close()
            async with client.producer(transactional_id=transactional_id) as again, again.transaction():
                await again.send(topic, b"again")
            await assert_holds(client, topic, [b"quick", b"again"])

    within_deadline(scenario())


def test_fifty_producers_at_once_do_not_disturb_each_other(cluster):
    """Concurrent transactions: fifty producers write the same partitions."""

    async def scenario():
        async with client_of(cluster) as client:
            load = Load(client, producers=50, transactions=10)
            await load.prepare()
            await load.run()
            await load.check()
            assert len(load.committed) == 50 * 8 * 2

    within_deadline(scenario())


def test_producers_that_fight_for_one_transactional_id_leave_whole_transactions(cluster):
    """Conflict of concurrent transactions: of many producers with one id each transaction is whole or absent."""

    async def scenario():
        async with client_of(cluster) as client:
            topic, transactional_id = fresh("conflict"), fresh("id")
            await admin_of(client).create_topic(topic, partitions=4)
            acknowledged = []

            async def fight(number):
                producer = client.producer(transactional_id=transactional_id)
                try:
                    await producer.init()
                    for turn in range(5):
                        producer.begin()
                        values = [b"%d %d %d" % (number, turn, place) for place in range(4)]
                        for place, value in enumerate(values):
                            await producer.send(topic, value, partition=place)
                        await producer.commit()
                        acknowledged.extend(values)
                except (AbortableError, FatalError):
                    pass
                finally:
                    await producer.close()

            await asyncio.gather(*map(fight, range(10)))
            await decided(client, topic)
            found = await values_in(client, topic)
            assert len(found) == len(set(found))
            assert set(acknowledged) <= set(found)
            # A commit may have been decided whose answer went to somebody who was fenced meanwhile.
            transactions = {}
            for value in found:
                transactions.setdefault(value.rsplit(b" ", 1)[0], set()).add(value)
            assert {len(values) for values in transactions.values()} <= {4}

    within_deadline(scenario())


# What holds readers back


def loading(kind):
    """A Ray task, or an actor with a name, that has a transaction open: made here, so that workers need no tests."""

    def load(cluster_name, topic, go_on):
        import os
        import time

        import eagleray

        with (
            eagleray.connect(cluster_name) as cluster,
            cluster.producer(transactional_id=topic) as producer,
            producer.transaction(),
        ):
            producer.send(topic, b"undecided")
            producer.flush()
            while not os.path.exists(go_on):
                time.sleep(0.05)

    if kind == "task":
        return ray.remote(num_cpus=0, max_retries=0)(load).options(name="load orders")

    class Loader:
        def load(self, *arguments):
            load(*arguments)

    return ray.remote(num_cpus=0)(Loader).options(name="orders-loader").remote().load


@pytest.mark.parametrize(("kind", "name"), [("task", "load orders"), ("actor", "orders-loader")])
def test_blocking_transaction_shows_its_ray_job_and_task(colocated, tmp_path, kind, name):
    admin, topic, go_on = admin_of(colocated), fresh("held"), tmp_path / "go-on"
    admin.create_topic(topic, partitions=1)
    program = loading(kind)
    loaded = program.remote(colocated.name, topic, str(go_on))

    (found,) = until(lambda: admin.blocking(topic), "the transaction is open")
    go_on.touch()
    ray.get(loaded)

    assert (found.transactional_id, found.records_waiting) == (topic, 1)
    assert (found.origin.ray_job, found.origin.ray_task) == (ray.get_runtime_context().get_job_id(), name)
    assert found.origin.spark_application == ""
    within_deadline(_holds(colocated, topic))


async def _holds(cluster, topic):
    async with client_of(cluster) as client:
        await assert_holds(client, topic, [b"undecided"])
        assert await admin_of(client).blocking(topic) == []
