"""JoinGroup: a member asks to join a classic consumer group."""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    Ignorable,
    Int16,
    Int32,
    Message,
    NullableSince,
    Since,
    Wire,
    WireStruct,
)


class JoinGroupRequestProtocol(WireStruct, frozen=True):
    """An assignor that the member speaks, with its subscription for it."""

    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Message, frozen=True):
    """A member with all the assignors it speaks."""

    wire = Wire(api_key=11, versions=(0, 9), flexible_since=6)

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Since(1), Ignorable()] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(5)] = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[str | None, Since(8), Ignorable()] = None


class JoinGroupResponseMember(WireStruct, frozen=True):
    """A member as shown to the leader."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(5), Ignorable()] = None
    metadata: bytes = b""


class JoinGroupResponse(Message, frozen=True):
    """The generation, and for the leader all its members."""

    wire = Wire(api_key=11, versions=(0, 9), flexible_since=6)

    throttle_time_ms: Annotated[Int32, Since(2), Ignorable()] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, Since(7), Ignorable()] = None
    protocol_name: Annotated[str | None, NullableSince(7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, Since(9)] = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
