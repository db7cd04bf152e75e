"""The KIP-848 protocol of groups: which requests they take, and how they live with the log."""

from __future__ import annotations

from typing import ClassVar, Final

from eagleray.broker.groups.consumer.decisions import GroupDecision
from eagleray.broker.groups.consumer.description import describe_missing
from eagleray.broker.groups.consumer.events import (
    ConsumerGroupDescribed,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswered,
    DescribeConsumerGroup,
    TopicsKnown,
)
from eagleray.broker.groups.consumer.group_table import ConsumerGroupTable
from eagleray.broker.groups.consumer.heartbeats import Client
from eagleray.broker.groups.consumer.member import JOINING
from eagleray.broker.groups.consumer.membership import ConsumerMembership
from eagleray.broker.groups.consumer.messages import answer_of, description_of, request_of
from eagleray.broker.groups.consumer.records import RECORD_TYPES
from eagleray.broker.groups.consumer.topics import NO_TOPICS, Topics
from eagleray.broker.groups.context import RETRY_MS, GroupContext
from eagleray.broker.groups.group_protocol import GroupProtocol, Handlers
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import MembersState
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
_ANY_TYPE: Final = min(RECORD_TYPES)


class ConsumerState(MembersState):
    """What the log says of KIP-848 groups. The groups themselves take the records, live and in a replay."""

    def __init__(self, groups: ConsumerGroupTable) -> None:
        self.groups = groups
        self.decided_ms = 0
        """When that was decided which comes next: the sessions of new members begin then. A replay has no time."""

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take one record. Raises UnsupportedVersion or MalformedMessage."""
        self.groups.apply(((key, value),), self.decided_ms)


class ConsumerGroups(GroupProtocol):
    """Groups whose members are assigned partitions by the coordinator.

    Persists: every change of a group, all the records of a decision in one batch. After a restart everything is as it
    was, and the members' sessions begin anew. While the log takes nothing, heartbeats that change nothing are taken.
    """

    record_types: ClassVar = RECORD_TYPES

    def __init__(self, context: GroupContext) -> None:
        super().__init__(context)
        self._topics = NO_TOPICS
        self._deadlines: Deadlines[str] = Deadlines()
        """For each group with members never later than the time at which that of one of them is up."""

    def new_state(self) -> ConsumerState:
        """Begin with no groups."""
        return ConsumerState(ConsumerGroupTable(self.context.config, self.context.new_id))

    def handlers(self) -> Handlers:
        """Take heartbeats, questions, and news of the topics that members read."""
        return {
            ConsumerHeartbeat: self._heartbeat,
            DescribeConsumerGroup: self._describe,
            TopicsKnown: self._on_topics,
        }

    # Starting and stopping

    def loaded(self, shard: Shard, now_ms: int) -> None:
        """Let the groups that a log has live, with sessions that begin now."""
        groups = _state_of(shard).groups
        groups.take_topics(self._topics)
        groups.begin_sessions(now_ms)
        for name, group in groups.groups.items():
            # A group that changed to another protocol, and whose tombstones the log does not have, is empty.
            if group.members or name not in shard.live:
                shard.live[name] = ConsumerMembership(name, groups)
                self._watch(shard, name)

    def closed(self, shard: Shard, error_code: ErrorCode, now_ms: int) -> None:  # noqa: ARG002 - no member waits here
        """Forget the groups: members wait for nothing but the log."""
        for name in [name for name, group in shard.live.items() if isinstance(group, ConsumerMembership)]:
            del shard.live[name]

    @property
    def next_due_ms(self) -> int:
        """When the time of a member may be up."""
        return self._deadlines.next_due_ms

    def tick(self, now_ms: int) -> None:
        """Let members go whose time is up."""
        for name in self._deadlines.take_due(now_ms):
            shard = self.context.shards.find(name)
            if isinstance(shard, ErrorCode):
                continue
            decision = _state_of(shard).groups.expire(name, now_ms)
            if decision is not None and self.context.refusal(shard) is not _NONE:
                self._deadlines.set(name, now_ms + RETRY_MS)
                continue
            if decision is not None:
                self._log(shard, decision, now_ms)
            self._watch(shard, name)

    def _watch(self, shard: Shard, name: str) -> None:
        """Look at a group when the time of a member is up."""
        self._deadlines.set(name, _state_of(shard).groups.next_due_ms(name))

    def _on_topics(self, event: TopicsKnown, now_ms: int) -> None:  # noqa: ARG002 - members notice by heartbeats
        self._topics = Topics(event.topics, event.version)
        for shard in self.context.shards:
            if shard.is_loaded:
                _state_of(shard).groups.take_topics(self._topics)

    # Heartbeats

    def _heartbeat(self, request: ConsumerHeartbeat, now_ms: int) -> None:
        shard = self._find_shard(request.group, ErrorCode.INVALID_REQUEST)
        if isinstance(shard, ErrorCode):
            self._refuse(request.request_id, shard)
            return
        known = shard.live.get(request.group)
        if known is not None and not isinstance(known, ConsumerMembership) and known.has_members:
            text = f"{request.group} is not a consumer group, and has members"
            self._refuse(request.request_id, ErrorCode.GROUP_ID_NOT_FOUND, text, shard)
            return
        refused = self._refusal_of_newcomer(shard, request, now_ms)
        if refused is not _NONE:
            text = f"the coordinator of {request.group} has as many groups or members as it may have"
            self._refuse(request.request_id, refused, text, shard)
            return
        client = Client(request.client_id, request.client_host)
        version = 1 if request.brings_member_id else 0
        decision = _state_of(shard).groups.heartbeat(request_of(request), version, client, now_ms)
        if decision.records:
            refusal = self.context.refusal(shard)
            if refusal is _NONE and self.context.is_too_large(shard, decision.records):
                refusal = ErrorCode.UNKNOWN_SERVER_ERROR
            if refusal is not _NONE:
                self._refuse(request.request_id, refusal)
                return
            self._log(shard, decision, now_ms)
            self._watch(shard, request.group)
        assert decision.response is not None, "who asks is answered"
        self.context.say(shard, answer_of(request.request_id, decision.response))

    def _refusal_of_newcomer(self, shard: Shard, request: ConsumerHeartbeat, now_ms: int) -> ErrorCode:
        """Say why a client that is no member yet cannot become one, or NONE. A log that takes nothing says so later."""
        group, limits = _state_of(shard).groups.groups.get(request.group), self.context.limits
        is_known = group is not None and (
            request.member_id in group.members or request.instance_id in group.state.static_members
        )
        if request.member_epoch != JOINING or is_known or self.context.refusal(shard) is not _NONE:
            return _NONE
        refusal = limits.refusal_of_group(shard, request.group, now_ms)
        return limits.refusal_of_member(shard, now_ms) if refusal is _NONE else refusal

    def _log(self, shard: Shard, decision: GroupDecision, now_ms: int) -> None:
        """Log a decision, by which the group is changed."""
        state, name = _state_of(shard), decision.group_id
        known = shard.live.get(name)
        if known is not None and not isinstance(known, ConsumerMembership):
            # A group without members may change to another protocol; the log forgets what it was.
            self.context.log_deletion(shard, name)
        state.decided_ms = now_ms
        self.context.log_members(shard, decision.records)
        shard.live.setdefault(name, ConsumerMembership(name, state.groups))

    def _refuse(
        self, request_id: int, error_code: ErrorCode, text: str | None = None, shard: Shard | None = None
    ) -> None:
        answer = ConsumerHeartbeatAnswered(request_id, error_code, text or error_code.message)
        if shard is None:
            self.context.say_at_once(answer)
        else:
            self.context.say(shard, answer)

    # Questions

    def _describe(self, request: DescribeConsumerGroup, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        shard = self._find_shard(request.group, ErrorCode.INVALID_GROUP_ID)
        if isinstance(shard, ErrorCode):
            self.context.say_at_once(ConsumerGroupDescribed(request.request_id, shard, shard.message))
            return
        groups = _state_of(shard).groups
        is_live = isinstance(shard.live.get(request.group), ConsumerMembership)
        described = groups.describe(request.group) if is_live else describe_missing(request.group)
        self.context.say(shard, description_of(request.request_id, described))

    def _find_shard(self, name: str, without_name: ErrorCode) -> Shard | ErrorCode:
        return self.context.shards.find(name) if name else without_name


def _state_of(shard: Shard) -> ConsumerState:
    state = shard.state.members[_ANY_TYPE]
    assert isinstance(state, ConsumerState)
    return state
