"""A connection with a Kafka client, on the node's own loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from eagleray.actors.wire.call import Call
from eagleray.actors.wire.handlers.api_versions import refuse_unknown_version
from eagleray.actors.wire.handlers.registry import SERVED
from eagleray.actors.wire.idle_timeouts import IdleTimeouts, Verdict
from eagleray.actors.wire.rate_limit import RateLimit
from eagleray.actors.wire.served import Served
from eagleray.actors.wire.strangers import DIRECT_LANE, FIRST_BYTES, describe_stranger
from eagleray.protocol.codec import Buffer, MalformedMessage, UnknownApi, UnsupportedVersion, decode_request
from eagleray.protocol.codec.registry import API_VERSIONS_KEY
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.framing import LENGTH, FrameReader, InvalidFrame
from eagleray.protocol.messages.headers import RequestHeader

if TYPE_CHECKING:
    from eagleray.actors.wire.listener import Listener

_log = logging.getLogger(__name__)

_SMALL_FRAME_BYTES: Final = 64 * 1024
"""Up to here a frame is copied: the codec reads plain bytes faster than a view, by more than the copy costs."""


class Connection(asyncio.Protocol):
    """Takes requests, hands each to its handler, and sends the answers in the order of the requests.

    Owns: the calls in flight of one peer. Everything that is answered in one turn of the loop leaves with one write. A
    peer that does not read its answers, or has too much in flight, is read no further until that changes, so what it
    costs is bounded. A peer that does not speak the protocol is told about in the log and closed; other peers do not
    notice.
    """

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.peer_host = ""
        self.peer_port = 0
        self._loop = listener.host.loop
        self._turn = listener.host.turn
        self._transport: Any = None
        self._first_bytes = b""
        self._is_identified = False
        self._frames = FrameReader(listener.config.socket_request_max_bytes)
        self._waiting: deque[Call] = deque()
        self._in_flight_bytes = 0
        self._out: list[Buffer] = []
        self._has_large_records = False
        self._is_scheduled = False
        self._is_held = False
        self._is_throttled = False
        self._is_finishing = False
        self._is_paused = False
        self._most_requests = listener.config.queued_max_requests
        self._most_bytes = listener.config.queued_max_request_bytes
        self._rate_limit = RateLimit(listener.config.connection_requests_per_second, self._loop.time())
        self._idle_timeouts = IdleTimeouts(listener.config, self._loop.time())

    # Its life

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio gives a Transport
        """Take note of who it is."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        self.listener.opened(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's name for it
        """Forget what is in flight; its handlers' answers are dropped."""
        self._transport = None
        self._waiting.clear()
        self._out = []
        self.listener.closed(self)

    def finish(self) -> None:
        """Take no more requests, answer those in flight, then close."""
        self._is_finishing = True
        self._flush()

    def abort(self) -> None:
        """Close at once; what is in flight is not answered."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()

    def look(self, now_s: float) -> float:
        """Close the connection where it has been silent, or in the middle of a request, for too long.

        Return after how many seconds to look again.
        """
        # What we do not read cannot be held against the peer.
        incomplete_bytes = 0 if self._is_paused else self._frames.buffered_bytes + len(self._first_bytes)
        verdict = self._idle_timeouts.look(now_s, incomplete_bytes=incomplete_bytes, is_busy=bool(self._waiting))
        if verdict is Verdict.SLOW:
            self.refuse("slow", "the rest of a request does not come")
        elif verdict is Verdict.IDLE:
            _log.info("closing the connection with %s:%s: it was idle", self.peer_host, self.peer_port)
            self.abort()
        return self._idle_timeouts.next_look_s

    def refuse(self, kind: str, sentence: str) -> None:
        """Close at once, and say in the log what the peer looks like."""
        self.listener.throttled_log.log_closing(self.peer_host, self.peer_port, kind, sentence)
        self.abort()

    # What comes in

    def data_received(self, data: bytes) -> None:
        """Take requests; with the first bytes, find out who speaks."""
        self._idle_timeouts.was_active = True
        if not self._is_identified:
            data = self._identify(data)
            if not data:
                return
        frames: Sequence[bytes | memoryview]
        if len(data) <= _SMALL_FRAME_BYTES and self._frames.is_one_frame(data):
            frames = (data[LENGTH.size :],)
        else:
            self.listener.look_soon(self)
            try:
                frames = self._frames.feed(data)
            except InvalidFrame as error:
                self.refuse("frame", f"it does not speak Kafka's protocol: {error}")
                return
        if frames:
            self._idle_timeouts.took_request = True
        for frame in frames:
            if not self._take(frame):
                return
        if self._rate_limit.per_second:
            self._throttle(len(frames))
        if len(self._waiting) >= self._most_requests or self._in_flight_bytes >= self._most_bytes or self._is_throttled:
            self._pause_or_resume()

    def _identify(self, data: bytes) -> bytes:
        """Return what is to be read as Kafka's frames: nothing as long as it is not known, or where it is not."""
        data = self._first_bytes = self._first_bytes + data
        if len(data) < FIRST_BYTES:
            self.listener.look_soon(self)
            return b""
        self._first_bytes = b""
        if data[:FIRST_BYTES] == DIRECT_LANE:
            transport, self._transport = self._transport, None
            self.listener.closed(self)
            self.listener.begin_direct_session(transport, data)
            return b""
        stranger = describe_stranger(data) or self.listener.reason_to_refuse(self)
        if stranger is not None:
            self.refuse(*stranger)
            return b""
        self._is_identified = True
        return data

    def _take(self, frame: bytes | memoryview) -> bool:
        """Hand a request to its handler; return whether the connection goes on."""
        try:
            request = decode_request(frame if len(frame) > _SMALL_FRAME_BYTES else bytes(frame))
        except UnsupportedVersion as error:
            return self._take_unknown_version(error)
        except (UnknownApi, MalformedMessage) as error:
            self.refuse("request", f"it sent what is no request: {error}")
            return False
        header: RequestHeader = request.header
        served = SERVED.get(header.request_api_key)
        if served is None:
            self.refuse(f"api {header.request_api_key}", f"API {header.request_api_key} is not served here")
            return False
        call = self._begin(served, header, request.body, len(frame))
        if not served.lowest <= header.request_api_version <= served.highest:
            self._refuse_call(call, ErrorCode.UNSUPPORTED_VERSION)
        else:
            try:
                if served.is_async:
                    self.listener.start(self._run(call))
                else:
                    served.handle(request.body, call)
            except Exception as error:  # noqa: BLE001 - a handler's error is one request's
                self.failed(call, error)
        return self._transport is not None

    def _take_unknown_version(self, error: UnsupportedVersion) -> bool:
        """Answer a client that is newer than we are with what it may ask for; any other request is lost."""
        if error.api_key != API_VERSIONS_KEY or error.correlation_id is None:
            self.refuse(f"version of {error.message}", f"it asked for what is not served: {error}")
            return False
        header = RequestHeader(API_VERSIONS_KEY, 0, error.correlation_id, None)
        refuse_unknown_version(self._begin(SERVED[API_VERSIONS_KEY], header, None, 0))
        return True

    def _begin(self, served: Served, header: RequestHeader, body: Any, size_bytes: int) -> Call:  # noqa: ANN401
        call = Call(self, served, header, body, size_bytes)
        self._waiting.append(call)
        self._in_flight_bytes += size_bytes
        return call

    async def _run(self, call: Call) -> None:
        try:
            call.answer(await call.served.handle(call.request, call))
        except Exception as error:  # noqa: BLE001 - a handler's error is one request's
            self.failed(call, error)

    # What goes out

    def answered(self, call: Call) -> None:
        """Send what is ready, up to the first request that is not."""
        waiting = self._waiting
        if self._transport is None or waiting[0] is not call:
            return
        while waiting and waiting[0].is_answered:
            call = waiting.popleft()
            self._in_flight_bytes -= call.size_bytes
            encoded = call.encoded
            if isinstance(encoded, bytes):
                self._out.append(encoded)
            else:
                self._out += encoded
                self._has_large_records = True
        if not self._is_scheduled:
            self._is_scheduled = True
            self._turn.flush(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._transport is None:
            return
        if self._out and not self._is_held:
            out, self._out = self._out, []
            if self._has_large_records:
                self._has_large_records = False
                self._transport.writelines(out)
            else:
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self._is_finishing and not self._waiting and not self._out:
            self._transport.close()
        elif self._is_paused or self._is_finishing:
            self._pause_or_resume()

    def failed(self, call: Call, error: BaseException) -> None:
        """Refuse a request whose handler failed; the node and the other requests go on."""
        request = f"{call.served.api.name} version {call.api_version}"
        self.listener.throttled_log.report_failure(self.peer_host, request, error)
        if not call.is_answered and self._transport is not None:
            self._refuse_call(call, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _refuse_call(self, call: Call, error_code: ErrorCode) -> None:
        name, version = call.served.api.name, call.api_version
        try:
            refusal = call.served.refusal(call.request, version, error_code)
            if refusal is not None:
                call.answer(refusal)
                return
        except Exception as error:  # noqa: BLE001 - what is left is to close
            self.listener.throttled_log.report_failure(
                self.peer_host, f"the refusal of {name} version {version}", error
            )
        self.refuse(f"{name} {error_code}", f"{name} version {version} was refused with {error_code.name}")

    # How much of it

    def pause_writing(self) -> None:
        """Hold the answers, and take no more requests: the peer does not read."""
        self._is_held = True
        self._pause_or_resume()

    def resume_writing(self) -> None:
        """Go on."""
        self._is_held = False
        self._flush()

    def _throttle(self, requests: int) -> None:
        """Let the peer wait where it sends more requests than it may."""
        delay_s = self._rate_limit.spend(requests, self._loop.time())
        if delay_s and not self._is_throttled:
            self._is_throttled = True
            self._loop.call_later(delay_s, self._end_throttling)

    def _end_throttling(self) -> None:
        self._is_throttled = False
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        should_pause = (
            self._is_held
            or self._is_throttled
            or self._is_finishing
            or len(self._waiting) >= self._most_requests
            or self._in_flight_bytes >= self._most_bytes
        )
        if should_pause is self._is_paused or self._transport is None:
            return
        self._is_paused = should_pause
        if should_pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
            self.listener.look_soon(self)
