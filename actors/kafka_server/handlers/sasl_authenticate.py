"""SaslAuthenticate: key 36, versions 0 to 2.

A client that has authenticated does so again (KIP-368). The first authentication of a connection comes before there is
one (`sasl_arrival.py`). On a listener without SASL no handshake can have succeeded.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.security import NO_AUTHENTICATION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

API = ServedApi(36, 0, 2)


async def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    """Go on with an authentication; one that fails ends the connection."""
    authenticator = call.identity.authenticator
    if authenticator is None:
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_AUTHENTICATION)
    answer = await authenticator.take(bytes(request.auth_bytes))
    if answer.identity is not None:
        call.authenticated_again(answer.identity)
    elif answer.error_code is not ErrorCode.NONE:
        call.close_after_answer()
    return SaslAuthenticateResponse(answer.error_code, answer.message, answer.auth_bytes, answer.session_lifetime_ms)
