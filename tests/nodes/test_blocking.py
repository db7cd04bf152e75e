"""What holds readers back, at real nodes: who is named, by which command readers go on, and topics that set a limit."""

import asyncio
import json
import logging
import os
import shlex
from contextlib import asynccontextmanager

import confluent_kafka
import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS
from eagleray.cli import session
from eagleray.client.errors import GroupNotFound, RefusedError, TopicNotFound, TransactionHeldTooLong
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster
from tests.support.cli_cluster import NodesOnThread, succeed

ORDERS = TopicPartition("orders", 0)
TIMEOUT_S = 60
LIMITED = {"transaction.max.hold.ms": "300"}
# Long enough for a slow machine to look at a transaction while it is open, and to commit another.
LIMITED_LATER = {"transaction.max.hold.ms": "50000"}


@asynccontextmanager
async def running(tmp_path, layout=COLOCATED):
    async with LocalCluster(tmp_path, layout) as nodes:
        cluster = nodes.connect()
        nodes.cluster = cluster
        yield nodes, cluster
        await cluster.close()


@asynccontextmanager
async def open_transaction(cluster, transactional_id, topic="orders", **settings):
    """A producer with a record in a transaction that it leaves open."""
    producer = cluster.producer(transactional_id=transactional_id, **settings)
    await producer.init()
    producer.begin()
    await producer.send_and_wait(topic, b"undecided", partition=0)
    try:
        yield producer
    finally:
        await producer.close()


@pytest.mark.parametrize("layout", [SEPARATE, COLOCATED], ids=["separate", "colocated"])
async def test_transaction_at_the_last_stable_offset_is_named_also_after_a_restart_of_its_coordinator(tmp_path, layout):
    async with running(tmp_path, layout) as (nodes, cluster):
        await cluster.admin.create_topic("orders", partitions=2)
        assert await cluster.admin.blocking() == []
        async with open_transaction(cluster, "loader 1", transaction_timeout_ms=90_000), cluster.producer() as plain:
            await plain.send_and_wait("orders", b"behind it", partition=0)
            async with open_transaction(cluster, "later"):
                (found,) = await cluster.admin.blocking("orders")
                await nodes.restart_node(max(node for node, roles in layout.items() if "coordinator" in roles))
                (again,) = await cluster.admin.blocking()

        assert (found.partition, found.open_since_offset, found.records_waiting) == (ORDERS, 0, 3)
        assert (found.transactional_id, found.state) == ("loader 1", "Ongoing")
        assert (found.origin.client_address, found.origin.client_id) == ("127.0.0.1", f"eagleray-{os.getpid()}")
        assert found.ends_by_ms == found.start_ms + 90_000
        assert found.end_with == "eagleray txn abort 'loader 1'"
        assert again == found


async def test_topics_that_are_not_there_and_unknown_groups_are_refused(tmp_path):
    async with running(tmp_path) as (_, cluster):
        with pytest.raises(TopicNotFound):
            await cluster.admin.blocking("orders")
        with pytest.raises(TopicNotFound):
            await cluster.admin.blocking(ORDERS)
        with pytest.raises(GroupNotFound):
            await cluster.admin.blocking(group="nobody")
        with pytest.raises(RefusedError, match="topics and a group"):
            await cluster.admin.blocking("orders", group="nobody")


async def test_only_the_partitions_that_are_asked_about_are_named(tmp_path):
    async with running(tmp_path) as (_, cluster):
        for topic in ("orders", "payments"):
            await cluster.admin.create_topic(topic, partitions=2)
        async with open_transaction(cluster, "a"), open_transaction(cluster, "b", "payments"):
            admin = cluster.admin
            named = {each.transactional_id: each.partition.topic for each in await admin.blocking()}
            assert named == {"a": "orders", "b": "payments"}
            assert [each.transactional_id for each in await admin.blocking("payments")] == ["b"]
            assert [each.transactional_id for each in await admin.blocking(ORDERS)] == ["a"]
            assert await admin.blocking(TopicPartition("orders", 1)) == []


async def test_group_is_held_back_by_what_it_reads_and_by_its_pending_offsets(tmp_path):
    async with running(tmp_path) as (_, cluster):
        for topic in ("orders", "payments", "other"):
            await cluster.admin.create_topic(topic)
        await cluster.admin.alter_group_offsets("billing", {TopicPartition("payments", 0): 0})
        async with (
            open_transaction(cluster, "assigned"),
            open_transaction(cluster, "committed", "payments"),
            open_transaction(cluster, "elsewhere", "other") as producer,
            cluster.consumer("orders", group="billing") as consumer,
        ):
            while not consumer.assignment():
                await consumer.poll(50)
            found = await cluster.admin.blocking(group="billing")
            assert {each.transactional_id for each in found} == {"assigned", "committed"}

            await producer.send_offsets({TopicPartition("payments", 0): 1}, consumer.group_metadata())
            found = await cluster.admin.blocking(group="billing")
            assert {each.transactional_id for each in found} == {"assigned", "committed", "elsewhere"}
            (pending,) = [each for each in found if each.partition.topic == CONSUMER_OFFSETS]
            assert pending.transactional_id == "elsewhere"
            assert await cluster.admin.blocking(group="billing") == found


async def test_branch_is_told_by_its_owner_and_its_tag(tmp_path):
    async with running(tmp_path) as (_, cluster):
        await cluster.admin.create_topic("orders")
        for name in ("job-1", "job-2"):
            transaction = await cluster.begin(name, tag="batch-7")
            writer = await transaction.branch().open(cluster)
            await writer.send_and_wait("orders", name.encode(), partition=0)
            await writer.close()
            (found,) = await cluster.admin.blocking("orders")
            assert (found.transactional_id, found.tag) == ("job-1", "batch-7")
        await cluster.admin.abort_transaction("job-1")
        async with asyncio.timeout(TIMEOUT_S):
            while (await cluster.admin.blocking("orders"))[0].transactional_id != "job-2":
                await asyncio.sleep(0.02)


# Topics that set a limit


async def test_producer_by_handles_is_told_which_topic_has_ended_its_transaction(tmp_path, caplog):
    async with running(tmp_path) as (_, cluster):
        await cluster.admin.create_topic("orders", configs=LIMITED_LATER)
        with caplog.at_level(logging.WARNING, "eagleray.actors.roles.transaction_coordinator"):
            async with open_transaction(cluster, "slow") as producer:
                (found,) = await cluster.admin.blocking("orders")
                assert (found.max_hold_ms, found.ends_by_ms) == (50_000, found.start_ms + 50_000)
                await cluster.admin.alter_topic("orders", LIMITED)
                async with asyncio.timeout(TIMEOUT_S):
                    while await cluster.admin.blocking("orders"):
                        await asyncio.sleep(0.02)
                with pytest.raises(TransactionHeldTooLong) as told:
                    await producer.commit()
                assert "for topic 'orders' has transaction.max.hold.ms=300" in str(told.value)
                await producer.abort()
                await cluster.admin.alter_topic("orders", LIMITED_LATER)
                producer.begin()
                await producer.send_and_wait("orders", b"soon enough", partition=0)
                await producer.commit()
        (line,) = caplog.messages
        assert "'slow'" in line
        assert "127.0.0.1" in line
        assert "transaction.max.hold.ms=300" in line


async def test_driver_of_branches_is_told_which_topic_has_ended_its_transaction(tmp_path):
    async with running(tmp_path) as (_, cluster):
        await cluster.admin.create_topic("orders")
        transaction = await cluster.begin("job-1", tag="batch-7")
        writer = await transaction.branch().open(cluster)
        await writer.send_and_wait("orders", b"never", partition=0)
        sealed = await writer.seal()
        await writer.close()
        # What is open counts, too.
        await cluster.admin.alter_topic("orders", LIMITED)
        async with asyncio.timeout(TIMEOUT_S):
            while await cluster.admin.blocking("orders"):
                await asyncio.sleep(0.02)
        with pytest.raises(TransactionHeldTooLong, match=r"'orders' has transaction\.max\.hold\.ms=300"):
            await transaction.commit([sealed])


# By commands, and with a client that we did not write


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    nodes = NodesOnThread(tmp_path)
    monkeypatch.setattr(session, "connected", nodes.connected)
    yield nodes
    nodes.close()


def transactional(nodes, **config):
    host = nodes.nodes.bootstrap_servers
    producer = confluent_kafka.Producer({"bootstrap.servers": host, "linger.ms": 0, "client.id": "till-7"} | config)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    return producer


def test_held_reader_goes_on_after_the_printed_command(nodes):
    succeed("topic", "create", "orders")
    producer = transactional(nodes, **{"transactional.id": "till"})
    producer.produce("orders", b"undecided")
    producer.flush(TIMEOUT_S)
    succeed("produce", "orders", stdin="behind it\n")
    assert succeed("consume", "orders", "--timeout", 0.5).stdout == ""

    (found,) = json.loads(succeed("txn", "blocking", "orders", "--json").stdout)
    assert (found["transactional_id"], found["records_waiting"]) == ("till", 2)
    assert (found["client_address"], found["client_id"]) == ("127.0.0.1", "till-7")
    program, *arguments = shlex.split(found["end_with"])
    assert program == "eagleray"
    succeed(*arguments)

    assert succeed("consume", "orders", "--max", 1).stdout == "behind it\n"
    assert json.loads(succeed("txn", "blocking", "--json").stdout) == []


def test_kafka_client_that_is_ended_for_a_topic_is_told_as_at_a_timeout(nodes):
    succeed("topic", "create", "orders", *("--config", "transaction.max.hold.ms=300"))
    producer = transactional(nodes, **{"transactional.id": "till"})
    producer.produce("orders", b"never")
    producer.flush(TIMEOUT_S)
    while json.loads(succeed("txn", "blocking", "orders", "--json").stdout):
        pass

    with pytest.raises(confluent_kafka.KafkaException) as told:
        producer.commit_transaction(TIMEOUT_S)
    assert told.value.args[0].code() in (confluent_kafka.KafkaError._FENCED, confluent_kafka.KafkaError.PRODUCER_FENCED)
