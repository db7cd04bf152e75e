"""Kafka's protocol about internal topics: Metadata send clients to their coordinators' nodes, which answer."""

import asyncio

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.broker.partitions.events import DescribePartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import (
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    txn_offset_commit,
)
from eagleray.protocol.records import split_batches
from eagleray.testing import COLOCATED, SEPARATE
from tests.nodes.test_wire import running

NONE = ErrorCode.NONE
FEW = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE)


@pytest.fixture(params=["separate", "colocated"])
def layout(request):
    return {"separate": SEPARATE, "colocated": COLOCATED}[request.param]


async def led(wire):
    """Each partition of an internal topic, with the node that Metadata say leads it."""
    wanted = tuple(metadata.MetadataRequestTopic(name=name) for name in INTERNAL)
    answer = await wire.any(metadata.MetadataRequest(wanted), 12)
    return [(topic.name, each.partition_index, each.leader_id) for topic in answer.topics for each in topic.partitions]


async def commit(wire, group):
    node_id = await wire.coordinator(group, 0)
    partition = offset_commit.OffsetCommitRequestPartition(0, 7)
    request = offset_commit.OffsetCommitRequest(
        group, topics=(offset_commit.OffsetCommitRequestTopic("orders", partitions=(partition,)),)
    )
    answer = await wire.ask(node_id, request, 8)
    assert answer.topics[0].partitions[0].error_code == NONE


async def list_offset(wire, node_id, topic, number, timestamp):
    asked = list_offsets.ListOffsetsTopic(topic, (list_offsets.ListOffsetsPartition(number, -1, timestamp),))
    answer = await wire.ask(node_id, list_offsets.ListOffsetsRequest(-1, 0, (asked,)), 7)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


async def read(wire, node_id, topic, number, offset, max_wait_ms=0):
    asked = fetch.FetchTopic(
        topic, bytes(16), (fetch.FetchPartition(number, fetch_offset=offset, partition_max_bytes=1 << 20),)
    )
    request = fetch.FetchRequest(topics=(asked,), max_wait_ms=max_wait_ms, min_bytes=1)
    return (await wire.ask(node_id, request, 12)).responses[0].partitions[0]


async def producers_of(wire, node_id, topic, number):
    request = describe_producers.DescribeProducersRequest((describe_producers.TopicRequest(topic, (number,)),))
    (found,) = (await wire.ask(node_id, request, 0)).topics[0].partitions
    return found


async def test_every_internal_partition_answers_where_metadata_say_it_is_led(tmp_path, layout):
    async with running(tmp_path, layout, FEW) as (_, wire):
        await wire.topic("orders")
        await commit(wire, "billing")
        for topic, number, node_id in await led(wire):
            assert (await producers_of(wire, node_id, topic, number)).error_code == NONE
            code, start = await list_offset(wire, node_id, topic, number, -2)
            assert (code, start) == (NONE, 0)
            code, end = await list_offset(wire, node_id, topic, number, -1)
            assert code == NONE
            found = await read(wire, node_id, topic, number, end)
            assert (found.error_code, found.high_watermark, found.records or b"") == (NONE, end, b"")
            beyond = await read(wire, node_id, topic, number, end + 1)
            assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            epoch = offset_for_leader_epoch.OffsetForLeaderTopic(
                topic, (offset_for_leader_epoch.OffsetForLeaderPartition(number, -1, 0),)
            )
            request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=(epoch,))
            (ended,) = (await wire.ask(node_id, request, 4)).topics[0].partitions
            assert ended.error_code == NONE
            deletion = delete_records.DeleteRecordsTopic(topic, (delete_records.DeleteRecordsPartition(number, 0),))
            answer = await wire.ask(node_id, delete_records.DeleteRecordsRequest((deletion,), 1000), 2)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_node_that_does_not_lead_an_internal_partition_says_so(tmp_path):
    async with running(tmp_path, COLOCATED, FEW) as (_, wire):
        topic, number, node_id = (await led(wire))[0]
        other = next(each for each in COLOCATED if each != node_id)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await producers_of(wire, other, topic, number)).error_code == code
        assert (await list_offset(wire, other, topic, number, -1))[0] == code
        assert (await read(wire, other, topic, number, 0)).error_code == code
        unknown = await producers_of(wire, node_id, topic, 9)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_committed_offsets_are_read_as_records(tmp_path, layout):
    async with running(tmp_path, layout, FEW) as (_, wire):
        await wire.topic("orders")
        await commit(wire, "billing")
        ends = {}
        for topic, number, node_id in await led(wire):
            _, ends[topic, number, node_id] = await list_offset(wire, node_id, topic, number, -1)
        ((topic, number, node_id),) = [place for place, end in ends.items() if end]
        assert topic == CONSUMER_OFFSETS
        found = await read(wire, node_id, topic, number, 0)
        (batch,) = split_batches(found.records)
        assert b"billing" in next(iter(batch.records())).key
        # One that waits is answered when its time is up, and sees what has come meanwhile.
        waiting = asyncio.create_task(read(wire, node_id, topic, number, 1, max_wait_ms=100))
        assert (await waiting).error_code == NONE
        dirs = await wire.ask(node_id, describe_log_dirs.DescribeLogDirsRequest(None), 4)
        sizes = {
            (each.name, partition.partition_index): partition.partition_size
            for each in dirs.results[0].topics
            for partition in each.partitions
        }
        assert sizes[topic, number] > 0


async def test_offsets_in_a_transaction_show_their_producer(tmp_path):
    async with running(tmp_path, SEPARATE, FEW) as (_, wire):
        await wire.topic("orders")
        producer = await wire.init("billing-1")
        await commit_in_transaction(wire, producer)
        open_since = [
            (state.producer_id, state.current_txn_start_offset)
            for topic, number, node_id in await led(wire)
            for state in (await producers_of(wire, node_id, topic, number)).active_producers
        ]
        assert open_since == [(producer.producer_id, 0)]


async def commit_in_transaction(wire, producer):
    node_id = await wire.coordinator("billing", 0)
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic("orders", partitions=(partition,))
    request = txn_offset_commit.TxnOffsetCommitRequest(
        "billing-1", "billing", producer.producer_id, producer.producer_epoch, topics=(topic,)
    )
    answer = await wire.ask(node_id, request, 5)
    assert answer.topics[0].partitions[0].error_code == NONE


async def test_handles_describe_internal_partitions(tmp_path, layout):
    async with running(tmp_path, layout, FEW) as (nodes, wire):
        for topic, number, node_id in await led(wire):
            reply = await nodes.peers.call(node_id, DescribePartition, TopicPartition(topic, number))
            assert (reply.error_code, reply.log_start_offset) == (NONE, 0)
