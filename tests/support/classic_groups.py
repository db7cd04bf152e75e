"""Members of classic groups, for tests: what they send, and what they are told."""

from __future__ import annotations

from eagleray.broker.groups.classic.events import (
    DescribeGroup,
    GroupDescribed,
    GroupJoined,
    GroupSynced,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    MemberProtocol,
    SyncGroup,
)
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.log_records import RECORD_TYPE, ClassicState
from eagleray.protocol.codec import encode_versioned
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.support.groups import GROUP, GroupDriver

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def reads(*topics: str, protocol: str = "range") -> tuple[MemberProtocol, ...]:
    """What a consumer of these topics says under one protocol."""
    return (MemberProtocol(protocol, encode_versioned(ConsumerProtocolSubscription(topics=topics), 0)),)


def knows(*names: str) -> tuple[MemberProtocol, ...]:
    """Protocols, the favourite first."""
    return tuple(MemberProtocol(name, name.encode()) for name in names)


class ClassicDriver(GroupDriver):
    """A coordinator to which members of groups come."""

    def join(self, member_id: str = "", *, group: str = GROUP, **fields: object) -> int:
        plausible = {
            "protocol_type": "consumer",
            "protocols": reads("orders"),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_id": "client",
            "client_host": "/127.0.0.1",
        }
        return self.request(JoinGroup, group, member_id, **(plausible | fields))

    def sync(self, joined: GroupJoined, *, group: str = GROUP, **fields: object) -> int:
        """Ask for an assignment; the leader gives everybody their own name."""
        leads = joined.leader == joined.member_id
        given = [MemberAssignment(member.member_id, f"of {member.member_id}".encode()) for member in joined.members]
        plausible = {"assignments": tuple(given) if leads else ()}
        return self.request(SyncGroup, group, joined.generation, joined.member_id, **(plausible | fields))

    def send_beat(self, joined: GroupJoined, *, group: str = GROUP, **fields: object) -> int:
        plausible = {"generation": joined.generation, "member_id": joined.member_id}
        return self.request(Heartbeat, group, **(plausible | fields))

    def beat(self, joined: GroupJoined, **fields: object) -> ErrorCode:
        return self.answer_to(self.send_beat(joined, **fields)).error_code

    def leave(self, *members: LeavingMember | str, group: str = GROUP) -> int:
        leaving = tuple(LeavingMember(member) if isinstance(member, str) else member for member in members)
        return self.request(LeaveGroup, group, leaving)

    def describe(self, group: str = GROUP) -> GroupDescribed:
        return self.answer_to(self.request(DescribeGroup, group))

    # Whole steps

    def new_id_for(self, **fields: object) -> str:
        """Have a member's id given to it, and no more."""
        answer = self.joined(self.join(**fields))
        assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def come(self, **fields: object) -> int:
        """Join as somebody new, in both steps."""
        return self.join(self.new_id_for(**fields), **fields)

    def stable(self, size: int = 1, **fields: object) -> list[GroupJoined]:
        """Have a generation with so many members, the leader first, all with their assignments."""
        first = self.joined(self.come(**fields))
        ids = [self.new_id_for(**fields) for _ in range(size - 1)]
        waiting = [self.join(member_id, **fields) for member_id in ids]
        if waiting:
            waiting.insert(0, self.join(first.member_id, **fields))
        members = [self.joined(request) for request in waiting] or [first]
        self.sync_all(members)
        return members

    def sync_all(self, members: list[GroupJoined]) -> list[GroupSynced]:
        requests = [self.sync(member) for member in members]
        self.settle()
        answers = [self.synced(request) for request in requests]
        assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
        return answers

    # What came of it

    def joined(self, request_id: int) -> GroupJoined:
        answer = self.answer_to(request_id)
        assert isinstance(answer, GroupJoined)
        return answer

    def synced(self, request_id: int) -> GroupSynced:
        answer = self.replies[request_id]
        assert isinstance(answer, GroupSynced)
        return answer

    def is_waiting(self, request_id: int) -> bool:
        return request_id not in self.replies

    def live(self, group: str = GROUP) -> ClassicGroup:
        found = self.coordinator._context.shards.find(group).live[group]
        assert isinstance(found, ClassicGroup)
        return found

    def is_live(self, group: str = GROUP) -> bool:
        return group in self.coordinator._context.shards.find(group).live

    def logged(self) -> ClassicState:
        """What a recovery would find."""
        state = self.load().members[RECORD_TYPE]
        assert isinstance(state, ClassicState)
        return state

    def state(self, group: str = GROUP) -> str:
        return self.describe(group).state
