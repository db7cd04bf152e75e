"""Pools of transactions at real nodes: side by side, taken over, recovered, and seen by Kafka's clients."""

import asyncio
import threading
from collections import Counter
from contextlib import asynccontextmanager

import confluent_kafka
import confluent_kafka.admin
import psutil
import pytest

from eagleray.actors.lanes.peers import Peers
from eagleray.broker.identities import TopicPartition
from eagleray.cli import session
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import OffsetsInUse, PoolBusy, PoolFenced, ProducerFenced
from eagleray.client.runtime import ClientRuntime
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster
from tests.support.cli_cluster import NodesOnThread, succeed

ORDERS = TopicPartition("orders", 0)
LAYOUTS = {"separate": SEPARATE, "colocated": COLOCATED}
TIMEOUT_S = 60


@pytest.fixture(params=[*LAYOUTS])
def layout(request):
    return LAYOUTS[request.param]


@asynccontextmanager
async def running(tmp_path, layout=COLOCATED, **settings):
    async with LocalCluster(tmp_path, layout, settings) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=4)
        yield nodes, cluster
        await cluster.close()


async def committed(cluster, count):
    """Read as many committed records as there have to be, and what there is behind them."""
    found = []
    async with cluster.consumer("orders", isolation="read_committed") as consumer, asyncio.timeout(TIMEOUT_S):
        while len(found) < count:
            found += await consumer.poll(100)
        found += await consumer.poll(50)
    return sorted(record.value for record in found)


async def open_one(pool, value):
    txn = await pool.begin().__aenter__()
    await txn.send("orders", value, key=value)
    return txn


async def test_transactions_side_by_side_are_seen_whole_or_not_at_all(tmp_path, layout):
    async with running(tmp_path, layout) as (_, cluster):

        async def one(pool, number):
            async with pool.begin() as txn:
                for part in range(3):
                    await txn.send("orders", b"%d-%d" % (number, part), key=b"%d" % part)
                if number % 3 == 0:
                    await txn.abort()

        async with cluster.transactions("checkout", concurrency=8) as pool:
            await asyncio.gather(*(one(pool, number) for number in range(60)))
        kept = [number for number in range(60) if number % 3]
        assert await committed(cluster, 120) == sorted(b"%d-%d" % (n, part) for n in kept for part in range(3))
        known = [each.transactional_id for each in await cluster.admin.list_transactions()]
        assert sorted(known) == ["checkout", *(f"checkout.__slot-{number}" for number in range(8))]


async def test_takeover_fences_sixty_four_that_are_open(tmp_path, layout):
    async with running(tmp_path, layout) as (nodes, cluster):
        other = nodes.connect()
        async with cluster.transactions("checkout", concurrency=64) as old:
            open_ones = [await open_one(old, b"old %d" % number) for number in range(64)]
            prepared = await open_ones[10].prepare(context=b"42")
            async with other.transactions("checkout", concurrency=4) as new:
                assert new.recovered == (prepared,)
                late = await asyncio.gather(*(txn.commit() for txn in open_ones), return_exceptions=True)
                assert {type(each) for each in late} == {PoolFenced}
                async with new.begin() as txn:
                    await txn.send("orders", b"new")
                await other.complete(prepared, commit=True)
        assert await committed(cluster, 2) == [b"new", b"old 10"]
        await other.close()


async def test_pool_survives_the_restart_of_its_coordinator(tmp_path):
    async with running(tmp_path, SEPARATE) as (nodes, cluster):
        async with cluster.transactions("checkout", concurrency=3) as pool:
            first, second = await open_one(pool, b"one"), await open_one(pool, b"two")
            token = await second.prepare()
            await first.producer.flush()
            await nodes.restart_node(max(node for node, roles in SEPARATE.items() if "coordinator" in roles))
            await first.commit()
            async with cluster.transactions("checkout") as new:
                assert new.recovered == (token,)
                with pytest.raises(PoolFenced):
                    await second.commit()
                await cluster.complete(token, commit=True)
        assert await committed(cluster, 2) == [b"one", b"two"]


def connections_at(nodes):
    """How many connections each node has accepted that are open."""
    accepted = Counter(
        each.laddr.port for each in psutil.Process().net_connections("tcp") if each.status == "ESTABLISHED"
    )
    return Counter({node_id: accepted[node.port] for node_id, node in nodes.nodes.items()})


async def test_sixty_four_open_transactions_share_one_connection_to_each_node(tmp_path):
    async with running(tmp_path, SEPARATE) as (nodes, cluster):
        # What nodes need among themselves for the transactions of this pool is open after this.
        async with cluster.transactions("checkout", concurrency=64) as pool:
            await asyncio.gather(*[(await open_one(pool, b"%d" % number)).commit() for number in range(64)])
        before = connections_at(nodes)

        peers = Peers(token=nodes.token)
        peers.learn(nodes.image.nodes)
        client = AsyncCluster(ClientRuntime(peers, nodes.image, cluster="test"))
        async with client.transactions("checkout", concurrency=64) as pool:
            open_ones = [await open_one(pool, b"%d" % number) for number in range(64)]
            new = connections_at(nodes) - before
            await asyncio.gather(*(txn.commit() for txn in open_ones))
            assert connections_at(nodes) - before == new
        await client.close()
        peers.close()

        assert {*new.values()} == {1}
        asked = {node for node, roles in SEPARATE.items() if {"coordinator", "leader"} & {*roles}}
        assert asked <= new.keys()


async def test_offsets_of_a_partition_are_those_of_one_open_transaction(tmp_path):
    async with running(tmp_path) as (_, cluster), cluster.transactions("checkout") as pool:
        first, second = await open_one(pool, b"one"), await open_one(pool, b"two")
        await first.send_offsets({ORDERS: 5}, "audit")
        with pytest.raises(OffsetsInUse, match="audit"):
            await second.send_offsets({ORDERS: 7}, "audit")
        await second.abort()
        await first.commit()
        async with pool.begin() as third:
            await third.send_offsets({ORDERS: 9}, "audit")
        async with cluster.consumer("orders", group="audit") as consumer:
            assert (await consumer.committed(ORDERS))[ORDERS].offset == 9


async def test_pool_is_busy_while_all_of_its_transactions_are_open(tmp_path):
    async with running(tmp_path) as (_, cluster), cluster.transactions("p", concurrency=2, max_block_ms=200) as pool:
        first, second = await open_one(pool, b"one"), await open_one(pool, b"two")
        with pytest.raises(PoolBusy, match="2 transactions"):
            await open_one(pool, b"three")
        await first.commit()
        await (await open_one(pool, b"four")).commit()
        await second.abort()


@pytest.fixture
def nodes_on_thread(tmp_path, monkeypatch):
    nodes = NodesOnThread(tmp_path)
    monkeypatch.setattr(session, "connected", nodes.connected)
    yield nodes
    nodes.close()


def send_and_fail(pool, value, *, prepares=False):
    with pool.begin() as txn:
        txn.send("orders", value)
        if prepares:
            txn.send_offsets({ORDERS: 3}, "audit")
            txn.prepare(context=b"42")
        raise ZeroDivisionError


def test_pool_of_threads(nodes_on_thread):
    with nodes_on_thread.blocking_clients() as cluster:
        cluster.admin.create_topic("orders", partitions=4)
        with cluster.transactions("checkout", concurrency=4) as pool:

            def work(worker: int) -> None:
                for number in range(5):
                    with pool.begin() as txn:
                        txn.send("orders", b"%d %d" % (worker, number), key=b"%d" % number)

            threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with pytest.raises(ZeroDivisionError):
                send_and_fail(pool, b"gone")
            with pytest.raises(ZeroDivisionError):
                send_and_fail(pool, b"prepared", prepares=True)
        with cluster.transactions("checkout") as pool:
            [left] = pool.recovered
            assert cluster.admin.describe_transaction(left.transactional_id).context == b"42"
            cluster.complete(left, commit=True)
        with cluster.consumer("orders", group="readers", isolation="read_committed") as consumer:
            found = []
            while len(found) < 41:
                found += [record.value for record in consumer.poll(500)]
        assert sorted(found) == sorted([b"prepared", *(b"%d %d" % (w, n) for w in range(8) for n in range(5))])


def test_operators_and_kafkas_clients_see_slots(nodes_on_thread):
    with nodes_on_thread.blocking_clients() as cluster:
        cluster.admin.create_topic("orders", partitions=1)
        with cluster.transactions("checkout", concurrency=2) as pool:
            left, other = pool.begin().__enter__(), pool.begin().__enter__()
            left.send("orders", b"gone").result(TIMEOUT_S)
            other.send("orders", b"kept").result(TIMEOUT_S)
            [blocking] = cluster.admin.blocking("orders")
            assert (blocking.transactional_id, blocking.end_with) == (
                "checkout.__slot-0",
                "eagleray txn abort checkout.__slot-0",
            )
            assert "checkout.__slot-0" in succeed("txn", "list").output
            assert "Ongoing" in succeed("txn", "describe", "checkout.__slot-0").output
            succeed("txn", "abort", "checkout.__slot-0")
            with pytest.raises(ProducerFenced):
                left.commit()
            other.commit()
        intruder = confluent_kafka.Producer(
            {
                "bootstrap.servers": nodes_on_thread.nodes.bootstrap_servers,
                "transactional.id": "checkout.__slot-1",
                "linger.ms": 0,
            }
        )
        intruder.init_transactions(TIMEOUT_S)
        intruder.begin_transaction()
        intruder.produce("orders", b"intruder")
        with pytest.raises(confluent_kafka.KafkaException):
            intruder.commit_transaction(TIMEOUT_S)
        with cluster.consumer("orders", isolation="read_committed") as consumer:
            assert [record.value for record in consumer.poll(5000)] == [b"kept"]
