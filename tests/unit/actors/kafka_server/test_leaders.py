"""What clients ask the leader of a partition on the wire: DeleteRecords, DescribeProducers, offsets and epochs."""

import msgspec
import pytest

from eagleray.actors.kafka_server.handlers import (
    list_offsets,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import DeleteRecords, DescribeProducers, EpochEndOffset
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages import describe_producers as producers
from eagleray.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from eagleray.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from eagleray.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eagleray.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.cluster_in_memory import GROUPS, LEADER_A
from tests.support.lanes_in_memory import Fate

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def places(world):
    """The numbers of one partition of orders that LEADER_A leads, and of one that it does not."""
    here = [partition.partition for partition in ORDERS if world.image.leader_of(partition) == LEADER_A]
    elsewhere = [partition.partition for partition in ORDERS if world.image.leader_of(partition) != LEADER_A]
    return here[0], elsewhere[0]


# ListOffsets


@pytest.mark.parametrize(
    ("version", "error_code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_old_clients_are_told_in_their_words_that_a_leader_does_not_know_the_end(version, error_code):
    request = ListOffsetsRequest(-1, 0, (ListOffsetsTopic("orders", (ListOffsetsPartition(0, -1, -1),)),))
    response = list_offsets.refuse(request, version, ErrorCode.OFFSET_NOT_AVAILABLE)
    assert response.topics[0].partitions[0].error_code is error_code


# DeleteRecords


def deletion(*partitions, topic="orders"):
    wanted = tuple(DeleteRecordsPartition(number, offset) for number, offset in partitions)
    return DeleteRecordsRequest((DeleteRecordsTopic(topic, wanted),), timeout_ms=1000)


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted_where_the_partition_is_led(version, world):
    here, elsewhere = places(world)
    await world.produce(ORDERS[here], 5)
    request = deletion((here, 2), (elsewhere, 2), (9, 2), (-1, 2))
    response = await world.request(request, version=version)
    (topic,) = response.topics
    assert [(each.partition_index, each.low_watermark, each.error_code) for each in topic.partitions] == [
        (here, 2, ErrorCode.NONE),
        (elsewhere, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (9, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize(("allowed_ms", "passed_on_ms"), [(1234, 1234), (0, 0), (-1, 0)])
async def test_a_client_says_how_long_to_wait_for_all_replicas_to_delete_records(allowed_ms, passed_on_ms, world):
    here, _ = places(world)
    request = msgspec.structs.replace(deletion((here, 0)), timeout_ms=allowed_ms)
    await world.request(request)
    (passed_on,) = world.asked(DeleteRecords)
    assert passed_on.timeout_ms == passed_on_ms


async def test_all_records_are_deleted_but_none_that_are_not_there(world):
    here, _ = places(world)
    await world.produce(ORDERS[here], 5)
    response = await world.request(deletion((here, 6)))
    assert response.topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    response = await world.request(deletion((here, -1)))
    assert response.topics[0].partitions[0].low_watermark == 5


async def test_records_of_internal_topics_stay(world):
    response = await world.request(deletion((0, -1), topic="__consumer_offsets"), node=GROUPS)
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# DescribeProducers


async def test_producers_are_described_where_the_partition_is_led(world):
    here, elsewhere = places(world)
    producer = await world.open_transaction("billing", ORDERS[here])
    request = producers.DescribeProducersRequest((producers.TopicRequest("orders", (here, elsewhere, 9)),))
    response = await world.request(request)
    found, *refused = response.topics[0].partitions
    (state,) = found.active_producers
    assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (state.last_sequence, state.current_txn_start_offset, state.coordinator_epoch) == (0, 0, -1)
    assert [each.error_code for each in refused] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert all(each.error_message for each in refused)


# OffsetForLeaderEpoch


def epochs(*wanted):
    partitions = tuple(OffsetForLeaderPartition(number, current, epoch) for number, current, epoch in wanted)
    return OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic("orders", partitions),))


@pytest.mark.parametrize("version", range(2, 5))
async def test_the_end_of_an_epoch_is_told_where_the_partition_is_led(version, world):
    here, elsewhere = places(world)
    epoch = world.image.leader_epoch_of(ORDERS[here])
    await world.produce(ORDERS[here], 5)
    request = epochs((here, epoch, epoch), (elsewhere, -1, 0), (9, -1, 0), (here, epoch + 1, epoch))
    response = await world.request(request, version=version)
    found = [
        (each.partition, each.error_code, each.leader_epoch, each.end_offset) for each in response.topics[0].partitions
    ]
    assert found == [
        (here, ErrorCode.NONE, epoch, 5),
        (elsewhere, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        (here, ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
    ]


async def test_an_epoch_ends_where_the_next_leader_began_to_write(world):
    here, _ = places(world)
    epoch = world.image.leader_epoch_of(ORDERS[here])
    await world.produce(ORDERS[here], 5)
    await world.restart_node(LEADER_A)
    await world.produce(ORDERS[here], 2)
    response = await world.request(epochs((here, -1, epoch), (here, epoch, epoch)))
    ended, fenced = response.topics[0].partitions
    assert (ended.leader_epoch, ended.end_offset) == (epoch, 5)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH


# DescribeLogDirs


@pytest.mark.parametrize("version", range(1, 6))
async def test_the_directory_is_described_with_what_is_kept_here(version, world):
    here, _ = places(world)
    await world.produce(ORDERS[here], 5)
    everything = DescribeLogDirsRequest(None)
    (result,) = (await world.request(everything, version=version)).results
    sizes = {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }
    led = {name for name in world.image.led_by(LEADER_A) if not name.topic.startswith("__")}
    assert set(sizes) == led
    assert [name for name, size in sizes.items() if size] == [ORDERS[here]]
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes


async def test_of_a_directory_only_the_partitions_asked_for_are_described(world):
    request = DescribeLogDirsRequest((DescribableLogDirTopic("orders", (0, 1, 2)), DescribableLogDirTopic("x", (0,))))
    (result,) = (await world.request(request)).results
    (topic,) = result.topics
    led = [name.partition for name in ORDERS if world.image.leader_of(name) == LEADER_A]
    assert [each.partition_index for each in topic.partitions] == led


# A leader that does not answer


@pytest.mark.parametrize(
    ("kind", "request_of"),
    [
        (DeleteRecords, lambda number: deletion((number, 0))),
        (EpochEndOffset, lambda number: epochs((number, -1, 0))),
        (
            DescribeProducers,
            lambda number: producers.DescribeProducersRequest((producers.TopicRequest("orders", (number,)),)),
        ),
    ],
)
async def test_a_client_looks_again_for_a_leader_that_does_not_answer(kind, request_of, world):
    here, _ = places(world)
    world.network.plan(kind, Fate.REPLY_LOST)
    response = await world.request(request_of(here))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
