"""Heartbeat: a member of a classic group says that it is alive."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Message, Since, Wire


class HeartbeatRequest(Message, frozen=True):
    """The member and the generation it believes in."""

    wire = Wire(api_key=12, versions=(0, 4), flexible_since=4)

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3)] = None


class HeartbeatResponse(Message, frozen=True):
    """Whether that generation still stands."""

    wire = Wire(api_key=12, versions=(0, 4), flexible_since=4)

    throttle_time_ms: Annotated[Int32, Since(1), Ignorable()] = 0
    error_code: Int16 = 0
