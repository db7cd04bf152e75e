"""SaslAuthenticate: key 36, versions 0 to 2.

The listener is a plain one, with which no handshake can have succeeded.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.actors.wire.security import NO_AUTHENTICATION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(request: SaslAuthenticateRequest, call: AdminCall) -> SaslAuthenticateResponse:  # noqa: ARG001 - whatever it says
    """Say that nobody authenticates here."""
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_AUTHENTICATION)
