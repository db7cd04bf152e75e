"""SaslAuthenticate: carries one step of an authentication exchange."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int64, Message, Since, Wire


class SaslAuthenticateRequest(Message, frozen=True):
    """What the client has to say, opaque to the protocol."""

    wire = Wire(api_key=36, versions=(0, 2), flexible_since=2)

    auth_bytes: bytes = b""

    def __repr__(self) -> str:
        return f"SaslAuthenticateRequest({len(self.auth_bytes)} bytes that are secret)"


class SaslAuthenticateResponse(Message, frozen=True):
    """What the broker answers, and how long the session lasts."""

    wire = Wire(api_key=36, versions=(0, 2), flexible_since=2)

    error_code: Int16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, Since(1), Ignorable()] = 0
