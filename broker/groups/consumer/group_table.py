"""All consumer groups of the new protocol that one partition of `__consumer_offsets` keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from eagleray.broker.groups.consumer.config import ConsumerGroupConfig
from eagleray.broker.groups.consumer.decisions import GroupDecision, HeartbeatRefusal
from eagleray.broker.groups.consumer.description import describe, describe_missing
from eagleray.broker.groups.consumer.group import ConsumerGroup, refuse
from eagleray.broker.groups.consumer.heartbeats import Client, Surroundings
from eagleray.broker.groups.consumer.member import JOINING
from eagleray.broker.groups.consumer.records import Key, Record, decode_key, decode_value
from eagleray.broker.groups.consumer.requests import check_request
from eagleray.broker.groups.consumer.topics import NO_TOPICS, Topics
from eagleray.broker.identities import TopicPartition
from eagleray.broker.limits import shown
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.consumer_group_describe import DescribedGroup
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eagleray.protocol.messages.consumer_group_records import ConsumerGroupMetadataKey


class ConsumerGroupTable:
    """Groups by name.

    A decision changes nothing before `apply` has its records, in the same turn, unless the log takes nothing. `apply`
    is also all that a recovery needs: what replaying the log gives is the state that was, but for the members'
    deadlines, which begin anew.
    """

    def __init__(self, config: ConsumerGroupConfig, new_member_id: Callable[[], str]) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._config = config
        self._new_member_id = new_member_id
        self._topics = NO_TOPICS

    def take_topics(self, topics: Topics) -> None:
        """Take the topics that there are now; groups notice with the next heartbeat of any member."""
        self._topics = topics

    def begin_sessions(self, now_ms: int) -> None:
        """Give all members their full time, because the records that they are from have none."""
        for group in self.groups.values():
            group.begin_sessions(now_ms)

    # Decisions

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client, now_ms: int
    ) -> GroupDecision:
        """Decide about a ConsumerGroupHeartbeat of some version."""
        refusal = check_request(request, version, self._config.group_consumer_assignors)
        if refusal is not None:
            return refuse(request.group_id, refusal)
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_epoch != JOINING:
                return refuse(request.group_id, _no_group(request))
            group = ConsumerGroup(request.group_id, self._config)
        if not request.member_id:
            request = replace(request, member_id=self._new_member_id())
        return group.heartbeat(request, client, self._around(now_ms))

    def next_due_ms(self, group_id: str) -> int:
        """When the time of a member of a group is up."""
        group = self.groups.get(group_id)
        return NEVER_MS if group is None else group.next_due_ms

    def expire(self, group_id: str, now_ms: int) -> GroupDecision | None:
        """Decide about the members of a group whose time is up, if there are any."""
        group = self.groups.get(group_id)
        return None if group is None else group.expire(self._around(now_ms))

    def _around(self, now_ms: int) -> Surroundings:
        return Surroundings(self._config, self._topics, now_ms)

    # Changes

    def apply(self, records: Iterable[Record], now_ms: int) -> None:
        """Take records that are in the log; those that are about something else are skipped.

        Raises UnsupportedVersion or MalformedMessage.
        """
        for key_bytes, value_bytes in records:
            key = decode_key(key_bytes)
            if key is not None:
                self._apply(key, decode_value(key, value_bytes), now_ms)

    def _apply(self, key: Key, value: Message | None, now_ms: int) -> None:
        group = self.groups.get(key.group_id)
        if isinstance(key, ConsumerGroupMetadataKey) and value is None:
            self.groups.pop(key.group_id, None)
        elif group is not None:
            group.apply(key, value, now_ms)
        elif value is not None:
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id, self._config)
            group.apply(key, value, now_ms)

    # Questions

    def check_commit(
        self,
        group_id: str,
        epoch: int,
        member_id: str,
        group_instance_id: str | None,
        partitions: Iterable[TopicPartition],
        *,
        is_transactional: bool,
    ) -> ErrorCode:
        """Say whether a member of a group that there is may commit offsets of some partitions."""
        return self.groups[group_id].check_commit(
            epoch,
            member_id,
            group_instance_id,
            is_transactional=is_transactional,
            partitions=[self._topics.identify(partition) for partition in partitions],
        )

    def describe(self, group_id: str) -> DescribedGroup:
        """Show a group, for ConsumerGroupDescribe."""
        group = self.groups.get(group_id)
        if group is None:
            return describe_missing(group_id)
        return describe(group.state, self._topics, self._config.group_consumer_assignors)


def _no_group(request: ConsumerGroupHeartbeatRequest) -> HeartbeatRefusal:
    if request.member_epoch < JOINING:
        return HeartbeatRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {shown(request.group_id)}")
    # Kafka says the same as above, which ends a consumer for good; by this it joins again.
    return HeartbeatRefusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"there is no consumer group {shown(request.group_id)} to be a member of"
    )
