"""SaslAuthenticate: key 36, versions 0 to 2.

The listener is PLAINTEXT, on which no handshake can have succeeded.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.security import NO_AUTHENTICATION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

API = ServedApi(36, 0, 2)


async def handle(request: SaslAuthenticateRequest, call: AdminCall) -> SaslAuthenticateResponse:  # noqa: ARG001 - whatever it says
    """Refuse: clients do not authenticate here."""
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_AUTHENTICATION)
