"""A whole cluster is stopped and started again on its data directory, in the same layout or the other."""

import psutil
import pytest
import ray

from eagleray import TopicPartition
from eagleray.actors.cluster.supervision import find_actor
from tests.support.cluster_load import Load
from tests.support.clusters import (
    admin_of,
    assert_holds,
    client_of,
    fresh,
    group_offset,
    nodes_with,
    until,
    values_in,
    within_deadline,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("layouts", [("colocated", "separate"), ("separate", "colocated")], ids=" to ".join)
def test_stopped_cluster_goes_on_where_it_was_in_the_other_layout(ray_here, tmp_path, layouts):
    """Everything acknowledged is there, ids go on, and what was prepared gets the markers that it lacked."""
    first, second = layouts
    names = {"name": fresh("restarted"), "data_dir": str(tmp_path / "data")}
    topic, prepared, opened, group = "orders", "prepared", "opened", "checkout"
    partition = TopicPartition(topic, 0)

    async def before(cluster):
        async with client_of(cluster) as client:
            load = Load(client, producers=5, transactions=6)
            await load.prepare()
            await load.run()
            await load.check()
            await admin_of(client).create_topic(topic, partitions=2)
            left_open = client.producer(transactional_id=opened)
            await left_open.init()
            left_open.begin()
            await left_open.send_and_wait(topic, b"open", partition=1)
            producer = client.producer(transactional_id=prepared)
            await producer.init()
            producer.begin()
            await producer.send(topic, b"prepared", partition=0)
            await producer.send_offsets({partition: 5}, group)
            (markers,) = nodes_with(cluster, "markers")
            if first == "separate":
                end_for_good(cluster, markers)
                await producer.commit()
                assert (await admin_of(client).describe_transaction(prepared)).state == "PrepareCommit"
                assert await values_in(client, topic) == []
            else:
                # All roles share one process, which ends when it has said that the commit is decided.
                await producer.commit()
                end_for_good(cluster, markers)
            return load

    async def after(cluster, load):
        async with client_of(cluster) as client:
            await load.check(client)
            async with client.producer(transactional_id=opened) as successor:
                await assert_holds(client, topic, [b"prepared"])
                assert await group_offset(client, group, partition) == 5
                async with successor.transaction():
                    await successor.send(topic, b"successor")
            async with client.producer(transactional_id=prepared) as producer, producer.transaction():
                await producer.send(topic, b"next")
            await assert_holds(client, topic, [b"prepared", b"successor", b"next"])
            more = Load(client, producers=5, transactions=2)
            await more.prepare()
            await more.run()
            await more.check()

    cluster = ray_here.start(first, leaders=1, **names)
    try:
        load = within_deadline(before(cluster))
    finally:
        cluster.close()
    cluster = ray_here.start(second, leaders=1, **names)
    try:
        within_deadline(after(cluster, load))
    finally:
        cluster.close()


def end_for_good(cluster, node):
    """End a node, and let nobody start it again."""
    ray.kill(find_actor(cluster.name, node["node_id"]), no_restart=True)
    until(lambda: not psutil.pid_exists(node["pid"]), f"the process of {node} is gone")
