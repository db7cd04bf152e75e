"""What a heartbeat comes to: it may change the member, the group's epoch, its target, and what the member is told."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from eagleray.broker.groups.consumer.assignors import ASSIGNORS
from eagleray.broker.groups.consumer.config import ConsumerGroupConfig
from eagleray.broker.groups.consumer.decisions import Draft, HeartbeatRefusal
from eagleray.broker.groups.consumer.joining import find_by_id, find_or_join
from eagleray.broker.groups.consumer.member import LEAVING_FOR_A_WHILE, Member
from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, by_topic, from_topics
from eagleray.broker.groups.consumer.reconciliation import reconcile
from eagleray.broker.groups.consumer.requests import NOT_GIVEN_MS, is_full
from eagleray.broker.groups.consumer.subscriptions import Subscriber
from eagleray.broker.groups.consumer.topics import Topics
from eagleray.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


class Client(msgspec.Struct, frozen=True):
    """The client at the other end of the connection."""

    client_id: str = ""
    host: str = ""


class Surroundings(msgspec.Struct, frozen=True):
    """What a decision depends on besides the group and the request."""

    config: ConsumerGroupConfig
    topics: Topics
    now_ms: int


# Heartbeats of members, and of clients that want to be members.


def stay(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, client: Client, around: Surroundings, *, is_checked: bool
) -> ConsumerGroupHeartbeatResponse | HeartbeatRefusal:
    """Decide about a heartbeat of a member that joins or stays.

    `is_checked` says that the group is known to fit the topics that there are, so that the group need not look again.
    """
    owned = None if request.topic_partitions is None else from_topics(request.topic_partitions)
    before = find_or_join(draft, request, owned, around.config.group_consumer_max_size)
    if isinstance(before, HeartbeatRefusal):
        return before
    has_changed = _update_subscription(draft, before, _updated(before, request, client))
    if has_changed or not is_checked:
        update_epoch(draft, around, has_changed=has_changed)
    update_target(draft, around)
    after = _reconcile_member(draft, before, owned)
    is_news = is_full(request) or after.assigned != before.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=around.config.group_consumer_heartbeat_interval_ms,
        assignment=_assignment(after.assigned) if is_news else None,
    )


def _updated(member: Member, request: ConsumerGroupHeartbeatRequest, client: Client) -> Member:
    """Give the member with whatever the heartbeat tells about it; what is null has not changed."""
    changes: dict[str, object] = {"client_id": client.client_id, "client_host": client.host, "classic": None}
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != NOT_GIVEN_MS:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        changes["topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        changes["topic_regex"] = request.subscribed_topic_regex or None
    return replace(member, **changes)


def _update_subscription(draft: Draft, before: Member, after: Member) -> bool:
    """Note what has changed about a member, and say whether the group has to be assigned anew for it."""
    is_new = before.member_id not in draft.state.members
    if is_new or after != before:
        draft.write_subscription(after)
    return is_new or (after.topic_names, after.topic_regex) != (before.topic_names, before.topic_regex)


def _reconcile_member(draft: Draft, before: Member, owned: Partitions | None) -> Member:
    state = draft.state
    # What the member was told is what it was before: a static member that returns has already been given new epochs.
    current = replace(state.members[before.member_id], epoch=before.epoch, previous_epoch=before.previous_epoch)
    after = reconcile(
        current,
        state.assignment_epoch,
        state.targets.get(current.member_id, NO_PARTITIONS),
        owned,
        lambda partition: state.holders.get(partition, current.member_id) == current.member_id,
    )
    if after != state.members[before.member_id]:
        draft.write_current(after)
    return after


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_topic(partitions)
        )
    )


# Those who leave, or are made to.


def leave(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, around: Surroundings
) -> ConsumerGroupHeartbeatResponse | HeartbeatRefusal:
    """Decide about the last heartbeat of a member, or the last for a while."""
    member = find_by_id(draft.state, request.member_id, request.instance_id)
    if isinstance(member, HeartbeatRefusal):
        return member
    if request.member_epoch == LEAVING_FOR_A_WHILE:
        # It keeps its place until its session ends; what it was to give up it has given up by this.
        draft.write_current(replace(member, epoch=LEAVING_FOR_A_WHILE, to_revoke=NO_PARTITIONS))
    else:
        remove_members(draft, [member.member_id], around)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def remove_members(draft: Draft, member_ids: list[str], around: Surroundings) -> None:
    """Take members out of the group. What they had is assigned with the next heartbeat of any other member."""
    for member_id in member_ids:
        draft.remove_member(member_id)
    update_epoch(draft, around, has_changed=True)


# The group.


def update_epoch(draft: Draft, around: Surroundings, *, has_changed: bool) -> None:
    """Go on to the next epoch, if anything has changed about what members want or what topics there are."""
    _resolve_regexes(draft, around)
    metadata_hash = around.topics.hash_of(draft.state.subscribed_topics())
    if has_changed or metadata_hash != draft.state.metadata_hash:
        draft.write_epoch(draft.state.epoch + 1, metadata_hash)


def _resolve_regexes(draft: Draft, around: Surroundings) -> None:
    """Find out which topics regular expressions stand for; the hash over all topics tells whether that has changed."""
    wanted = {member.topic_regex for member in draft.state.members.values()}
    for regex in sorted(draft.state.regexes.keys() - wanted):
        draft.remove_regex(regex)
    for regex in sorted(filter(None, wanted)):
        topics = around.topics.matching(regex)
        if draft.state.regexes.get(regex) != topics:
            draft.write_regex(regex, topics, around.topics.version, around.now_ms)


def update_target(draft: Draft, around: Surroundings) -> None:
    """Compute the target assignment, if it is that of an earlier epoch."""
    state = draft.state
    if state.epoch <= state.assignment_epoch:
        return
    assign = ASSIGNORS[state.preferred_assignor(around.config.group_consumer_assignors)]
    subscribers = {
        member.member_id: Subscriber(
            topic_ids=around.topics.ids_of(state.topics_of(member)),
            partitions=state.targets.get(member.member_id, NO_PARTITIONS),
            instance_id=member.instance_id,
        )
        for member in state.members.values()
    }
    targets = assign(subscribers, around.topics.partition_counts(state.subscribed_topics()))
    for member_id in sorted(targets):
        if state.targets.get(member_id) != targets[member_id]:
            draft.write_target(member_id, targets[member_id])
    draft.write_assignment_epoch(around.now_ms)
