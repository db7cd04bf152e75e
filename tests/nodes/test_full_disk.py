"""Nodes on a small file system that fills up and gets room again."""

import asyncio
from contextlib import asynccontextmanager

import confluent_kafka
import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.testing import COLOCATED, LocalCluster
from tests.nodes.test_replication import values
from tests.support.small_file_system import small_file_system

ONE_NODE = {0: COLOCATED[0]}
FEW_PARTITIONS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
SIZE_BYTES = 64 * 1024**2
TIMES = 10
RECORDS = 5


@pytest.fixture
def small_disk(tmp_path):
    with small_file_system(tmp_path / "small", SIZE_BYTES) as disk:
        yield disk


@asynccontextmanager
async def node_on(disk):
    """One node with a client."""
    async with LocalCluster(disk.path, ONE_NODE, FEW_PARTITIONS) as nodes:
        cluster = nodes.connect()
        try:
            yield nodes, cluster
        finally:
            await cluster.close()


async def until(is_so):
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


def refusal_of(nodes):
    return nodes.nodes[0].disk_guard.watch.refusal


class Load:
    """Transactions one after the other, until it is told to stop; a producer that fails ends the test."""

    def __init__(self, name):
        self.name = name
        self.committed = []
        self.transactions = 0
        self.is_over = False

    def next_values(self):
        return [b"%s-%d-%d" % (self.name.encode(), self.transactions, number) for number in range(RECORDS)]

    def note(self, sent):
        self.committed += sent
        self.transactions += 1


class PythonLoad(Load):
    async def run(self, cluster):
        async with cluster.producer(transactional_id=self.name) as producer:
            while not self.is_over:
                sent = self.next_values()
                async with producer.transaction():
                    for value in sent:
                        await producer.send("orders", value)
                self.note(sent)


class LibrdkafkaLoad(Load):
    async def run(self, bootstrap):
        await asyncio.to_thread(self._run, bootstrap)

    def _run(self, bootstrap):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": self.name, "linger.ms": 0, "log_level": 0}
        )
        self._wait(producer.init_transactions)
        while not self.is_over:
            sent = self.next_values()
            producer.begin_transaction()
            for value in sent:
                producer.produce("orders", value)
            self._wait(producer.commit_transaction)
            self.note(sent)

    def _wait(self, call):
        """Call again what librdkafka says may be called again."""
        while True:
            try:
                return call(60)
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise


async def test_producers_wait_while_the_disk_is_full_and_nothing_is_lost(small_disk):
    loads = [PythonLoad("one"), PythonLoad("two"), PythonLoad("three"), LibrdkafkaLoad("librdkafka")]
    async with node_on(small_disk) as (nodes, cluster):
        await cluster.admin.create_topic("orders", partitions=2)
        async with asyncio.TaskGroup() as tasks:
            for load in loads:
                tasks.create_task(load.run(nodes.bootstrap_servers if load is loads[-1] else cluster))
            for _ in range(TIMES):
                await goes_on(loads)
                small_disk.fill()
                await until(lambda: refusal_of(nodes))
                await asyncio.sleep(0.3)
                small_disk.free()
                await until(lambda: not refusal_of(nodes))
            await goes_on(loads)
            for load in loads:
                load.is_over = True
        assert len(nodes.nodes[0].replica_manager.offline) == 0
        assert nodes.nodes[0].disk_guard.describe()["has_reserve"]
        assert sorted(await values(cluster)) == sorted(value for load in loads for value in load.committed)


async def goes_on(loads):
    """Every producer commits once more."""
    before = [load.transactions for load in loads]
    await until(lambda: all(load.transactions > was + 1 for load, was in zip(loads, before, strict=True)))


async def test_topic_is_deleted_on_a_full_disk_and_makes_room(small_disk):
    async with node_on(small_disk) as (nodes, cluster):
        await cluster.admin.create_topic("orders", partitions=1)
        await cluster.admin.create_topic("large", partitions=1)
        async with cluster.producer(acks="all") as producer:
            for _ in range(100):
                await producer.send("large", bytes(100_000))
        small_disk.fill()
        await until(lambda: refusal_of(nodes))
        await cluster.admin.delete_topic("large")
        await until(lambda: not refusal_of(nodes))
        async with cluster.producer(acks="all") as producer:
            await producer.send("orders", b"after")
        assert await values(cluster) == [b"after"]


async def test_node_starts_on_a_full_disk_serves_reads_and_goes_on_with_room(small_disk):
    async with node_on(small_disk) as (nodes, cluster):
        await cluster.admin.create_topic("orders", partitions=1)
        async with cluster.producer(transactional_id="billing") as producer, producer.transaction():
            await producer.send("orders", b"before")
        small_disk.fill()
        await nodes.restart_node(0)
        assert refusal_of(nodes)
        assert await values(cluster) == [b"before"]
        writing = asyncio.create_task(write_in_transaction(cluster, b"after"))
        done, _ = await asyncio.wait([writing], timeout=0.5)
        assert not done, "the producer waits"
        small_disk.free()
        await writing
        assert await values(cluster) == [b"before", b"after"]


async def write_in_transaction(cluster, value):
    async with cluster.producer(transactional_id="billing") as producer, producer.transaction():
        await producer.send("orders", value)


async def test_retention_makes_room_on_a_full_disk(small_disk):
    configs = {"segment.bytes": "1048576", "retention.bytes": "2097152"}
    async with node_on(small_disk) as (nodes, cluster):
        await cluster.admin.create_topic("orders", partitions=1, configs=configs)
        async with cluster.producer(acks="all") as producer:
            for _ in range(100):
                await producer.send("orders", bytes(100_000))
        log = nodes.nodes[0].replica_manager.logs[TopicPartition("orders", 0)]
        assert log.log_start_offset == 0
        small_disk.fill()
        async with asyncio.timeout(60):
            await write_in_transaction(cluster, b"after")
        assert log.log_start_offset > 0
