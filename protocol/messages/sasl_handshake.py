"""SaslHandshake: a client picks the mechanism with which it will authenticate.

From version 1 on the exchange that follows travels in SaslAuthenticate.
"""

from eagleray.protocol.messages.annotations import Int16, Message, Wire


class SaslHandshakeRequest(Message, frozen=True):
    """The mechanism that the client wants."""

    wire = Wire(api_key=17, versions=(0, 1))

    mechanism: str = ""


class SaslHandshakeResponse(Message, frozen=True):
    """The mechanisms that the broker offers."""

    wire = Wire(api_key=17, versions=(0, 1))

    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()
