"""SyncGroup: the leader of a classic group hands out the assignment, and every member takes its own."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Message, Since, Wire, WireStruct


class SyncGroupRequestAssignment(WireStruct, frozen=True):
    """What the leader gives to one member."""

    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Message, frozen=True):
    """A member's call for its assignment; the leader's carries everyone's."""

    wire = Wire(api_key=14, versions=(0, 5), flexible_since=4)

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3)] = None
    protocol_type: Annotated[str | None, Since(5), Ignorable()] = None
    protocol_name: Annotated[str | None, Since(5), Ignorable()] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(Message, frozen=True):
    """The member's own assignment."""

    wire = Wire(api_key=14, versions=(0, 5), flexible_since=4)

    throttle_time_ms: Annotated[Int32, Since(1), Ignorable()] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, Since(5), Ignorable()] = None
    protocol_name: Annotated[str | None, Since(5), Ignorable()] = None
    assignment: bytes = b""
