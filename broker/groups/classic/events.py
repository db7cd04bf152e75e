"""What members of classic groups ask, and what they are told.

The fields are those of Kafka's requests and responses at their newest versions; what an older version lacks,
the Kafka server adds. Subscriptions and assignments are the members' own business: bytes.
"""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.groups.membership import NO_GENERATION, NO_MEMBER
from eagleray.broker.limits import Int32, RecordText
from eagleray.broker.messages import Message, RequestOf
from eagleray.protocol.errors import ErrorCode


class MemberProtocol(Message, frozen=True):
    """A way to assign that a member knows, and what the member wants under it."""

    name: RecordText
    metadata: bytes = b""


class JoinGroup(RequestOf["GroupJoined"], frozen=True, tag="JoinGroup"):
    """A client wants to be in the next generation of a group; answered when that generation begins.

    A member that joins for the first time has no id and is given one. A second `JoinGroup` of the same member takes the
    place of one that still waits, which is then answered with REBALANCE_IN_PROGRESS.
    """

    group: RecordText
    member_id: RecordText
    protocol_type: RecordText
    protocols: tuple[MemberProtocol, ...]
    """In the order in which the member would have them."""

    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32
    """How long the others wait for this member to join again; a version without it has -1."""

    group_instance_id: RecordText | None = None
    client_id: RecordText = ""
    client_host: RecordText = ""
    requires_known_member_id: bool = True
    """Whether a new member is sent back with its id before it counts (KIP-394); from version 4 on."""

    supports_skipping_assignment: bool = True
    """Whether a leader can be told to assign nothing (KIP-814); from version 9 on."""

    reason: RecordText | None = None

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """How long the others wait for this member, which is its session timeout where it does not say."""
        return self.rebalance_timeout_ms if self.rebalance_timeout_ms >= 0 else self.session_timeout_ms


class JoinedMember(Message, frozen=True):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class GroupJoined(Message, frozen=True, tag="GroupJoined"):
    """The answer to `JoinGroup`; the leader is told who the members are."""

    request_id: int
    error_code: ErrorCode
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class MemberAssignment(Message, frozen=True):
    """What the leader gives to one member."""

    member_id: RecordText
    assignment: bytes


class SyncGroup(RequestOf["GroupSynced"], frozen=True, tag="SyncGroup"):
    """A member wants its assignment; the leader brings those of all. Answered when the log has them."""

    group: RecordText
    generation: Int32
    member_id: RecordText
    group_instance_id: RecordText | None = None
    protocol_type: RecordText | None = None
    protocol_name: RecordText | None = None
    assignments: tuple[MemberAssignment, ...] = ()


class GroupSynced(Message, frozen=True, tag="GroupSynced"):
    """The answer to `SyncGroup`."""

    request_id: int
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Heartbeat(RequestOf["HeartbeatAnswered"], frozen=True, tag="Heartbeat"):
    """A member is alive, and wants to know whether its generation is still the current one."""

    group: RecordText
    generation: Int32
    member_id: RecordText
    group_instance_id: RecordText | None = None


class HeartbeatAnswered(Message, frozen=True, tag="HeartbeatAnswered"):
    """The answer to `Heartbeat`."""

    request_id: int
    error_code: ErrorCode


class LeavingMember(Message, frozen=True):
    """A member that leaves: named by its id, or a static one by its group.instance.id, or by both."""

    member_id: RecordText
    group_instance_id: RecordText | None = None
    reason: RecordText | None = None


class LeaveGroup(RequestOf["GroupLeft"], frozen=True, tag="LeaveGroup"):
    """Members leave a group, or an admin has them leave."""

    group: RecordText
    members: tuple[LeavingMember, ...]


class MemberLeft(Message, frozen=True):
    """Whether one of the members could leave."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


class GroupLeft(Message, frozen=True, tag="GroupLeft"):
    """The answer to `LeaveGroup`, with one entry for each of its members unless the error code says everything."""

    request_id: int
    error_code: ErrorCode
    members: tuple[MemberLeft, ...] = ()


class DescribeGroup(RequestOf["GroupDescribed"], frozen=True, tag="DescribeGroup"):
    """A client wants to see a group and its members."""

    group: RecordText


class DescribedMember(Message, frozen=True):
    """A member as an admin sees it; subscription and assignment are those of a stable generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


class GroupDescribed(Message, frozen=True, tag="GroupDescribed"):
    """The answer to `DescribeGroup`.

    A group that is not there, or is of another kind, is GROUP_ID_NOT_FOUND and Dead; versions below 6 of Kafka's
    response have only the second of these.
    """

    request_id: int
    error_code: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


ClassicRequest: TypeAlias = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | DescribeGroup
ClassicReply: TypeAlias = GroupJoined | GroupSynced | HeartbeatAnswered | GroupLeft | GroupDescribed
