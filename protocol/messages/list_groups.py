"""ListGroups: lists the groups that a broker coordinates."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Message, Since, Wire, WireStruct


class ListGroupsRequest(Message, frozen=True):
    """Which states and types of group to list; empty means all."""

    wire = Wire(api_key=16, versions=(0, 5), flexible_since=3)

    states_filter: Annotated[tuple[str, ...], Since(4)] = ()
    types_filter: Annotated[tuple[str, ...], Since(5)] = ()


class ListedGroup(WireStruct, frozen=True):
    """One group."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, Since(4), Ignorable()] = ""
    group_type: Annotated[str, Since(5), Ignorable()] = ""


class ListGroupsResponse(Message, frozen=True):
    """The groups of this broker."""

    wire = Wire(api_key=16, versions=(0, 5), flexible_since=3)

    throttle_time_ms: Annotated[Int32, Since(1), Ignorable()] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()
