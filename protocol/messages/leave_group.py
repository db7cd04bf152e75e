"""LeaveGroup: members leave a classic group.

One member up to version 2, a batch from 3 on.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Message, Since, Until, Wire, WireStruct


class MemberIdentity(WireStruct, frozen=True):
    """A member that leaves."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: Annotated[str | None, Since(5), Ignorable()] = None


class LeaveGroupRequest(Message, frozen=True):
    """Who leaves which group."""

    wire = Wire(api_key=13, versions=(0, 5), flexible_since=4)

    group_id: str = ""
    member_id: Annotated[str, Until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], Since(3)] = ()


class MemberResponse(WireStruct, frozen=True):
    """Whether one member could leave."""

    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: Int16 = 0


class LeaveGroupResponse(Message, frozen=True):
    """The outcome for every member."""

    wire = Wire(api_key=13, versions=(0, 5), flexible_since=4)

    throttle_time_ms: Annotated[Int32, Since(1), Ignorable()] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[MemberResponse, ...], Since(3)] = ()
