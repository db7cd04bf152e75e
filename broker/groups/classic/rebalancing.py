"""How a classic group gets from one generation to the next."""

from __future__ import annotations

from eagleray.broker.groups.classic.answers import Answers
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.log_records import encode_group
from eagleray.broker.groups.classic.members import NEVER_MS, Member
from eagleray.broker.groups.classic.states import GroupState, may_follow
from eagleray.broker.groups.context import GroupContext
from eagleray.protocol.errors import ErrorCode

_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_WITH_GENERATION = (_COMPLETING, GroupState.STABLE)


class Rebalancer:
    """Calls members together, begins generations, and gives up members that are not heard of.

    The first generation of an empty group waits for `group.initial.rebalance.delay.ms`, so that members that start
    together are in it together. Any other waits until all members and pending members have joined, for as long as the
    most patient member says; a member that has not joined then is out, unless it is static: its place is kept until
    its session ends. A group without members is logged, so nothing is done to one while the log takes nothing.
    """

    def __init__(self, context: GroupContext, answers: Answers) -> None:
        self._context = context
        self._answers = answers

    # The join phase

    def membership_changed(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin a rebalance, or end the one that is under way if no member is missing."""
        if may_follow(_PREPARING, group.state):
            self.prepare(group, now_ms)
        else:
            self.complete_if_all_joined(group, now_ms)

    def prepare(self, group: ClassicGroup, now_ms: int) -> None:
        """Call all members together."""
        if group.state is _COMPLETING:
            for member in group.members.values():
                member.assignment = b""
                self._answers.refuse_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        group.pending_syncs.clear()
        group.sync_due_ms = NEVER_MS
        group.enter(_PREPARING, now_ms)
        if group.previous_state is GroupState.EMPTY:
            self._delay_first(group, now_ms)
        elif group.all_have_joined:
            self.complete(group, now_ms)
        else:
            group.end_join_at(now_ms + group.rebalance_timeout_ms)

    def _delay_first(self, group: ClassicGroup, now_ms: int) -> None:
        delay_ms = self._context.config.group_initial_rebalance_delay_ms
        group.has_new_member = False
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        if delay_ms:
            group.end_join_at(now_ms + delay_ms)
        else:
            self.complete(group, now_ms)

    def _join_is_due(self, group: ClassicGroup, now_ms: int) -> None:
        is_first = group.previous_state is GroupState.EMPTY
        if is_first and group.has_new_member and group.initial_delay_left_ms:
            delay_ms = min(self._context.config.group_initial_rebalance_delay_ms, group.initial_delay_left_ms)
            group.has_new_member = False
            group.initial_delay_left_ms -= delay_ms
            group.end_join_at(now_ms + delay_ms)
        else:
            self.complete(group, now_ms)

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin the next generation unless a member is missing, or may still come to the first."""
        is_first = group.previous_state is GroupState.EMPTY
        if group.state is _PREPARING and not is_first and group.all_have_joined:
            self.complete(group, now_ms)

    def complete(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin the next generation with the members that have joined."""
        group.join_due_ms = NEVER_MS
        for member in [*group.members.values()]:
            if member.waiting_join is None and member.group_instance_id is None:
                group.remove(member)
        if not group.members:
            self._become_empty(group, now_ms)
        elif group.elect_joined_leader():
            self._begin_generation(group, now_ms)
        else:
            # Only static members are left, and none of them has come back so far.
            group.end_join_at(now_ms + max(group.rebalance_timeout_ms, 1))

    def _become_empty(self, group: ClassicGroup, now_ms: int) -> None:
        group.generation += 1
        group.protocol_name = None
        group.enter(GroupState.EMPTY, now_ms)
        self.log(group)

    def _begin_generation(self, group: ClassicGroup, now_ms: int) -> None:
        group.generation += 1
        group.protocol_name = group.select_protocol()
        group.enter(_COMPLETING, now_ms)
        for member in group.members.values():
            self._answers.joined(group, member, now_ms)
        group.pending_syncs = set(group.members)
        group.end_sync_at(now_ms + group.rebalance_timeout_ms)

    def log(self, group: ClassicGroup) -> None:
        """Log the generation as it is; the log has been asked whether it takes something."""
        group.is_logged = True
        self._context.log_members(group.shard, (encode_group(group),))

    # Members that go

    def remove(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        """Let a member go; what that means for the rest is for `membership_changed` to say."""
        self._answers.refuse(group, member, ErrorCode.UNKNOWN_MEMBER_ID, now_ms)
        group.remove(member)

    def expire(self, group: ClassicGroup, now_ms: int) -> None:
        """Do what is due by now, and set the deadline for what comes next."""
        self._expire_pending(group, now_ms)
        self._expire_members(group, now_ms)
        if group.pending_syncs and now_ms >= group.sync_due_ms and group.state in _WITH_GENERATION:
            for member_id in [*group.pending_syncs]:
                self.remove(group, group.members[member_id], now_ms)
            self.prepare(group, now_ms)
        if group.state is _PREPARING and now_ms >= group.join_due_ms:
            self._join_is_due(group, now_ms)
        self.drop_if_unused(group)
        group.set_deadline()

    def _expire_pending(self, group: ClassicGroup, now_ms: int) -> None:
        late = [member_id for member_id, deadline_ms in group.pending_joins.items() if now_ms >= deadline_ms]
        for member_id in late:
            del group.pending_joins[member_id]
        if late:
            self.complete_if_all_joined(group, now_ms)

    def _expire_members(self, group: ClassicGroup, now_ms: int) -> None:
        silent = [member for member in group.members.values() if now_ms >= member.expires_ms]
        for member in silent:
            self.remove(group, member, now_ms)
        if silent:
            self.membership_changed(group, now_ms)

    def drop_if_unused(self, group: ClassicGroup) -> None:
        """Forget an empty group of which nothing is in the log."""
        live = group.shard.live
        if group.state is GroupState.EMPTY and not group.is_logged and not group.pending_joins:
            if live.get(group.name) is group:
                del live[group.name]
            group.enter(GroupState.DEAD, group.state_since_ms)
