"""SaslHandshake: key 17, versions 0 to 1.

The listener is a plain one: there is no mechanism to agree upon. A client that asks is set up for another.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(request: SaslHandshakeRequest, call: AdminCall) -> SaslHandshakeResponse:  # noqa: ARG001 - whatever it asks
    """Say that nobody authenticates here."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
