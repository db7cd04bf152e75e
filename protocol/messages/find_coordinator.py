"""FindCoordinator: finds the broker that coordinates a group or a transactional id.

One key up to version 3, a batch of keys from 4 on.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    Ignorable,
    Int8,
    Int16,
    Int32,
    Message,
    Since,
    Until,
    Wire,
    WireStruct,
)


class FindCoordinatorRequest(Message, frozen=True):
    """Whose coordinator to find: key type 0 is a group, 1 a transactional id."""

    wire = Wire(api_key=10, versions=(0, 6), flexible_since=3)

    key: Annotated[str, Until(3)] = ""
    key_type: Annotated[Int8, Since(1)] = 0
    coordinator_keys: Annotated[tuple[str, ...], Since(4)] = ()


class Coordinator(WireStruct, frozen=True):
    """The coordinator of one key."""

    key: str = ""
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class FindCoordinatorResponse(Message, frozen=True):
    """Where the coordinators are."""

    wire = Wire(api_key=10, versions=(0, 6), flexible_since=3)

    throttle_time_ms: Annotated[Int32, Since(1), Ignorable()] = 0
    error_code: Annotated[Int16, Until(3)] = 0
    error_message: Annotated[str | None, Since(1), Until(3), Ignorable()] = ""
    node_id: Annotated[Int32, Until(3)] = 0
    host: Annotated[str, Until(3)] = ""
    port: Annotated[Int32, Until(3)] = 0
    coordinators: Annotated[tuple[Coordinator, ...], Since(4)] = ()
