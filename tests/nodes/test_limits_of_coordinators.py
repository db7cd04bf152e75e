"""What real clients say when a coordinator has as many transactional ids, groups or offsets as it may have."""

import asyncio

import confluent_kafka
import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.client.errors import RefusedError
from eagleray.protocol.errors import ErrorCode
from eagleray.testing import COLOCATED, LocalCluster

ONE_NODE = {0: COLOCATED[0]}
FEW = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "max.transactional.ids.per.partition": "1",
    "max.groups.per.partition": "1",
    "max.offsets.per.group": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def node(tmp_path, runner):
    with runner.entered(LocalCluster(tmp_path, ONE_NODE, FEW)) as nodes:
        runner.run(prepare(nodes))
        yield nodes, runner


async def prepare(nodes):
    cluster = nodes.connect()
    await cluster.admin.create_topic("orders", partitions=2)
    async with cluster.producer(transactional_id="known") as producer, producer.transaction():
        await producer.send("orders", b"1")
        await producer.send_offsets({TopicPartition("orders", 0): 1}, "known")
    await cluster.close()


def test_librdkafka_is_told_that_its_transactional_id_is_refused(node):
    nodes, runner = node

    def init():
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": nodes.bootstrap_servers,
                "transactional.id": "new",
                "log_level": 0,
            }
        )
        with pytest.raises(confluent_kafka.KafkaException) as raised:
            producer.init_transactions(5)
        return raised.value.args[0]

    error = runner.run(asyncio.to_thread(init))
    assert "Policy violation" in str(error)


def test_librdkafka_is_told_that_its_group_is_refused(node):
    nodes, runner = node

    def subscribe():
        consumer = confluent_kafka.Consumer({"bootstrap.servers": nodes.bootstrap_servers, "group.id": "new"})
        consumer.subscribe(["orders"])
        try:
            message = None
            while message is None or message.error() is None:
                message = consumer.poll(1)
            return message.error()
        finally:
            consumer.close()

    error = runner.run(asyncio.wait_for(asyncio.to_thread(subscribe), 60))
    assert error.code() == ErrorCode.POLICY_VIOLATION


def test_librdkafka_is_told_which_offset_is_refused(node):
    nodes, runner = node

    def commit():
        consumer = confluent_kafka.Consumer({"bootstrap.servers": nodes.bootstrap_servers, "group.id": "known"})
        try:
            wanted = [confluent_kafka.TopicPartition("orders", number, 2) for number in range(2)]
            with pytest.raises(confluent_kafka.KafkaException) as raised:
                consumer.commit(offsets=wanted, asynchronous=False)
            return raised.value.args[0], consumer.committed(wanted, timeout=30)
        finally:
            consumer.close()

    error, committed = runner.run(asyncio.to_thread(commit))
    assert error.code() == ErrorCode.POLICY_VIOLATION
    offsets = {each.partition: each.offset for each in committed}
    assert offsets == {0: 2, 1: confluent_kafka.OFFSET_INVALID}, "what the group had is kept up to date"


async def test_python_producer_is_told_that_its_transactional_id_is_refused(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE, FEW) as nodes:
        await prepare(nodes)
        cluster = nodes.connect()
        with pytest.raises(RefusedError, match="POLICY_VIOLATION"):
            async with cluster.producer(transactional_id="new"):
                pass
        await cluster.close()
