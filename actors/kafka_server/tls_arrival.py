"""TLS between a transport and what reads from it: first the handshake, then the connection that it lets in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from eagleray.actors.kafka_server.arrival import Arrival
from eagleray.actors.kafka_server.sniffing import DIRECT_LANE, other_protocol
from eagleray.actors.kafka_server.tls_channel import TlsChannel

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.endpoint import Endpoint
    from eagleray.actors.kafka_server.listener import Listener
    from eagleray.actors.kafka_server.tls import TlsCertificates
    from eagleray.protocol.records import BytesLike

_HANDSHAKE: Final = 0x16
_OTHER_VERSION: Final = "it speaks no version of TLS that ssl.enabled.protocols allows"
_UNTRUSTED: Final = "it does not trust this node's certificate: "
_REASONS: Final = {
    "UNSUPPORTED_PROTOCOL": _OTHER_VERSION,
    "VERSION_TOO_LOW": _OTHER_VERSION,
    "NO_SHARED_CIPHER": "it has no cipher in common with this node",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": _UNTRUSTED + "it does not know the CA, which belongs into its truststore",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _UNTRUSTED + "it has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _UNTRUSTED + "the CA, the name or the time may be wrong",
    "SSLV3_ALERT_BAD_CERTIFICATE": _UNTRUSTED + "the CA, the name or the time may be wrong",
}
"""What is logged, by the reason that OpenSSL gives."""


class TlsTransport(asyncio.Transport):
    """The transport of a connection inside TLS."""

    def __init__(self, arrival: TlsArrival, transport: asyncio.Transport, channel: TlsChannel) -> None:
        super().__init__()
        self._arrival = arrival
        self._transport = transport
        self._channel = channel

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio has it
        """Return what is known of the peer: of the TLS, or else of the connection below."""
        return self._channel.tls if name == "ssl_object" else self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol have what comes."""
        self._arrival.inner = protocol  # type: ignore[assignment] # it is asyncio.Protocol, as all are here

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that has what comes."""
        return self._arrival.inner or self._arrival

    def write(self, data: BytesLike) -> None:
        """Send, encrypted."""
        self._channel.send(data)
        self._transport.write(self._channel.take_outgoing())

    def writelines(self, list_of_data: Iterable[BytesLike]) -> None:
        """Send several pieces with one write."""
        # A record of TLS for each small piece would cost more than the copy.
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """Take nothing more from the peer."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on taking what comes."""
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return how much waits to be sent, encrypted."""
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Send what is to be sent, say goodbye, and close."""
        self._channel.say_goodbye()
        self._transport.write(self._channel.take_outgoing())
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()


class TlsArrival(Arrival):
    """Shakes hands, and then stands between the transport and what it has let in.

    With SASL that is the authentication, else a connection, as whom the client's certificate names.
    """

    def __init__(self, listener: Listener, endpoint: Endpoint, tls: TlsCertificates) -> None:
        super().__init__(listener, endpoint)
        self._tls = tls
        self._channel: TlsChannel | None = None
        self.inner: asyncio.Protocol | None = None
        """What has been let in."""

    def _received(self, data: bytes) -> None:
        """Decrypt, and pass on; first shake hands."""
        transport = self._transport
        assert transport is not None, "what has come has come by a transport"
        if self._channel is None:
            refusal = self._other_protocol(data)
            if refusal is not None:
                self._close(transport, *refusal)
                return
            self._channel = TlsChannel(self._tls.context)
        try:
            received = self._channel.receive(data)
        except ssl.SSLError as error:
            self._fail(transport, self._channel, error)
            return
        self._send_outgoing(transport, self._channel)
        self._pass_on(transport, self._channel, received)

    def _other_protocol(self, data: bytes) -> tuple[str, str] | None:
        if data[0] == _HANDSHAKE:
            return None
        if data.startswith(DIRECT_LANE):
            return self.endpoint.reason_to_refuse_lane()
        named, protocol = self.endpoint.listener_name, self.endpoint.protocol
        return other_protocol(data) or (
            "no tls",
            f"it does not speak TLS, but listener {named} does; expected security.protocol={protocol}",
        )

    def _send_outgoing(self, transport: asyncio.Transport, channel: TlsChannel) -> None:
        if outgoing := channel.take_outgoing():
            transport.write(outgoing)

    def _pass_on(self, transport: asyncio.Transport, channel: TlsChannel, received: bytes) -> None:
        if self.inner is None and channel.is_open:
            self._let_in(transport, channel)
        if self.inner is not None and received:
            self.inner.data_received(received)
        if channel.is_over and not transport.is_closing():
            transport.close()

    def _let_in(self, transport: asyncio.Transport, channel: TlsChannel) -> None:
        identity = self._tls.identity_of(channel.tls)
        if identity is None:
            reason = "no rule of ssl.principal.mapping.rules names a principal for its certificate"
            self._close(transport, "principal", reason)
            return
        self.listener.arrivals.leave(self)
        self.inner = self.listener.after_tls(self, identity)
        self.inner.connection_made(TlsTransport(self, transport, channel))

    def _fail(self, transport: asyncio.Transport, channel: TlsChannel, error: ssl.SSLError) -> None:
        """Tell the peer, log why, and close when the peer has been told."""
        self._send_outgoing(transport, channel)
        self._close(transport, *_described(error))

    def _close(self, transport: asyncio.Transport, kind: str, sentence: str) -> None:
        self.listener.throttled_log.log_closing(self.peer_host, self.peer_port, kind, sentence)
        transport.close()

    def pause_writing(self) -> None:
        """Have what was let in hold back what it sends."""
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Have what was let in go on."""
        if self.inner is not None:
            self.inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell what was let in."""
        super().connection_lost(error)
        if self.inner is not None:
            self.inner.connection_lost(error)


def _described(error: ssl.SSLError) -> tuple[str, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "tls certificate", f"its certificate is refused: {error.verify_message}"
    reason = error.reason or "UNKNOWN"
    said = reason.replace("_", " ").lower()
    return f"tls {reason}", _REASONS.get(reason, f"the TLS connection has failed: {said}")
