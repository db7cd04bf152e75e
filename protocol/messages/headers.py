"""Headers: what comes before the body of every request and response.

A flexible request has header version 2 and its response version 1, others have 1 and 0. The response to
ApiVersions has version 0 always, because its reader does not know yet what the broker can do.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import Int16, Int32, Message, NeverCompact, Wire


class RequestHeader(Message, frozen=True):
    """What comes before the body of every request."""

    wire = Wire(versions=(1, 2), flexible_since=2)

    request_api_key: Int16 = 0
    request_api_version: Int16 = 0
    correlation_id: Int32 = 0
    client_id: Annotated[str | None, NeverCompact()] = ""


class ResponseHeader(Message, frozen=True):
    """What comes before the body of every response."""

    wire = Wire(versions=(0, 1), flexible_since=1)

    correlation_id: Int32 = 0
