"""The KIP-848 protocol of groups: which requests they take, and how they live with the log."""

from __future__ import annotations

from collections.abc import Iterator
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
from eagleray.broker.groups.consumer.membership import ConsumerMembership
from eagleray.broker.groups.consumer.messages import answer_of, description_of, request_of
from eagleray.broker.groups.consumer.records import RECORD_TYPES
from eagleray.broker.groups.consumer.topics import NO_TOPICS, Topics
from eagleray.broker.groups.context import CODES_FOR_MEMBERS, GroupContext
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

    Persists: every change of a group, all the records of a decision in one batch. A request to a group that waits
    for the log waits as well, and is served in order. After a restart everything is as it was, and the
    members' sessions begin anew. A client that waits when a partition is given up is told
    NOT_COORDINATOR.
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

    # Its life

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

    def closed(self, shard: Shard, now_ms: int) -> None:  # noqa: ARG002 - whenever it is
        """Send all members to the next coordinator; what is on its way to the log is answered with its outcome."""
        for membership in [*_memberships(shard)]:
            del shard.live[membership.name]
            for request in membership.waiting:
                self._refuse(request.request_id, ErrorCode.NOT_COORDINATOR)
            membership.waiting.clear()

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
            groups = _state_of(shard).groups
            decision = groups.expire(name, now_ms)
            if decision is not None:
                self._log(shard, decision, None, now_ms)
            elif not groups.is_busy(name):
                self._watch(shard, name)

    def _watch(self, shard: Shard, name: str) -> None:
        """Look at a group when the time of a member is up; one that waits for the log is looked at after that."""
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
        if isinstance(known, ConsumerMembership):
            if known.is_busy:
                known.waiting.append(request)
                return
        elif known is not None and known.has_members:
            text = f"{request.group} is not a consumer group, and has members"
            self._refuse(request.request_id, ErrorCode.GROUP_ID_NOT_FOUND, text)
            return
        elif _is_being_deleted(shard, request.group):
            self._refuse(request.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._decide(shard, request, now_ms)

    def _decide(self, shard: Shard, request: ConsumerHeartbeat, now_ms: int) -> None:
        client = Client(request.client_id, request.client_host)
        version = 1 if request.brings_member_id else 0
        decision = _state_of(shard).groups.heartbeat(request_of(request), version, client, now_ms)
        if decision.records:
            self._log(shard, decision, request.request_id, now_ms)
        else:
            self._answer(request.request_id, decision)

    def _log(self, shard: Shard, decision: GroupDecision, request_id: int | None, now_ms: int) -> None:
        """Have a decision logged, and answer when it counts."""
        state, name = _state_of(shard), decision.group_id
        state.decided_ms = now_ms
        membership = self._live(shard, name)

        def finished(error_code: ErrorCode, now_ms: int) -> None:
            if error_code is _NONE:
                self._answer(request_id, decision)
            else:
                state.groups.forget(decision)
                self._refuse(request_id, CODES_FOR_MEMBERS.get(error_code, error_code))
            self._watch(shard, name)
            self._serve_waiting(shard, membership, now_ms)

        self.context.log_members(shard, name, decision.records, finished)

    def _live(self, shard: Shard, name: str) -> ConsumerMembership:
        known = shard.live.get(name)
        if isinstance(known, ConsumerMembership):
            return known
        if known is not None:
            # A group without members may change to another protocol; the log forgets what it was.
            self.context.log_deletion(shard, name, [])
        membership = shard.live[name] = ConsumerMembership(name, _state_of(shard).groups)
        return membership

    def _serve_waiting(self, shard: Shard, membership: ConsumerMembership, now_ms: int) -> None:
        waiting = membership.waiting
        while waiting and not membership.is_busy:
            self._heartbeat(waiting.popleft(), now_ms)
        is_nothing = not membership.is_busy and membership.group is None
        if is_nothing and shard.live.get(membership.name) is membership:
            del shard.live[membership.name]

    def _answer(self, request_id: int | None, decision: GroupDecision) -> None:
        if request_id is not None:
            assert decision.response is not None, "who asks is answered"
            self.context.emit(answer_of(request_id, decision.response))

    def _refuse(self, request_id: int | None, error_code: ErrorCode, text: str | None = None) -> None:
        if request_id is not None:
            self.context.emit(ConsumerHeartbeatAnswered(request_id, error_code, text or error_code.message))

    # Questions

    def _describe(self, request: DescribeConsumerGroup, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        shard = self._find_shard(request.group, ErrorCode.INVALID_GROUP_ID)
        if isinstance(shard, ErrorCode):
            self.context.emit(ConsumerGroupDescribed(request.request_id, shard, shard.message))
            return
        groups = _state_of(shard).groups
        is_live = isinstance(shard.live.get(request.group), ConsumerMembership)
        described = groups.describe(request.group) if is_live else describe_missing(request.group)
        self.context.emit(description_of(request.request_id, described))

    def _find_shard(self, name: str, without_name: ErrorCode) -> Shard | ErrorCode:
        return self.context.shards.find(name) if name else without_name


def _state_of(shard: Shard) -> ConsumerState:
    state = shard.state.members[_ANY_TYPE]
    assert isinstance(state, ConsumerState)
    return state


def _memberships(shard: Shard) -> Iterator[ConsumerMembership]:
    return (group for group in shard.live.values() if isinstance(group, ConsumerMembership))


def _is_being_deleted(shard: Shard, name: str) -> bool:
    """Whether the log is about to forget a group that is no longer live: a decision now would be about the old one."""
    is_known = name in _state_of(shard).groups.groups
    return is_known and any(append.members for append in shard.offsets_in_flight(name))
