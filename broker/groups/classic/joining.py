"""JoinGroup: how a client becomes a member, or a member one of the next generation."""

from __future__ import annotations

from typing import Final

from eagleray.broker.groups.classic.answers import Answers, members_of
from eagleray.broker.groups.classic.events import GroupJoined, JoinGroup
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.log_records import encode_group
from eagleray.broker.groups.classic.members import Member
from eagleray.broker.groups.classic.rebalancing import Rebalancer
from eagleray.broker.groups.classic.states import GroupState
from eagleray.broker.groups.config import LONGEST_TEXT, LONGEST_TIME_MS
from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.shards import Shard
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait for its first generation without being heard of, as in Kafka."""

_LONGEST_NAME: Final = LONGEST_TEXT - 64
"""A member's id is a name of its client with an id of ours behind it."""


class JoinServer:
    """Takes in members, replaces static ones, and lets known ones join again."""

    def __init__(
        self, context: GroupContext, answers: Answers, rebalancer: Rebalancer, deadlines: Deadlines[str]
    ) -> None:
        self._context = context
        self._answers = answers
        self._rebalancer = rebalancer
        self._deadlines = deadlines

    def join(self, request: JoinGroup, now_ms: int) -> None:
        """Take a client's wish to be in the next generation."""
        group = self._find_group(request, now_ms)
        if isinstance(group, ErrorCode):
            self._context.say_at_once(GroupJoined(request.request_id, group, request.member_id))
            return
        if not self._has_room(group, request):
            self._turn_away(group, request, now_ms)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse(group, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not request.member_id:
            self._join_new(group, request, now_ms)
        elif request.member_id in group.pending_joins and request.group_instance_id is None:
            self._add(group, request, request.member_id, now_ms)
        else:
            self._join_again(group, request, now_ms)
        self._rebalancer.drop_if_unused(group)

    def _refuse(self, group: ClassicGroup, request: JoinGroup, error_code: ErrorCode) -> None:
        self._context.say(group.shard, GroupJoined(request.request_id, error_code, request.member_id))

    # Whether it can be at all

    def _find_group(self, request: JoinGroup, now_ms: int) -> ClassicGroup | ErrorCode:
        config = self._context.config
        if not request.group:
            return ErrorCode.INVALID_GROUP_ID
        shard = self._context.shards.find(request.group)
        if isinstance(shard, ErrorCode):
            return shard
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not _fits_into_records(request) or _size_of(request) > config.group_max_member_bytes:
            return ErrorCode.INVALID_REQUEST
        refusal = self._context.refusal(shard)
        if refusal is _NONE:
            refusal = self._refusal_of_newcomer(shard, request, now_ms)
        return refusal if refusal is not _NONE else self._group_in(shard, request)

    def _refusal_of_newcomer(self, shard: Shard, request: JoinGroup, now_ms: int) -> ErrorCode:
        """Say why a client that is no member yet cannot become one, or NONE."""
        known, limits = shard.live.get(request.group), self._context.limits
        is_back = isinstance(known, ClassicGroup) and request.group_instance_id in known.static_members
        if request.member_id or is_back:
            return _NONE
        refusal = limits.refusal_of_group(shard, request.group, now_ms)
        return limits.refusal_of_member(shard, now_ms) if refusal is _NONE else refusal

    def _group_in(self, shard: Shard, request: JoinGroup) -> ClassicGroup | ErrorCode:
        known = shard.live.get(request.group)
        if isinstance(known, ClassicGroup):
            return known
        if known is not None and known.has_members:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known is not None:
            # A group without members may change to another protocol; the log forgets what it was.
            self._context.log_deletion(shard, request.group)
        group = shard.live[request.group] = ClassicGroup(request.group, shard, self._deadlines)
        return group

    def _has_room(self, group: ClassicGroup, request: JoinGroup) -> bool:
        most = self._context.config.group_max_size
        if request.group_instance_id in group.static_members:
            # It takes no other member's place.
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            member = group.members.get(request.member_id)
            return (member is not None and member.waiting_join is not None) or group.joining < most
        return request.member_id in group.members or len(group.members) < most

    def _turn_away(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> None:
        group.pending_joins.pop(request.member_id, None)
        member = group.members.get(request.member_id)
        if member is not None:
            self._rebalancer.remove(group, member, now_ms)
        self._context.say(group.shard, GroupJoined(request.request_id, ErrorCode.GROUP_MAX_SIZE_REACHED))
        self._rebalancer.complete_if_all_joined(group, now_ms)

    # New members

    def _join_new(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> None:
        instance_id = request.group_instance_id
        name = request.client_id if instance_id is None else instance_id
        member_id = f"{name}-{self._context.new_id()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace(group, request, member_id, now_ms)
        elif instance_id is None and request.requires_known_member_id:
            group.expect_join(member_id, now_ms + request.session_timeout_ms)
            self._context.say(group.shard, GroupJoined(request.request_id, ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, request, member_id, now_ms)

    def _add(self, group: ClassicGroup, request: JoinGroup, member_id: str, now_ms: int) -> None:
        member = Member.of(request, member_id)
        group.add(member, request.protocol_type)
        group.await_join(member, request.request_id)
        group.give_until(member, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        group.has_new_member = True
        self._rebalancer.membership_changed(group, now_ms)

    # Known members

    def _join_again(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> None:
        error_code = group.check_member(request.member_id, request.group_instance_id)
        if error_code is not _NONE:
            self._refuse(group, request, error_code)
            return
        member = group.members[request.member_id]
        if _needs_rebalance(group, member, request):
            self._update(group, member, request)
            self._rebalancer.membership_changed(group, now_ms)
            return
        self._context.say(group.shard, self._answers.generation_for(group, member, request.request_id))
        group.heard_of(member, now_ms)

    def _update(self, group: ClassicGroup, member: Member, request: JoinGroup) -> None:
        self._answers.refuse_join(group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        group.update(member, request)
        group.await_join(member, request.request_id)

    # Static members

    def _replace(self, group: ClassicGroup, request: JoinGroup, member_id: str, now_ms: int) -> None:
        """Let an instance take its own place again, under a new id; what has the old one is fenced (KIP-345)."""
        assert request.group_instance_id is not None
        member = group.members[group.static_members[request.group_instance_id]]
        self._answers.refuse_join(group, member, ErrorCode.FENCED_INSTANCE_ID, member.member_id)
        self._answers.refuse_sync(group, member, ErrorCode.FENCED_INSTANCE_ID, now_ms)
        leader_before = group.leader
        group.rename(member, member_id)
        member.client_id, member.client_host = request.client_id, request.client_host
        self._update(group, member, request)
        group.heard_of(member, now_ms)
        if self._may_keep_assignment(group):
            # Its new id is logged, and it has what it had.
            self._rebalancer.log(group)
            group.take_join(member)
            self._context.say(group.shard, _same_generation(group, member, request, leader_before or ""))
        else:
            self._rebalancer.membership_changed(group, now_ms)

    def _may_keep_assignment(self, group: ClassicGroup) -> bool:
        return (
            group.state is GroupState.STABLE
            and group.select_protocol() == group.protocol_name
            and not self._context.is_too_large(group.shard, (encode_group(group),))
        )


def _needs_rebalance(group: ClassicGroup, member: Member, request: JoinGroup) -> bool:
    """Whether a known member's joining again calls all members together, or it only missed an answer."""
    if group.state is GroupState.PREPARING_REBALANCE or member.protocols != request.protocols:
        return True
    # The leader of a stable group joins again to have everything assigned anew.
    return group.state is GroupState.STABLE and group.leader == member.member_id


def _same_generation(group: ClassicGroup, member: Member, request: JoinGroup, leader_before: str) -> GroupJoined:
    """Describe a generation that goes on to a member that has been replaced.

    A leader is told that it is one, and to assign nothing (KIP-814). One that cannot be told so is told that the leader
    is the member that it has replaced: it must not assign anything, and the one that would is gone.
    """
    leads = group.leader == member.member_id
    knows = request.supports_skipping_assignment
    return GroupJoined(
        request.request_id,
        _NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        (group.leader or "") if knows else leader_before,
        skip_assignment=leads and knows,
        members=members_of(group) if leads and knows else (),
    )


def _size_of(request: JoinGroup) -> int:
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)


def _fits_into_records(request: JoinGroup) -> bool:
    names = (request.group, request.client_id, request.client_host, request.group_instance_id or "")
    protocols = (request.protocol_type, *(protocol.name for protocol in request.protocols))
    is_short = max(map(len, (*names, *protocols))) <= _LONGEST_NAME
    return is_short and request.rebalance_timeout_ms <= LONGEST_TIME_MS
