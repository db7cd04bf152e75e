"""What goes between nodes travels as bytes, beside the messages of other roles; all of it arrives as it was sent."""

import msgspec
import pytest

from eagleray.broker.groups import events
from eagleray.broker.groups.classic import events as classic
from eagleray.broker.groups.consumer import events as consumer
from eagleray.broker.groups.events import (
    CommitOffsets,
    CommittedOffset,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    GroupsListed,
    ListedGroup,
    ListGroups,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetToCommit,
)
from eagleray.broker.messages import Message
from eagleray.broker.partitions import events as leader_events
from eagleray.broker.transactions import events as coordinator_events
from eagleray.broker.transactions import marker_events, producer_ids
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import ORDERS_0, ORDERS_1, PRODUCER

OFFSETS = (OffsetToCommit(ORDERS_0, 5), OffsetToCommit(ORDERS_1, 2**62, 3, "m"))
MESSAGES = [
    CommitOffsets(1, "g", OFFSETS, 3, "m", "host"),
    CommitTransactionOffsets(1, "g", "t", PRODUCER, OFFSETS, 3, "m", "host", 2),
    FetchOffsets(1, "g", (ORDERS_0,), True),
    FetchOffsets(1, "g"),
    FetchOffsets(1, "g", None, False, "m", 3),
    DeleteOffsets(1, "g", (ORDERS_0,)),
    DeleteGroup(1, "g"),
    ListGroups(1),
    ListGroups(1, ("Stable",), ("classic",), ("consumer",)),
    OffsetsCommitted(1, ErrorCode.NONE, (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)),
    OffsetsFetched(1, ErrorCode.NONE, (CommittedOffset(ORDERS_0, ErrorCode.NONE, 5, 3, "m"),)),
    GroupsListed(1, ErrorCode.NONE, (ListedGroup("g", "classic", "Empty", ""),)),
    classic.JoinGroup(
        1,
        "g",
        "m",
        "consumer",
        (classic.MemberProtocol("range", b"x"),),
        6000,
        -1,
        "host",
        "c",
        "/h",
        False,
        False,
        "r",
    ),
    classic.SyncGroup(1, "g", 3, "m", "host", "consumer", "range", (classic.MemberAssignment("m", b"x"),)),
    classic.Heartbeat(1, "g", 3, "m", "host"),
    classic.LeaveGroup(1, "g", (classic.LeavingMember("m", "host", "r"),)),
    classic.DescribeGroup(1, "g"),
    classic.GroupJoined(
        1,
        ErrorCode.NONE,
        "m",
        3,
        "consumer",
        "range",
        "m",
        skip_assignment=True,
        members=(classic.JoinedMember("m", None, b"x"),),
    ),
    classic.GroupSynced(1, ErrorCode.NONE, "consumer", "range", b"x"),
    classic.HeartbeatAnswered(1, ErrorCode.REBALANCE_IN_PROGRESS),
    classic.GroupLeft(1, ErrorCode.NONE, (classic.MemberLeft("m", "host", ErrorCode.NONE),)),
    classic.GroupDescribed(
        1, ErrorCode.NONE, "Stable", "consumer", "range", (classic.DescribedMember("m", None, "c", "/h", b"x", b"y"),)
    ),
    consumer.ConsumerHeartbeat(
        1,
        "g",
        "m",
        3,
        "host",
        "rack",
        6000,
        ("orders",),
        "o.*",
        "range",
        (consumer.PartitionsOfTopic(bytes(16), (0, 1)),),
        "c",
        "/h",
        False,
    ),
    consumer.ConsumerHeartbeat(1, "g", "m", -1),
    consumer.DescribeConsumerGroup(1, "g"),
    consumer.ConsumerHeartbeatAnswered(
        1, ErrorCode.NONE, None, "m", 3, 5000, (consumer.PartitionsOfTopic(bytes(16), (0, 1)),)
    ),
    consumer.ConsumerHeartbeatAnswered(1, ErrorCode.FENCED_MEMBER_EPOCH, "why"),
    consumer.ConsumerGroupDescribed(
        1,
        ErrorCode.NONE,
        None,
        "Stable",
        3,
        2,
        "uniform",
        (
            consumer.DescribedConsumer(
                "m", assignment=(consumer.NamedPartitions(bytes(16), "orders", (0, 1)),), member_type=1
            ),
        ),
    ),
]
ON_THE_LANE = (
    coordinator_events.Request | coordinator_events.Reply | events.Request | events.Reply | leader_events.Produce
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_arrives(message: Message):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=ON_THE_LANE) == message
    assert message.__struct_fields__[0] == "request_id"


def test_no_name_of_a_group_coordinator_is_another_machines():
    def names(module: object) -> set[str]:
        found = {name: value for name, value in vars(module).items() if isinstance(value, type)}
        return {
            name for name, value in found.items() if issubclass(value, Message) and value.__module__ == module.__name__
        }

    others = (coordinator_events, marker_events, producer_ids, leader_events)
    assert names(events).isdisjoint(set().union(*map(names, (*others, classic, consumer))))
    assert names(classic).isdisjoint(set().union(*map(names, (*others, consumer))))
    assert names(consumer).isdisjoint(set().union(*map(names, others)))
