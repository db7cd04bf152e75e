"""Replicas on the move, in one process and without Ray: whatever is written meanwhile, nothing of it is lost."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from eagleray.client.errors import RefusedError, ReplicasRefused
from eagleray.protocol.errors import ErrorCode
from eagleray.testing import EVERYTHING
from tests.nodes.test_replication import ORDERS, state_of, until, until_in_sync, values, write

TWO_OF_THREE = {
    "transaction.state.log.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
}


async def create(cluster, factor, partitions=1, **configs):
    await cluster.admin.create_topic("orders", partitions=partitions, replication_factor=factor, configs=configs)


@asynccontextmanager
async def writing(cluster, transactional_id=None):
    """Write all the time, in transactions or not; give the list of what was acknowledged."""
    acknowledged, is_over = [], asyncio.Event()

    async def write_on():
        number = 0
        async with cluster.producer(transactional_id=transactional_id) as producer:
            while not is_over.is_set():
                batch = [b"%d" % each for each in range(number, number + 5)]
                number += 5
                if transactional_id is None:
                    await asyncio.gather(*[await producer.send("orders", value) for value in batch])
                else:
                    async with producer.transaction():
                        for value in batch:
                            await producer.send("orders", value)
                acknowledged.extend(batch)

    task = asyncio.create_task(write_on())
    await until(lambda: len(acknowledged) >= 20 or task.done(), "something is acknowledged")
    try:
        yield acknowledged
        count = len(acknowledged)
        await until(lambda: len(acknowledged) > count + 20 or task.done(), "more is acknowledged")
    finally:
        is_over.set()
        await task


async def until_moved(nodes, *target, partition=ORDERS):
    def is_moved():
        state = state_of(nodes, partition)
        return (state.replicas, state.adding, state.removing) == (target, (), ()) and state.leader in target

    await until(is_moved, f"{partition} is on {target}")


def on_disk(tmp_path, partition=ORDERS):
    return sorted(
        int(path.parts[-3].removeprefix("machine-")) * 100 for path in tmp_path.glob(f"machine-*/logs/{partition}")
    )


async def test_a_partition_moves_to_other_machines_while_it_is_written(tmp_path, nodes, cluster):
    await create(cluster, 1)
    (here,) = state_of(nodes).replicas
    target = [node_id for node_id in (200, 100, 0) if node_id != here]
    async with writing(cluster) as acknowledged:
        await cluster.admin.reassign_partitions({ORDERS: target})
        await until_moved(nodes, *target)
    assert sorted(await values(cluster)) == sorted(acknowledged)
    assert state_of(nodes).leader == target[0]
    assert await cluster.admin.list_reassignments() == []
    await until(lambda: on_disk(tmp_path) == sorted(target), "the files of the old replica are gone")
    (partition,) = (await cluster.admin.describe_topic("orders")).partitions
    assert (partition.replicas, partition.adding, partition.removing) == (tuple(target), (), ())


async def test_a_move_that_cannot_go_on_shows_and_can_be_taken_back(nodes, cluster):
    await create(cluster, 2)
    first, second = state_of(nodes).replicas
    (other,) = {0, 100, 200} - {first, second}
    if 0 in (other, second):
        # The one with the controller stays.
        await cluster.admin.reassign_partitions({ORDERS: [0, 100]})
        await until_moved(nodes, 0, 100)
        first, second, other = 0, 100, 200
    nodes.kill_node(other)
    await cluster.admin.reassign_partitions({ORDERS: [first, other]})
    (moving,) = await cluster.admin.list_reassignments()
    assert (moving.partition, moving.adding, moving.removing) == (ORDERS, (other,), (second,))
    (partition,) = (await cluster.admin.describe_topic("orders")).partitions
    assert (partition.adding, partition.removing) == ((other,), (second,))
    await write(cluster, b"meanwhile")
    await cluster.admin.reassign_partitions({ORDERS: None})
    await until_moved(nodes, first, second)
    assert await values(cluster) == [b"meanwhile"]
    with pytest.raises(ReplicasRefused, match="999"):
        await cluster.admin.reassign_partitions({ORDERS: [999]})


@pytest.mark.parametrize("node_id", [0, 200])
@pytest.mark.parametrize("settings", [TWO_OF_THREE])
async def test_a_node_is_drained_while_transactions_go_on(node_id, nodes, cluster):
    await create(cluster, 2, partitions=4)
    async with cluster.consumer("orders", group="readers") as consumer:
        await consumer.commit({ORDERS: 3})
    async with writing(cluster, "checkout") as acknowledged:
        assert await cluster.admin.drain_node(node_id) > 0
        await until(lambda: not nodes.nodes[0].image.kept_by(node_id), "it keeps nothing")
    assert await cluster.admin.kept_by(node_id) == set()
    await until_values_are(cluster, acknowledged)
    (described,) = [node for node in await cluster.admin.list_nodes() if node.node_id == node_id]
    assert (described.draining, described.keeps, described.leads) == (True, 0, 0)
    async with cluster.consumer("orders", group="readers") as consumer:
        assert (await consumer.committed(ORDERS))[ORDERS].offset == 3
    await until(lambda: not [*nodes.nodes[node_id].replica_manager.logs], "its logs are closed")
    await cluster.admin.create_topic("later", partitions=6, replication_factor=1)
    assert await cluster.admin.kept_by(node_id) == set()
    await cluster.admin.undrain_node(node_id)
    await cluster.admin.create_topic("last", partitions=6, replication_factor=1)
    assert {partition.topic for partition in await cluster.admin.kept_by(node_id)} == {"last"}


async def until_values_are(cluster, expected):
    """Markers of the last transaction may be on their way."""
    found = []
    for _ in range(200):
        found = await values(cluster)
        if len(found) >= len(expected):
            break
        await asyncio.sleep(0.05)
    assert sorted(found) == sorted(expected)


async def test_a_node_whose_replicas_have_nowhere_to_go_is_not_drained(cluster):
    with pytest.raises(RefusedError, match="no machine can take"):
        await cluster.admin.drain_node("machine-1")
    assert not any(node.draining for node in await cluster.admin.list_nodes())
    with pytest.raises(RefusedError, match="machine 'elsewhere'"):
        await cluster.admin.drain_node("elsewhere")


async def test_a_fourth_machine_takes_over_from_one_that_goes(nodes, cluster):
    await create(cluster, 3, **{"min.insync.replicas": "2"})
    async with writing(cluster, "checkout") as acknowledged:
        nodes.layout = nodes.layout | {300: EVERYTHING}
        await nodes.plan()
        await nodes.start_node(300)
        await nodes.until_registered()
        await cluster.admin.reassign_partitions({ORDERS: [300, 0, 200]})
        await until_moved(nodes, 300, 0, 200)
        await cluster.admin.drain_node("machine-1")
        await until(lambda: not nodes.nodes[0].image.kept_by(100), "it keeps nothing")
        await nodes.stop_node(100)
        nodes.layout = {node_id: roles for node_id, roles in nodes.layout.items() if node_id != 100}
        await nodes.plan()
    await until_values_are(cluster, acknowledged)
    assert [node.node_id for node in await cluster.admin.list_nodes()] == [0, 200, 300]


async def test_the_first_replica_leads_again_when_it_is_asked_for(nodes, cluster):
    await create(cluster, 3, **{"min.insync.replicas": "2"})
    await cluster.admin.reassign_partitions({ORDERS: [100, 0, 200]})
    await until_in_sync(nodes)
    await cluster.admin.elect_leaders(ORDERS)
    assert state_of(nodes).leader == 100
    nodes.kill_node(100)
    await until(lambda: state_of(nodes).leader == 0, "another leads")
    with pytest.raises(ReplicasRefused, match="not there, or not in sync"):
        await cluster.admin.elect_leaders(ORDERS)
    await nodes.start_node(100)
    await until_in_sync(nodes)
    async with writing(cluster) as acknowledged:
        assert ORDERS in await cluster.admin.elect_leaders()
        assert state_of(nodes).leader == 100
        assert await cluster.admin.elect_leaders(ORDERS) == []
    assert sorted(await values(cluster)) == sorted(acknowledged)


async def test_replica_that_lacks_records_leads_on_request_only(nodes, cluster):
    await create(cluster, 2)
    await cluster.admin.reassign_partitions({ORDERS: [100, 200]})
    await until_moved(nodes, 100, 200)
    await write(cluster, b"everywhere")
    nodes.kill_node(200)
    await until(lambda: state_of(nodes).isr == (100,), "one is in sync")
    await write(cluster, b"lost")
    nodes.kill_node(100)
    await until(lambda: state_of(nodes).leader == -1, "nobody leads")
    await nodes.start_node(200)
    await until(lambda: 200 in nodes.nodes[0].image.nodes, "the other is back")
    (partition,) = (await cluster.admin.describe_topic("orders")).partitions
    assert (partition.leader, partition.isr, partition.high_watermark, partition.undecided) == (-1, (100,), -1, 0)
    assert await cluster.admin.elect_leaders(ORDERS, unclean=True) == [ORDERS]
    await write(cluster, b"afterwards")
    assert await values(cluster) == [b"everywhere", b"afterwards"]
    await nodes.start_node(100)
    await until_in_sync(nodes, 2)
    assert await values(cluster) == [b"everywhere", b"afterwards"]


# Clients that we did not write


async def run_beside(nodes, cluster, client):
    """Run a blocking client in a thread beside three machines, with a topic of one replica."""
    await create(cluster, 1)
    await write(cluster, b"before")
    await asyncio.to_thread(client, f"127.0.0.1:{nodes.nodes[200].port}")
    assert await values(cluster) == [b"before"]


def look_until(is_true, what):
    deadline_s = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline_s, f"still not: {what}"
        time.sleep(0.05)


async def test_kafka_python_moves_partitions_and_elects_leaders(nodes, cluster):
    orders = kafka.TopicPartition("orders", 0)

    def client(bootstrap):
        admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        (described,) = admin.describe_topics(["orders"])
        (here,) = described["partitions"][0]["replica_nodes"]
        target = [node_id for node_id in (0, 100, 200) if node_id != here]
        assert admin.alter_partition_reassignments({orders: target}) == {orders: None}
        look_until(lambda: not admin.list_partition_reassignments(), "nothing is moved")
        look_until(lambda: admin.describe_topics(["orders"])[0]["partitions"][0]["replica_nodes"] == target, "moved")
        refused = admin.alter_partition_reassignments({orders: None})
        assert refused == {orders: kafka.errors.NoReassignmentInProgressError}
        refused = admin.alter_partition_reassignments({orders: [999]})
        assert refused[orders].errno == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert admin.alter_partition_reassignments({orders: target[::-1]}) == {orders: None}
        look_until(lambda: state_of(nodes).replicas == tuple(target[::-1]), "the other comes first")
        response = admin.elect_leaders(0, {"orders": [0]})
        assert response.replica_election_results[0].partition_result[0].error_code == 0
        look_until(lambda: admin.describe_topics(["orders"])[0]["partitions"][0]["leader_id"] == target[1], "it leads")
        racks = {broker["broker_id"]: broker["rack"] for broker in admin.describe_cluster()["brokers"]}
        assert racks == {0: "machine-0", 100: "machine-1", 200: "machine-2"}
        admin.close()

    await run_beside(nodes, cluster, client)


async def test_librdkafka_elects_leaders(nodes, cluster):
    orders = confluent_kafka.TopicPartition("orders", 0)

    def client(bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap})

        def elect(kind, *partitions):
            # With a timeout of its own, this version of the client raises SystemError.
            found = admin.elect_leaders(kind, [*partitions] or None).result()
            return {name.partition: error and error.code() for name, error in found.items() if name.topic == "orders"}

        preferred, unclean = confluent_kafka.ElectionType.PREFERRED, confluent_kafka.ElectionType.UNCLEAN
        for kind in (preferred, unclean):
            assert elect(kind, orders) == {0: confluent_kafka.KafkaError.ELECTION_NOT_NEEDED}
            assert elect(kind) == {}
        moves = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        leader = state_of(nodes).leader
        target = next(node_id for node_id in (0, 100, 200) if node_id != leader), leader
        moves.alter_partition_reassignments({kafka.TopicPartition("orders", 0): target})
        look_until(lambda: {*state_of(nodes).isr} == {*target}, f"it is on {target}")
        moves.close()
        assert state_of(nodes).leader == leader
        assert elect(preferred) == {0: None}
        assert state_of(nodes).leader == target[0]
        described = admin.describe_cluster().result()
        assert {node.rack for node in described.nodes} == {"machine-0", "machine-1", "machine-2"}

    await run_beside(nodes, cluster, client)


@pytest.mark.parametrize("settings", [TWO_OF_THREE])
async def test_librdkafka_goes_on_in_its_group_and_transactions_while_nodes_are_drained(nodes, cluster):
    is_over = threading.Event()

    def produce(bootstrap):
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "job", "linger.ms": 0})
        producer.init_transactions(30)
        committed, number = [], 0
        while not is_over.is_set():
            producer.begin_transaction()
            values = [b"%d-%d" % (number, part) for part in range(4)]
            for part, value in enumerate(values):
                producer.produce("orders", value, partition=part)
            if number % 5 == 4:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                committed += values
            number += 1
        return committed

    def consume(bootstrap):
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": 6000,
        }
        consumer, found, quiet = confluent_kafka.Consumer(config), [], 0
        consumer.subscribe(["orders"])
        while quiet < 4:
            messages = [message for message in consumer.consume(100, 0.5) if message.error() is None]
            found += [message.value() for message in messages]
            quiet = 0 if messages or not is_over.is_set() else quiet + 1
        consumer.close()
        return found

    await create(cluster, 2, partitions=4)
    bootstrap = f"127.0.0.1:{nodes.nodes[100].port}"
    producing = asyncio.create_task(asyncio.to_thread(produce, bootstrap))
    consuming = asyncio.create_task(asyncio.to_thread(consume, bootstrap))
    try:
        for node_id in (200, 0, 100):
            await asyncio.sleep(0.5)
            await cluster.admin.drain_node(node_id)
            await until(lambda: not nodes.nodes[0].image.kept_by(node_id), f"{node_id} keeps nothing")  # noqa: B023
            await cluster.admin.undrain_node(node_id)
        await asyncio.sleep(0.5)
    finally:
        is_over.set()
        committed, found = await asyncio.gather(producing, consuming)
    assert len(committed) > 40
    # The group may read again what it could not commit; the topic has everything once.
    assert {*found} == {*committed}
    await until_values_are(cluster, committed)
