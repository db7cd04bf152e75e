"""SaslHandshake: key 17, versions 0 to 1.

A client that has authenticated begins to authenticate again (KIP-368). The first handshake of a connection comes before
there is one (`sasl_arrival.py`). On a listener without SASL there is no mechanism to agree upon.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API = ServedApi(17, 0, 1)

_AGAIN_SINCE: Final = 1
"""In version 0 what follows has no headers, and cannot be told from requests."""


def handle(request: SaslHandshakeRequest, call: Call) -> None:
    """Agree upon a mechanism again, or refuse."""
    authenticator = call.identity.authenticator
    if authenticator is None or call.api_version < _AGAIN_SINCE:
        call.answer(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
        return
    error_code = authenticator.handshake(request.mechanism)
    call.answer(SaslHandshakeResponse(error_code, authenticator.mechanisms))
    if error_code is not ErrorCode.NONE:
        call.close_after_answer()
