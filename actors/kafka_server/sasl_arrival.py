"""A peer that is to authenticate by SASL: until it has, it may ask for nothing else but which APIs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eagleray.actors.kafka_server.arrival import Arrival
from eagleray.actors.kafka_server.authenticator import Authenticator, SaslAnswer
from eagleray.actors.kafka_server.handlers.api_versions import response_to, response_to_unknown_version
from eagleray.actors.kafka_server.sniffing import DIRECT_LANE, other_protocol
from eagleray.protocol.codec import (
    MalformedMessage,
    UnknownApi,
    UnsupportedVersion,
    decode_request,
    encode_response,
)
from eagleray.protocol.codec.registry import API_VERSIONS_KEY
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.framing import LENGTH
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from eagleray.protocol.messages.headers import RequestHeader
from eagleray.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from eagleray.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from eagleray.actors.common.security_config import SecurityConfig
    from eagleray.actors.kafka_server.endpoint import Endpoint
    from eagleray.actors.kafka_server.listener import Listener

_RAW_UNTIL: Final = 0
"""After a handshake of this version the messages of the mechanism come without headers."""


class SaslArrival(Arrival):
    """Takes one request after the other, and lets the peer in as whom it has authenticated."""

    def __init__(
        self, listener: Listener, endpoint: Endpoint, security: SecurityConfig, deadline_s: float | None = None
    ) -> None:
        super().__init__(listener, endpoint, deadline_s)
        self._security = security
        self._most_bytes = security.sasl_server_max_receive_size
        self._authenticator: Authenticator | None = None
        self._buffer = b""
        self._is_busy = False
        self._is_raw = False

    def _received(self, data: bytes) -> None:
        """Take what has come; the peer is not read while a request of it is worked on."""
        assert self._transport is not None, "what has come has come by a transport"
        if self._authenticator is None:
            refusal = self._other_protocol(data)
            if refusal is not None:
                self.refuse(*refusal)
                return
            peer = (self.peer_host, self.peer_port)
            self._authenticator = Authenticator(self.listener, self._security, self.endpoint.listener_name, peer)
        self._buffer += data
        if not self._is_busy and (frame := self._next_frame()) is not None:
            self._is_busy = True
            self._transport.pause_reading()
            self.listener.start(self._work(self._authenticator, frame))
        if self._transport is not None:
            self._hold(len(self._buffer))

    def _other_protocol(self, data: bytes) -> tuple[str, str] | None:
        if data.startswith(DIRECT_LANE):
            return self.endpoint.reason_to_refuse_lane()
        return other_protocol(data)

    def _next_frame(self) -> bytes | None:
        """Cut off the next whole request; None where there is none, or it is too large, which ends the connection."""
        if len(self._buffer) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._buffer)
        if not 0 <= length <= self._most_bytes:
            self.refuse("frame", f"a request of {length} bytes was announced before it has authenticated")
            return None
        end = LENGTH.size + length
        if len(self._buffer) < end:
            return None
        frame, self._buffer = self._buffer[LENGTH.size : end], self._buffer[end:]
        return frame

    async def _work(self, authenticator: Authenticator, frame: bytes | None) -> None:
        while frame is not None and self._transport is not None:
            try:
                is_over = await self._take(authenticator, frame)
            except (UnsupportedVersion, UnknownApi, MalformedMessage) as error:
                self.refuse("request", f"it sent what is no request: {error}")
                return
            if is_over:
                return
            frame = self._next_frame()
        self._is_busy = False
        if self._transport is not None:
            self._hold(len(self._buffer))
            self._transport.resume_reading()

    async def _take(self, authenticator: Authenticator, frame: bytes) -> bool:
        """Answer one request; return whether this arrival is over."""
        if self._is_raw:
            return self._answer_raw(await authenticator.take(frame))
        try:
            request = decode_request(frame)
        except UnsupportedVersion as error:
            if error.api_key != API_VERSIONS_KEY or error.correlation_id is None:
                raise
            header = RequestHeader(API_VERSIONS_KEY, 0, error.correlation_id, None)
            self._send(header, response_to_unknown_version(self.listener))
            return False
        header, body = request.header, request.body
        if isinstance(body, ApiVersionsRequest):
            advertised = self.listener.advertised(self.endpoint.listener_name)
            self._send(header, response_to(body, header.request_api_version, self.listener, advertised))
            return False
        if isinstance(body, SaslHandshakeRequest):
            return self._shake_hands(authenticator, header, body)
        if isinstance(body, SaslAuthenticateRequest):
            return self._answer(header, await authenticator.take(bytes(body.auth_bytes)))
        key = header.request_api_key
        self.refuse("too early", f"it sent a request of API {key} before it has authenticated; expected SaslHandshake")
        return True

    def _shake_hands(self, authenticator: Authenticator, header: RequestHeader, body: SaslHandshakeRequest) -> bool:
        error_code = authenticator.handshake(body.mechanism)
        self._send(header, SaslHandshakeResponse(error_code, authenticator.mechanisms))
        self._is_raw = header.request_api_version == _RAW_UNTIL
        if error_code is not ErrorCode.NONE:
            self._close()
        return error_code is not ErrorCode.NONE

    def _answer(self, header: RequestHeader, answer: SaslAnswer) -> bool:
        if self._transport is None:
            return True
        response = SaslAuthenticateResponse(
            answer.error_code, answer.message, answer.auth_bytes, answer.session_lifetime_ms
        )
        self._send(header, response)
        return self._is_over(answer)

    def _answer_raw(self, answer: SaslAnswer) -> bool:
        """Answer without a header; there is no room for an error, so that the connection is closed."""
        if self._transport is not None and answer.error_code is ErrorCode.NONE:
            self._transport.write(LENGTH.pack(len(answer.auth_bytes)) + answer.auth_bytes)
        return self._is_over(answer)

    def _is_over(self, answer: SaslAnswer) -> bool:
        if self._transport is None:
            return True
        if answer.error_code is not ErrorCode.NONE:
            self._close()
            return True
        if answer.identity is None:
            return False
        transport = self._transport
        rest, self._buffer = self._buffer, b""
        self.hand_over(self.listener.connection_of(self, answer.identity), rest)
        if not transport.is_closing():
            transport.resume_reading()
        return True

    def _send(self, header: RequestHeader, response: Message) -> None:
        if self._transport is not None:
            self._transport.write(encode_response(response, header.request_api_version, header.correlation_id))

    def _close(self) -> None:
        """Close when the peer has been told why; until then it is an arrival that takes nothing more."""
        assert self._transport is not None, "it has just been told"
        self._transport.close()
