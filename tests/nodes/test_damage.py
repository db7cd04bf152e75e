"""Nodes whose disks change what was written: what is damaged costs its own partition only, and no byte of it."""

from pathlib import Path

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import Fetch, FetchPartition, ListOffset, Produce
from eagleray.offline.repairing import accept, plan_repair
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch
from tests.nodes.test_replication import MACHINES, end_offsets, state_of, until, until_in_sync, values

ORDERS, OTHERS = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECORDS = 20


@pytest.fixture
def settings():
    return {"flush.ms": "100"}


async def write(cluster, partition=ORDERS):
    async with cluster.producer(acks="all") as producer:
        for number in range(RECORDS):
            await (await producer.send("orders", b"%d" % number, partition=partition.partition))


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def directory_of(nodes, node_id, partition=ORDERS):
    (found,) = Path(nodes.data_dir).glob(f"**/machine-{node_id // 100}/logs/{partition}")
    return found


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


async def error_codes(nodes, partition):
    """What the leader of a partition answers to each kind of request."""
    leader, ask = state_of(nodes, partition).leader, nodes.peers.call
    batch = build_batch([NewRecord(b"more")])
    wanted = FetchPartition(partition, 0, 1000)
    produced = await ask(leader, Produce, partition, batch)
    fetched = await ask(leader, Fetch, (wanted,), Isolation.READ_UNCOMMITTED, 0, 0, 1000)
    listed = await ask(leader, ListOffset, partition, -1, Isolation.READ_UNCOMMITTED, -1)
    return {produced.error_code, fetched.partitions[0].error_code, listed.error_code}


async def test_damaged_sole_replica_is_offline_until_a_person_accepts_the_loss(nodes, cluster):
    await cluster.admin.create_topic("orders", partitions=2, replication_factor=1)
    for partition in (ORDERS, OTHERS):
        await write(cluster, partition)
    leader = state_of(nodes).leader
    log = nodes.nodes[leader].replica_manager.logs[ORDERS]
    # A thread that flushes goes on for a moment when a node of this process is killed.
    await until(lambda: log.recovery_point == log.log_end_offset, "all is flushed")
    nodes.kill_node(leader)
    directory = directory_of(nodes, leader)
    flip(directory / f"{0:020d}.log")
    (directory / "segment-bookmark").unlink(missing_ok=True)
    before = files_of(directory)
    await nodes.start_node(leader)
    await nodes.until_registered()
    node = nodes.nodes[leader]
    await until(lambda: ORDERS in node.replica_manager.offline, "the damage is found")

    assert await error_codes(nodes, ORDERS) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert await error_codes(nodes, OTHERS) == {ErrorCode.NONE}
    assert files_of(directory) == before
    reason = node.describe()["offline"][str(ORDERS)]
    assert f"`eagleray storage repair {directory.parent.parent} --partition {ORDERS} --accept-loss`" in reason
    plan = plan_repair(str(directory.parent.parent), str(ORDERS))
    offset = plan.loss.offset
    assert 0 <= offset < RECORDS
    assert f"from offset {offset} on" in reason
    assert files_of(directory) == before

    accept(plan)
    await until(lambda: ORDERS not in node.replica_manager.offline, "the loss is accepted")
    await until(lambda: node.replica_manager.leader(ORDERS) is not None, "it is led again")
    assert node.replica_manager.logs[ORDERS].log_end_offset == offset
    assert sum(node.describe()["cuts"].values()) == 1
    assert await error_codes(nodes, ORDERS) == {ErrorCode.NONE}
    kept = b"".join(path.read_bytes() for path in sorted(directory.glob("*.cut")))
    assert before[f"{0:020d}.log"].endswith(kept)
    assert kept


async def test_damaged_replica_is_copied_anew_before_its_files_go(nodes, cluster):
    configs = {"min.insync.replicas": "2"}
    await cluster.admin.create_topic("orders", partitions=1, replication_factor=MACHINES, configs=configs)
    await until_in_sync(nodes)
    await write(cluster)
    follower = max({0, 100, 200} - {state_of(nodes).leader})
    nodes.kill_node(follower)
    directory = directory_of(nodes, follower)
    flip(directory / f"{0:020d}.log")
    (directory / "segment-bookmark").unlink(missing_ok=True)
    await nodes.start_node(follower)
    await nodes.until_registered()
    put_aside = directory.parent.parent / "damaged"
    await until(put_aside.exists, "the damaged log is put aside")
    await until_in_sync(nodes)
    await until(lambda: len({*end_offsets(nodes)}) == 1, "the logs are equal")
    await until(lambda: not [*put_aside.iterdir()], "what was put aside is removed")
    assert len(await values(cluster)) == RECORDS


async def test_log_is_flushed_while_it_serves(nodes, cluster):
    await cluster.admin.create_topic("orders", partitions=1, replication_factor=1)
    await write(cluster)
    node = nodes.nodes[state_of(nodes).leader]
    log = node.replica_manager.logs[ORDERS]
    await until(lambda: log.recovery_point == log.log_end_offset == RECORDS, "all is flushed")
    assert (directory_of(nodes, node.spec.node_id) / "recovery-point").exists()
