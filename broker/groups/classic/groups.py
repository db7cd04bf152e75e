"""The classic protocol of groups: which requests they take, and how they live with the log."""

from __future__ import annotations

from typing import ClassVar

from eagleray.broker.groups.classic.answers import Answers
from eagleray.broker.groups.classic.events import (
    ClassicReply,
    DescribeGroup,
    GroupDescribed,
    GroupLeft,
    GroupSynced,
    Heartbeat,
    HeartbeatAnswered,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberLeft,
    SyncGroup,
)
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.joining import JoinServer
from eagleray.broker.groups.classic.log_records import RECORD_TYPE, ClassicState, revive
from eagleray.broker.groups.classic.rebalancing import Rebalancer
from eagleray.broker.groups.classic.states import GroupState
from eagleray.broker.groups.classic.syncing import SyncServer
from eagleray.broker.groups.context import RETRY_MS, GroupContext
from eagleray.broker.groups.group_protocol import GroupProtocol, Handlers
from eagleray.broker.groups.shards import Shard
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
_WITH_GENERATION = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class ClassicGroups(GroupProtocol):
    """Groups whose members speak the classic protocol.

    Persists: each generation when its leader has assigned it, and that a group is empty, in one record a group. After a
    restart the members are there with their assignments, and their sessions begin anew. Nothing but heartbeats and
    syncs is taken while the log takes nothing.
    """

    record_types: ClassVar = frozenset({RECORD_TYPE})

    def __init__(self, context: GroupContext) -> None:
        super().__init__(context)
        self._deadlines: Deadlines[str] = Deadlines()
        """For each group never later than the first thing that is due there.

        Heartbeats put off what is due and leave the deadline where it is, so that they cost nothing here; a deadline
        that comes too early is set again.
        """
        self._answers = Answers(context)
        self._rebalancer = Rebalancer(context, self._answers)
        self._joins = JoinServer(context, self._answers, self._rebalancer, self._deadlines)
        self._syncs = SyncServer(context, self._answers, self._rebalancer)

    def new_state(self) -> ClassicState:
        """Begin with no groups."""
        return ClassicState()

    def handlers(self) -> Handlers:
        """Take the five requests of the classic protocol."""
        return {
            JoinGroup: self._joins.join,
            SyncGroup: self._sync,
            Heartbeat: self._heartbeat,
            LeaveGroup: self._leave,
            DescribeGroup: self._describe,
        }

    # Starting and stopping

    def loaded(self, shard: Shard, now_ms: int) -> None:
        """Revive the groups that a log has."""
        state = shard.state.members[RECORD_TYPE]
        assert isinstance(state, ClassicState)
        for name, value in state.groups.items():
            group = shard.live[name] = revive(name, value, shard, self._deadlines, now_ms)
            if len(group.members) > self.context.config.group_max_size:
                # It was made smaller meanwhile; the members that join first may stay.
                self._rebalancer.prepare(group, now_ms)

    def closed(self, shard: Shard, error_code: ErrorCode, now_ms: int) -> None:
        """Send all members that wait to the next coordinator, or here again."""
        for group in _classic_groups(shard):
            for member in group.members.values():
                self._answers.refuse(group, member, error_code, now_ms)
            group.enter(GroupState.DEAD, now_ms)
            del shard.live[group.name]

    @property
    def next_due_ms(self) -> int:
        """When to look at a group."""
        return self._deadlines.next_due_ms

    def tick(self, now_ms: int) -> None:
        """Look after the groups in which something is due."""
        for name in self._deadlines.take_due(now_ms):
            group = self._find(name)
            if isinstance(group, ErrorCode):
                continue
            if self.context.refusal(group.shard) is _NONE:
                self._rebalancer.expire(group, now_ms)
            else:
                self._deadlines.set_by(name, now_ms + RETRY_MS)

    # Requests

    def _sync(self, request: SyncGroup, now_ms: int) -> None:
        group = self._find(request.group)
        if isinstance(group, ErrorCode):
            self._tell(request.group, GroupSynced(request.request_id, group))
        else:
            self._syncs.sync(request, group, now_ms)

    def _heartbeat(self, request: Heartbeat, now_ms: int) -> None:
        group = self._find(request.group)
        error_code = group if isinstance(group, ErrorCode) else _beat(group, request, now_ms)
        self._tell(request.group, HeartbeatAnswered(request.request_id, error_code))

    def _leave(self, request: LeaveGroup, now_ms: int) -> None:
        group = self._find(request.group)
        if isinstance(group, ErrorCode):
            self._tell(request.group, GroupLeft(request.request_id, group))
            return
        refusal = self.context.refusal(group.shard)
        if refusal is not _NONE:
            self.context.say_at_once(GroupLeft(request.request_id, refusal))
            return
        present = len(group.members)
        outcomes = tuple(self._leave_one(group, leaving, now_ms) for leaving in request.members)
        if len(group.members) < present and group.state in _WITH_GENERATION:
            self._rebalancer.prepare(group, now_ms)
        else:
            self._rebalancer.complete_if_all_joined(group, now_ms)
        self._rebalancer.drop_if_unused(group)
        self.context.say(group.shard, GroupLeft(request.request_id, _NONE, outcomes))

    def _leave_one(self, group: ClassicGroup, leaving: LeavingMember, now_ms: int) -> MemberLeft:
        instance_id = leaving.group_instance_id
        member_id = leaving.member_id
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        error_code = group.check_member(member_id, instance_id)
        if error_code is _NONE:
            self._rebalancer.remove(group, group.members[member_id], now_ms)
        elif group.pending_joins.pop(member_id, None) is not None:
            error_code = _NONE
        return MemberLeft(leaving.member_id, instance_id, error_code)

    def _describe(self, request: DescribeGroup, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        shard = self._find_shard(request.group)
        answer = (
            GroupDescribed(request.request_id, shard) if isinstance(shard, ErrorCode) else _described(request, shard)
        )
        self._tell(request.group, answer)

    def _tell(self, name: str, answer: ClassicReply) -> None:
        """Answer from what is known of the shard of a group, or that it is not known here."""
        shard = self._find_shard(name)
        if isinstance(shard, ErrorCode):
            self.context.say_at_once(answer)
        else:
            self.context.say(shard, answer)

    # Finding groups

    def _find_shard(self, name: str) -> Shard | ErrorCode:
        return self.context.shards.find(name) if name else ErrorCode.INVALID_GROUP_ID

    def _find(self, name: str) -> ClassicGroup | ErrorCode:
        shard = self._find_shard(name)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.live.get(name)
        return group if isinstance(group, ClassicGroup) else ErrorCode.UNKNOWN_MEMBER_ID


def _classic_groups(shard: Shard) -> list[ClassicGroup]:
    return [group for group in shard.live.values() if isinstance(group, ClassicGroup)]


def _beat(group: ClassicGroup, request: Heartbeat, now_ms: int) -> ErrorCode:
    """Take a heartbeat, and say whether the member should join again."""
    error_code = group.check_member(request.member_id, request.group_instance_id)
    if error_code is not _NONE:
        return error_code
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.heard_of(group.members[request.member_id], now_ms)
    is_called = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if is_called else _NONE


def _described(request: DescribeGroup, shard: Shard) -> GroupDescribed:
    group = shard.live.get(request.group)
    if isinstance(group, ClassicGroup):
        # While members come together, what they want and have is not that of any generation.
        protocol = group.protocol_name if group.state is GroupState.STABLE else None
        members = tuple(member.described(protocol) for member in group.members.values())
        return GroupDescribed(request.request_id, _NONE, group.state_name, group.protocol_type, protocol or "", members)
    if group is None and request.group in shard.state.groups:
        return GroupDescribed(request.request_id, _NONE, GroupState.EMPTY.value)
    return GroupDescribed(request.request_id, ErrorCode.GROUP_ID_NOT_FOUND, GroupState.DEAD.value)
