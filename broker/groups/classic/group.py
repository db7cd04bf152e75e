"""A classic group: its members and what they agree on. What is to happen with it is decided elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final

from eagleray.broker.groups.classic.events import JoinGroup, MemberProtocol
from eagleray.broker.groups.classic.members import NEVER_MS, Member
from eagleray.broker.groups.classic.states import GroupState, may_follow
from eagleray.broker.groups.membership import GenerationMembership, LogRecord
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import NO_TIME
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.codec import MalformedMessage, UnsupportedVersion, decode_versioned, encode_versioned
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_offsets import GroupMetadataKey
from eagleray.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"
"""The protocol type of groups whose members tell which topics they read."""


class ClassicGroup(GenerationMembership):
    """The members of a classic group, live.

    Owns: members, pending members (KIP-394: they have an id and have not joined with it), which requests wait, and when
    what is due. Persists: nothing itself; the log has each generation from when its leader has assigned it, and that
    the group is empty. Each request that comes to wait is counted here, so that it is answered once.
    """

    kind: ClassVar = "classic"
    protocol_type: str = ""

    def __init__(self, name: str, shard: Shard, deadlines: Deadlines[str]) -> None:
        self.name = name
        self.shard = shard
        self._deadlines = deadlines
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_since_ms = NO_TIME
        self.generation = 0
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, int] = {}
        """By id, until when a member that has been given it may join with it."""
        self.pending_syncs: set[str] = set()
        """Members of the generation that have not asked for their assignment."""
        self.join_due_ms = NEVER_MS
        self.sync_due_ms = NEVER_MS
        self.initial_delay_left_ms = 0
        self.has_new_member = False
        """Whether a member has joined since an initial rebalance was last put off."""
        self.is_logged = False
        """Whether the log has anything of the group."""
        self._joining = 0
        self._supported: Counter[str] = Counter()

    # As offsets see it

    @property
    def has_members(self) -> bool:
        """Whether the group has members; pending ones do not count."""
        return bool(self.members)

    @property
    def size(self) -> int:
        """The members, and those that have been given an id to join with."""
        return len(self.members) + len(self.pending_joins)

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        return self.state.value

    @property
    def is_completing_rebalance(self) -> bool:
        """Whether a generation has begun and has no assignment."""
        return self.state is GroupState.COMPLETING_REBALANCE

    @property
    def empty_since_ms(self) -> int:
        """When the last member went."""
        return self.state_since_ms if self.state is GroupState.EMPTY else NO_TIME

    def commit_taken(self, member_id: str, now_ms: int) -> None:
        """Take a commit for a heartbeat."""
        member = self.members.get(member_id)
        if member is not None:
            self.heard_of(member, now_ms)

    def check_delete_offsets(self) -> ErrorCode:
        """Only of members that are consumers is it known what they read."""
        is_unknown = self.has_members and self.protocol_type != CONSUMER
        return ErrorCode.NON_EMPTY_GROUP if is_unknown else ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads a topic; one whose subscription cannot be read may read anything."""
        if self.protocol_type != CONSUMER:
            return False
        return any(_may_read(member.metadata(self.protocol_name), topic) for member in self.members.values())

    def tombstones(self) -> tuple[LogRecord, ...]:
        """One record is all that the log has of a classic group."""
        return ((encode_versioned(GroupMetadataKey(group=self.name)), None),) if self.is_logged else ()

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a member in; the first decides what the group is for, and is its leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member.protocols, 1)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member: Member) -> None:
        """Let a member go that has no request waiting."""
        assert member.waiting_join is None, "a member that waits to join is answered first"
        assert member.waiting_sync is None, "a member that waits to sync is answered first"
        del self.members[member.member_id]
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self._count(member.protocols, -1)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_syncs.discard(member.member_id)

    def update(self, member: Member, request: JoinGroup) -> None:
        """Take what a member wants from now on."""
        self._count(member.protocols, -1)
        self._count(request.protocols, 1)
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.effective_rebalance_timeout_ms

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member another id; its place in the group stays its own."""
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        if member.member_id in self.pending_syncs:
            self.pending_syncs.remove(member.member_id)
            self.pending_syncs.add(member_id)
        member.member_id = member_id
        self.members[member_id] = member
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = member_id

    def _count(self, protocols: tuple[MemberProtocol, ...], by: int) -> None:
        for name in {protocol.name for protocol in protocols}:
            self._supported[name] += by
            if not self._supported[name]:
                del self._supported[name]

    # What they agree on

    def supports(self, protocol_type: str, protocols: tuple[MemberProtocol, ...]) -> bool:
        """Whether a member that knows these protocols could work with all that are there."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        members = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supported[protocol.name] == members for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol that most would rather have, among those that all know."""
        candidates = {name for name, supporters in self._supported.items() if supporters == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is among the members that have joined; False where none has."""
        assert self.leader is not None
        if self.members[self.leader].waiting_join is None:
            joined = (member.member_id for member in self.members.values() if member.waiting_join is not None)
            leader = next(joined, None)
            if leader is None:
                return False
            self.leader = leader
        return True

    # Who waits

    def await_join(self, member: Member, request_id: int) -> None:
        """Let a request to join wait for the next generation."""
        assert member.waiting_join is None
        member.waiting_join = request_id
        self._joining += 1

    def take_join(self, member: Member) -> int | None:
        """Return a request to join that waits, to answer it."""
        request_id, member.waiting_join = member.waiting_join, None
        if request_id is not None:
            self._joining -= 1
        return request_id

    @property
    def joining(self) -> int:
        """How many members wait for the next generation."""
        return self._joining

    @property
    def all_have_joined(self) -> bool:
        """Whether no member is missing, pending ones included."""
        return self._joining == len(self.members) and not self.pending_joins

    # States and times

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Go to another state."""
        assert may_follow(state, self.state), f"{self.name} cannot go from {self.state} to {state}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long members may take to come together: as long as the most patient of them says."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def heard_of(self, member: Member, now_ms: int) -> None:
        """Let a member's session begin anew."""
        self.give_until(member, now_ms + member.session_timeout_ms)

    def give_until(self, member: Member, deadline_ms: int) -> None:
        """Give a member up at this time, unless it is heard of before."""
        member.deadline_ms = deadline_ms
        self._deadlines.set_by(self.name, deadline_ms)

    def expect_join(self, member_id: str, deadline_ms: int) -> None:
        """Wait for a client to join with the id that it has been given."""
        self.pending_joins[member_id] = deadline_ms
        self._deadlines.set_by(self.name, deadline_ms)

    def end_join_at(self, due_ms: int) -> None:
        """Begin the next generation at this time, with the members that are there."""
        self.join_due_ms = due_ms
        self._deadlines.set_by(self.name, due_ms)

    def end_sync_at(self, due_ms: int) -> None:
        """Wait until then for every member to ask for its assignment."""
        self.sync_due_ms = due_ms
        self._deadlines.set_by(self.name, due_ms)

    def set_deadline(self) -> None:
        """Set the deadline to the first thing that is due."""
        due_ms = min(
            self.join_due_ms,
            self.sync_due_ms if self.pending_syncs else NEVER_MS,
            min(self.pending_joins.values(), default=NEVER_MS),
            min((member.expires_ms for member in self.members.values()), default=NEVER_MS),
        )
        if due_ms != NEVER_MS:
            self._deadlines.set_by(self.name, due_ms)


def _may_read(subscription: bytes | None, topic: str) -> bool:
    if subscription is None:
        return True
    try:
        return topic in decode_versioned(ConsumerProtocolSubscription, subscription).topics
    except (MalformedMessage, UnsupportedVersion):
        return True
