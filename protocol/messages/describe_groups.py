"""DescribeGroups: shows the members and state of classic groups."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Message, Since, Wire, WireStruct


class DescribeGroupsRequest(Message, frozen=True):
    """Which groups to show."""

    wire = Wire(api_key=15, versions=(0, 6), flexible_since=5)

    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, Since(3)] = False


class DescribedGroupMember(WireStruct, frozen=True):
    """One member of a group."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(4), Ignorable()] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(WireStruct, frozen=True):
    """One group and its members."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, Since(6)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, Since(3)] = -0x80000000


class DescribeGroupsResponse(Message, frozen=True):
    """The groups."""

    wire = Wire(api_key=15, versions=(0, 6), flexible_since=5)

    throttle_time_ms: Annotated[Int32, Since(1), Ignorable()] = 0
    groups: tuple[DescribedGroup, ...] = ()
