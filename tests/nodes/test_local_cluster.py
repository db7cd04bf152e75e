"""The cluster that tests have in their own process: its nodes are killed and come back, and its failures are seen."""

import asyncio

import confluent_kafka
import pytest

from eagleray.testing import COLOCATED, LocalCluster
from tests.nodes.test_replication import values, write

ONE_NODE = {0: COLOCATED[0]}


async def test_killed_node_comes_back_with_what_it_has_acknowledged(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1)
        await write(cluster, b"before")
        dead = nodes.nodes[0]
        await nodes.restart_node(0)
        await write(cluster, b"after")
        assert await values(cluster) == [b"before", b"after"]
        assert nodes.nodes[0].incarnation > dead.incarnation
        assert nodes.nodes[0].port == dead.port
        await cluster.close()


async def test_killed_node_does_nothing_of_what_was_under_way(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE) as nodes:
        node, done = nodes.nodes[0], []
        node.turn.act(lambda: done.append("act"))
        node.turn.flush(lambda: done.append("flush"))
        nodes.kill_node(0)
        await nodes.start_node(0)
        await nodes.until_registered()
        assert not done


async def test_kafka_clients_find_the_nodes(tmp_path):
    async with LocalCluster(tmp_path) as nodes:
        producer = confluent_kafka.Producer({"bootstrap.servers": nodes.bootstrap_servers})
        brokers = await asyncio.to_thread(lambda: producer.list_topics(timeout=60).brokers)
        assert brokers.keys() == COLOCATED.keys()


async def test_failure_of_a_node_is_raised_at_the_end(tmp_path):
    nodes = await LocalCluster(tmp_path, ONE_NODE).__aenter__()
    with pytest.raises(ZeroDivisionError):
        nodes.nodes[0].fail(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await nodes.__aexit__()
