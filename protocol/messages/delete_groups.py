"""DeleteGroups: deletes groups that have no members."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Message, Since, Wire, WireStruct


class DeleteGroupsRequest(Message, frozen=True):
    """Groups to delete."""

    wire = Wire(api_key=42, versions=(0, 3), flexible_since=2)

    groups_names: tuple[str, ...] = ()


class DeletableGroupResult(WireStruct, frozen=True):
    """The outcome for one group."""

    group_id: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, Since(3), Ignorable()] = None


class DeleteGroupsResponse(Message, frozen=True):
    """The outcome for every group."""

    wire = Wire(api_key=42, versions=(0, 3), flexible_since=2)

    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()
