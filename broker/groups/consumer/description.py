"""What a group looks like from outside: ConsumerGroupDescribe, and the names that it has in lists."""

from __future__ import annotations

from typing import Final

from eagleray.broker.groups.consumer.member import Member
from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, by_topic
from eagleray.broker.groups.consumer.state import GroupState
from eagleray.broker.groups.consumer.topics import Topics
from eagleray.broker.limits import shown
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from eagleray.protocol.messages.consumer_group_describe import Member as DescribedMember

GROUP_TYPE: Final = "consumer"
PROTOCOL_TYPE: Final = "consumer"
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe(state: GroupState, topics: Topics, assignors: tuple[str, ...]) -> DescribedGroup:
    """Show a group and all of its members."""
    return DescribedGroup(
        group_id=state.group_id,
        group_state=state.status,
        group_epoch=state.epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=state.preferred_assignor(assignors),
        members=tuple(
            _describe_member(member, state.targets.get(member_id, NO_PARTITIONS), topics)
            for member_id, member in sorted(state.members.items())
        ),
    )


def describe_missing(group_id: str) -> DescribedGroup:
    """Say that there is no such group. Admins then ask for a classic one by that name."""
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"There is no consumer group {shown(group_id)}.",
    )


def _describe_member(member: Member, target: Partitions, topics: Topics) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(target, topics),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(partitions: Partitions, topics: Topics) -> Assignment:
    """Name the partitions, but for those of topics that are gone: they have no name any more."""
    named = ((topic_id, topics.name_of(topic_id), numbers) for topic_id, numbers in by_topic(partitions))
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=numbers)
            for topic_id, name, numbers in named
            if name is not None
        )
    )
