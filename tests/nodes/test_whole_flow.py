"""Real nodes with real listeners and disks, in one process and without Ray: roles with their state machines."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.client.errors import ProducerFenced
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster

ORDERS = TopicPartition("orders", 0)
LAYOUTS = {"separate": SEPARATE, "colocated": COLOCATED}


@pytest.fixture(params=[*LAYOUTS])
def layout(request):
    return LAYOUTS[request.param]


@asynccontextmanager
async def running(tmp_path, layout, **settings):
    async with LocalCluster(tmp_path, layout, settings) as nodes:
        cluster = nodes.connect()
        nodes.cluster = cluster
        yield nodes, cluster
        await cluster.close()


async def committed(cluster, topic, isolation="read_committed"):
    """Read a topic from its beginning to its end."""
    records = []
    async with cluster.consumer(topic, isolation=isolation) as consumer, asyncio.timeout(20):
        partitions = [*consumer.assignment()]
        ends = await consumer.end_offsets(*partitions)
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            records += await consumer.poll(100)
    return sorted(record.value for record in records)


async def assert_committed(cluster, *expected):
    """A commit is acknowledged when it is decided; readers see it when the markers are there, a moment later."""
    found = None
    with suppress(TimeoutError):
        async with asyncio.timeout(20):
            while found != sorted(expected):
                found = await committed(cluster, "orders")
    assert found == sorted(expected)


async def stable_offset(cluster, group):
    """How far a group has come, once no transaction holds offsets of it."""
    async with cluster.consumer("orders", group=group) as consumer:
        committed = await consumer.committed(ORDERS)
    return committed[ORDERS].offset


def node_with(nodes, role):
    return max(node_id for node_id, roles in nodes.layout.items() if role in roles)


async def write(producer, *values, topic="orders"):
    async with producer.transaction():
        for value in values:
            await producer.send(topic, value, key=value)


async def write_and_fail(producer):
    async with producer.transaction():
        for number in range(30):
            await producer.send("orders", b"never %d" % number, key=b"%d" % number)
        await producer.flush()
        raise ZeroDivisionError


async def test_transactions_over_many_partitions_are_seen_whole_or_not_at_all(tmp_path, layout):
    async with running(tmp_path, layout) as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=8)
        async with cluster.producer(transactional_id="checkout") as producer:
            await write(producer, *(b"paid %d" % number for number in range(30)))
            with pytest.raises(ZeroDivisionError):
                await write_and_fail(producer)
            await write(producer, b"again")
        await assert_committed(cluster, b"again", *(b"paid %d" % number for number in range(30)))
        assert len(await committed(cluster, "orders", "read_uncommitted")) == 61


async def test_back_to_back_transactions_to_one_partition_need_no_retry_of_the_application(tmp_path, layout):
    async with running(tmp_path, layout) as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=1)
        async with cluster.producer(transactional_id="checkout") as producer:
            for number in range(100):
                async with producer.transaction():
                    await producer.send("orders", b"%03d" % number)
                    await producer.send_offsets({ORDERS: number}, "checkout")
        await assert_committed(cluster, *(b"%03d" % number for number in range(100)))
        assert await stable_offset(cluster, "checkout") == 99


async def test_offsets_of_an_aborted_transaction_are_not_the_groups(tmp_path, layout):
    async with running(tmp_path, layout) as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=1)
        async with cluster.producer(transactional_id="checkout") as producer:
            async with producer.transaction():
                await producer.send_offsets({ORDERS: 5}, "checkout")
            producer.begin()
            await producer.send_offsets({ORDERS: 9}, "checkout")
            await producer.abort()
        assert await stable_offset(cluster, "checkout") == 5


RESTARTED = [
    *(("separate", role) for role in ("leader", "coordinator", "markers", "groups", "allocator")),
    # The allocator is on the controller's node in this layout, which has a test of its own.
    *(("colocated", role) for role in ("leader", "coordinator", "markers", "groups")),
]


@pytest.mark.parametrize(("name", "role"), RESTARTED)
async def test_a_node_that_is_restarted_between_transactions_goes_on_where_it_was(tmp_path, name, role):
    async with running(tmp_path, LAYOUTS[name]) as (nodes, cluster):
        await cluster.admin.create_topic("orders", partitions=4)
        node_id = node_with(nodes, role)
        async with cluster.producer(transactional_id="checkout") as producer:
            await write(producer, b"before 1", b"before 2")
            producer.begin()
            await producer.send("orders", b"within 1", key=b"1")
            await producer.flush()
            await nodes.stop_node(node_id)
            await nodes.start_node(node_id)
            await producer.send("orders", b"within 2", key=b"2")
            await producer.send_offsets({ORDERS: 7}, "checkout")
            await producer.commit()
            await write(producer, b"after")
        async with cluster.producer(transactional_id="another") as producer:
            await write(producer, b"another")
        await assert_committed(cluster, b"before 1", b"before 2", b"within 1", b"within 2", b"after", b"another")
        assert await stable_offset(cluster, "checkout") == 7


async def test_restarted_controller_knows_everything_and_no_other_node_notices(tmp_path):
    async with running(tmp_path, SEPARATE) as (nodes, cluster):
        await cluster.admin.create_topic("orders", partitions=4)
        async with cluster.producer(transactional_id="checkout") as producer:
            producer.begin()
            await producer.send("orders", b"before", key=b"1")
            await producer.flush()
            epoch = nodes.nodes[5].image.leader_epoch_of(ORDERS)
            await nodes.stop_node(0)
            await producer.send("orders", b"without", key=b"2")
            await producer.commit()
            await nodes.start_node(0)
            await cluster.admin.create_topic("later", partitions=1)
            await write(producer, b"later", topic="later")
        await assert_committed(cluster, b"before", b"without")
        # The leaders are in the same incarnations as before, so their epochs are the same.
        assert nodes.nodes[5].image.leader_epoch_of(ORDERS) == epoch


async def test_a_transaction_with_many_writers_commits_exactly_what_was_named(tmp_path, layout):
    async with running(tmp_path, layout) as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=4)
        transaction = await cluster.begin("job", tag="batch-1")
        token = transaction.branch()
        sealed = []
        for attempt in (b"first", b"second"):
            async with await cluster.join(token) as writer:
                await writer.send("orders", attempt)
                sealed.append(await writer.seal())
        await transaction.commit(sealed[1:], offsets={ORDERS: 3}, group="job")
        await assert_committed(cluster, b"second")
        assert await stable_offset(cluster, "job") == 3
        again = await cluster.begin("job", tag="batch-1")
        assert again.already_committed


async def test_committed_records_are_there_when_all_nodes_are_started_again(tmp_path, layout):
    async def first():
        async with running(tmp_path, layout) as (_, cluster):
            await cluster.admin.create_topic("orders", partitions=4, configs={"retention.ms": "1000000"})
            async with cluster.producer(transactional_id="checkout") as producer:
                await write(producer, b"one", b"two")
            return cluster.runtime.view.image

    async def second():
        async with running(tmp_path, layout) as (_, cluster):
            await assert_committed(cluster, b"one", b"two")
            configs = await cluster.admin.describe_configs("orders")
            assert configs.configs["retention.ms"] == "1000000"
            async with cluster.producer(transactional_id="checkout") as producer:
                await write(producer, b"three")
            await assert_committed(cluster, b"one", b"three", b"two")
            return cluster.runtime.view.image

    before, after = await first(), await second()
    assert after.cluster_id == before.cluster_id
    assert after.leader_epoch_of(ORDERS) > before.leader_epoch_of(ORDERS)


async def test_the_same_data_can_be_served_in_another_layout(tmp_path):
    async with running(tmp_path, SEPARATE) as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=4)
        async with cluster.producer(transactional_id="checkout") as producer:
            await write(producer, b"one", b"two")

    async with running(tmp_path, COLOCATED) as (_, cluster):
        async with cluster.producer(transactional_id="checkout") as producer:
            await write(producer, b"three")
        await assert_committed(cluster, b"one", b"three", b"two")


async def test_a_deleted_topic_leaves_nothing_behind_for_one_of_the_same_name(tmp_path, layout):
    async with running(tmp_path, layout) as (_, cluster):
        admin = cluster.admin
        await admin.create_topic("orders", partitions=2)
        async with cluster.producer() as producer:
            await producer.send("orders", b"old", partition=0)
            await producer.flush()
        await admin.delete_topic("orders")
        assert "orders" not in await admin.list_topics()
        await admin.create_topic("orders", partitions=2)
        async with cluster.producer() as producer:
            await producer.send("orders", b"new", partition=0)
            await producer.flush()
        await assert_committed(cluster, b"new")


async def test_a_transaction_of_a_producer_that_is_gone_is_ended_by_its_successor(tmp_path, layout):
    async with running(tmp_path, layout) as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=2)
        zombie = cluster.producer(transactional_id="checkout")
        await zombie.init()
        zombie.begin()
        await zombie.send("orders", b"zombie")
        await zombie.flush()
        async with cluster.producer(transactional_id="checkout") as successor:
            await write(successor, b"successor")
        with pytest.raises(ProducerFenced):
            await zombie.commit()
        await assert_committed(cluster, b"successor")


async def test_a_transaction_that_takes_too_long_is_aborted(tmp_path, layout):
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    async with running(tmp_path, layout, **settings) as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=1)
        slow = cluster.producer(transactional_id="slow", transaction_timeout_ms=200)
        await slow.init()
        slow.begin()
        await slow.send("orders", b"slow")
        await slow.flush()
        async with cluster.producer(transactional_id="quick") as quick:
            await write(quick, b"quick")
        # A reader waits behind the slow one until the coordinator ends it.
        await assert_committed(cluster, b"quick")


async def test_with_flush_commit_everything_works_the_same(tmp_path, layout):
    async with running(tmp_path, layout, flush="commit") as (_, cluster):
        await cluster.admin.create_topic("orders", partitions=4)
        async with cluster.producer(transactional_id="checkout") as producer:
            await write(producer, b"one", b"two")
        await assert_committed(cluster, b"one", b"two")
