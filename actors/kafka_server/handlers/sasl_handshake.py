"""SaslHandshake: key 17, versions 0 to 1.

The listener is PLAINTEXT, so there is no mechanism to agree upon. A client that asks is configured for another.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API = ServedApi(17, 0, 1)


async def handle(request: SaslHandshakeRequest, call: AdminCall) -> SaslHandshakeResponse:  # noqa: ARG001 - whatever it asks
    """Refuse: clients do not authenticate here."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
