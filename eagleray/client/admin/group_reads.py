"""What a group reads: the partitions that it has offsets of, and those that are assigned to its members."""

from __future__ import annotations

import msgspec

from eagleray.actors.lanes.link import Reply
from eagleray.broker.groups.classic.events import DescribeGroup, GroupDescribed
from eagleray.broker.groups.consumer.events import ConsumerGroupDescribed, DescribeConsumerGroup
from eagleray.broker.groups.events import FetchOffsets
from eagleray.broker.identities import TopicPartition
from eagleray.client.calls import Question, first_error
from eagleray.client.errors import GroupNotFound
from eagleray.client.lookups import ask_group
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.codec import decode_versioned
from eagleray.protocol.errors import ErrorCode, ProtocolError
from eagleray.protocol.messages.consumer_protocol import ConsumerProtocolAssignment

_NONE = ErrorCode.NONE
_CONSUMERS = "consumer"


class GroupReads(msgspec.Struct, frozen=True):
    """What a group reads, and which transactions hold offsets of its own."""

    partitions: tuple[TopicPartition, ...]
    offsets_partition: TopicPartition | None
    """The partition of `__consumer_offsets` that keeps the group."""

    pending: tuple[int, ...]
    """The producers of the transactions that hold its offsets."""


async def partitions_read_by(runtime: ClientRuntime, group: str, retry_policy: RetryPolicy) -> GroupReads:
    """Ask the coordinator of a group what the group reads; raises GroupNotFound."""

    async def ask(doing: str, question: Question[Reply]) -> Reply:
        return await ask_group(runtime, group, doing, question, retry_policy, error_of=_unless_unknown)

    await runtime.view.refreshed()
    if runtime.view.group_partition(group) is None:
        raise GroupNotFound(f"there is no group {group!r}.", ErrorCode.GROUP_ID_NOT_FOUND)
    offsets = await ask("reading the offsets of", Question(FetchOffsets, group, None, True))
    consumers = await ask("describing", Question(DescribeConsumerGroup, group))
    if consumers.error_code is _NONE:
        assigned, has_members = _assigned_to_consumers(consumers), bool(consumers.members)
    else:
        classic = await ask("describing", Question(DescribeGroup, group))
        assigned, has_members = _assigned_to_classic(classic), bool(classic.members)
    if not (offsets.offsets or offsets.pending or has_members):
        raise GroupNotFound(f"there is no group {group!r}.", ErrorCode.GROUP_ID_NOT_FOUND)
    partitions = {found.partition for found in offsets.offsets} | assigned
    return GroupReads(tuple(sorted(partitions)), runtime.view.group_partition(group), offsets.pending)


def _unless_unknown(reply: object) -> ErrorCode:
    """For a group that is not there, or is of another kind, asking again changes nothing."""
    error_code = first_error(reply)
    return _NONE if error_code is ErrorCode.GROUP_ID_NOT_FOUND else error_code


def _assigned_to_consumers(described: ConsumerGroupDescribed) -> set[TopicPartition]:
    return {
        TopicPartition(of_topic.topic, number)
        for member in described.members
        for of_topic in member.assignment
        for number in of_topic.partitions
    }


def _assigned_to_classic(described: GroupDescribed) -> set[TopicPartition]:
    """Read what the leader of a group of consumers has assigned; other kinds of groups read nothing from here."""
    if described.protocol_type != _CONSUMERS:
        return set()
    return {partition for member in described.members for partition in _assigned(member.assignment)}


def _assigned(assignment: bytes) -> set[TopicPartition]:
    try:
        found = decode_versioned(ConsumerProtocolAssignment, assignment) if assignment else None
    except ProtocolError:
        return set()
    assigned = () if found is None else found.assigned_partitions
    return {TopicPartition(of_topic.topic, number) for of_topic in assigned for number in of_topic.partitions}
