"""A connection of a Kafka client, on the node's own loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from eagleray.actors.kafka_server.api_handler import ApiHandler
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.direct_peers import is_whole_preface, stranger
from eagleray.actors.kafka_server.endpoint import SHARED_PORT, Endpoint
from eagleray.actors.kafka_server.guard_questions import GuardQuestions
from eagleray.actors.kafka_server.handlers.api_versions import refuse_unknown_version
from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.actors.kafka_server.identity import ANONYMOUS, Identity
from eagleray.actors.kafka_server.idle_timeouts import IdleTimeouts, Verdict
from eagleray.actors.kafka_server.rate_limit import RateLimit
from eagleray.actors.kafka_server.responses import Responses
from eagleray.actors.kafka_server.sniffing import DIRECT_LANE, FIRST_BYTES, other_protocol
from eagleray.actors.kafka_server.validation import refusal_of
from eagleray.protocol.codec import MalformedMessage, UnknownApi, UnsupportedVersion, decode_request
from eagleray.protocol.codec.registry import API_VERSIONS_KEY
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.framing import LENGTH, FrameReader, InvalidFrame
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.headers import RequestHeader

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.listener import Listener

_log = logging.getLogger(__name__)

_SMALL_FRAME_BYTES: Final = 64 * 1024
"""Up to here a frame is copied: the codec reads plain bytes faster than a view, by more than the copy costs."""

_ENOUGH_BYTES: Final = 1024 * 1024
"""When the responses of a turn have so many bytes, the next request is taken after they are written."""

TOO_FAST: Final = "more connections come than max.connection.creation.rate and its limit per ip allow"


class Connection(asyncio.Protocol):
    """Takes requests, passes each to its handler, and sends the responses in the order of the requests.

    Owns: the calls in flight of one peer, and the requests that were read and not taken yet. All responses of one turn
    of the loop leave with one write. A peer that does not read its responses, or has too much in flight, is not read
    further until that changes, and no request of it is taken, so its cost is bounded. What its part of a request and
    its unread responses hold counts with those of all peers (`HeldBytes`). A peer that does not speak the protocol is
    logged and closed; other peers do not notice.
    """

    def __init__(self, listener: Listener, endpoint: Endpoint = SHARED_PORT, identity: Identity = ANONYMOUS) -> None:
        self.listener = listener
        self.endpoint = endpoint
        self.identity = identity
        self.peer_host = ""
        self.peer_port = 0
        self._loop = listener.context.loop
        self._turn = listener.context.turn
        self._transport: asyncio.Transport | None = None
        self._first_bytes = b""
        self._is_identified = False
        self.number = next(listener.numbers)
        self.questions: GuardQuestions | None = None
        """Those of the guards of transactions; None for a connection by which no request has come that they look at."""
        self._frames = FrameReader(listener.config.socket_request_max_bytes)
        self._untaken: deque[bytes | memoryview] = deque()
        """Requests that have come, and are not taken before the responses to earlier ones are written."""
        self._responses = Responses()
        self._waiting = self._responses.calls
        self._in_flight_bytes = 0
        self._is_scheduled = False
        self._is_held = False
        self._is_throttled = False
        self._is_finishing = False
        self._is_paused = False
        self._most_requests = listener.config.queued_max_requests
        self._most_bytes = listener.config.queued_max_request_bytes_per_connection
        self._queued_bytes = listener.queued_bytes
        self._rate_limit = RateLimit(listener.config.connection_requests_per_second, self._loop.time())
        self._idle_timeouts = IdleTimeouts(listener.config, self._loop.time())

    # Starting and stopping

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of who it is."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        taken = transport.get_extra_info("socket")
        self.listener.opened(self, -1 if taken is None else taken.fileno())

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's name for it
        """Forget what is in flight; the responses of its handlers are dropped."""
        self._transport = None
        self._untaken.clear()
        self._responses.clear()
        self._queued_bytes.forget(self, self._in_flight_bytes)
        self._in_flight_bytes = 0
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
        """Close the connection where it has been idle, or in the middle of a request, for too long.

        Return after how many seconds to look again.
        """
        if now_s >= self.identity.session_ends_s:
            self.refuse("session", "it has not authenticated again within connections.max.reauth.ms")
        # The peer is not to blame for what this node does not read.
        incomplete_bytes = 0 if self._is_paused else self._frames.buffered_bytes + len(self._first_bytes)
        verdict = self._idle_timeouts.look(now_s, incomplete_bytes=incomplete_bytes, is_busy=bool(self._waiting))
        if verdict is Verdict.SLOW:
            self.refuse("slow", "the rest of a request does not come")
        elif verdict is Verdict.IDLE:
            _log.info("closing the connection with %s:%s: it was idle", self.peer_host, self.peer_port)
            self.abort()
        return min(self._idle_timeouts.next_look_s, self.identity.session_ends_s - now_s)

    def refuse(self, kind: str, sentence: str) -> None:
        """Close at once, and log what the peer looks like."""
        sentence = f"{sentence} ({self.identity.shown})" if self.identity.shown else sentence
        self.listener.throttled_log.log_closing(self.peer_host, self.peer_port, kind, sentence)
        self.abort()

    # What comes in

    def data_received(self, data: bytes) -> None:
        """Take requests; with the first bytes, find out which protocol the peer speaks."""
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
                self.listener.parts_of_requests.forget(self)
        if frames:
            self._idle_timeouts.took_request = True
        self._untaken += frames
        self._take_untaken()

    def _take_untaken(self) -> None:
        """Take what has come, unless there is enough to be written first."""
        untaken, taken, responses = self._untaken, 0, self._responses
        while untaken and responses.out_bytes < _ENOUGH_BYTES:
            taken += 1
            if not self._take(untaken.popleft()):
                return
        if untaken or self._frames.buffered_bytes:
            self.listener.parts_of_requests.hold(self, self._frames.buffered_bytes + sum(map(len, untaken)))
        if self.questions is not None and taken and not untaken:
            self.questions.took_requests()
        if self._rate_limit.per_second:
            self._throttle(taken)
        queued = self._queued_bytes
        if queued.size_bytes >= queued.most_bytes:
            queued.wait(self, self._pause_or_resume)
            self._pause_or_resume()
        elif self._is_throttled or untaken or self._has_much_in_flight:
            self._pause_or_resume()

    @property
    def _has_much_in_flight(self) -> bool:
        return len(self._waiting) >= self._most_requests or self._in_flight_bytes >= self._most_bytes

    def _identify(self, data: bytes) -> bytes:
        """Return what is to be read as Kafka's frames: nothing as long as the protocol is unknown, or is another."""
        data = self._first_bytes = self._first_bytes + data
        is_direct = data[:FIRST_BYTES] == DIRECT_LANE
        if len(data) < FIRST_BYTES or (is_direct and not is_whole_preface(data)):
            self.listener.look_soon(self)
            return b""
        self._first_bytes = b""
        if is_direct:
            self._hand_over(data)
            return b""
        refusal = other_protocol(data) or self.listener.reason_to_refuse(self)
        if refusal is not None:
            self.refuse(*refusal)
            return b""
        self._is_identified = True
        return data if self._is_let_in_now(data) else b""

    def _is_let_in_now(self, data: bytes) -> bool:
        """Whether as few clients have come of late as may come; else it is let in later, or not at all."""
        if self.endpoint.has_arrivals:
            return True
        wait_s = self.listener.connection_rates.wait_s(self.peer_host, self._loop.time())
        if wait_s is None:
            self.refuse("rate", TOO_FAST)
        elif wait_s > 0:
            self._first_bytes = data
            self._pause_for(wait_s)
            self._pause_or_resume()
        return wait_s == 0

    def _hand_over(self, data: bytes) -> None:
        """Let the direct lane have a peer that has proved to be of this cluster; until then it counts as a client."""
        refusal = self.endpoint.reason_to_refuse_lane() or stranger(data, self.listener.context.spec.token)
        if refusal is not None:
            self.refuse(*refusal)
            return
        transport, self._transport = self._transport, None
        assert transport is not None, "what has come has come by a transport"
        self.listener.closed(self)
        self.listener.begin_direct_session(transport, data)

    def _take(self, frame: bytes | memoryview) -> bool:
        """Pass a request to its handler; return whether the connection goes on."""
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
        if not served.takes(header.request_api_version, two_phase=self.listener.has_two_phase_commit):
            self._refuse_call(call, ErrorCode.UNSUPPORTED_VERSION)
        elif (impossible := refusal_of(request.body, len(frame))) is not None:
            sentence = f"{served.api.name} version {header.request_api_version}: {impossible}"
            self.listener.throttled_log.log_refusal(self.peer_host, served.api.name, sentence)
            self._refuse_call(call, ErrorCode.INVALID_REQUEST)
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
        """Answer a client that is newer than this broker with the supported versions; any other request is lost."""
        if error.api_key != API_VERSIONS_KEY or error.correlation_id is None:
            self.refuse(f"version of {error.message}", f"it asked for what is not served: {error}")
            return False
        header = RequestHeader(API_VERSIONS_KEY, 0, error.correlation_id, None)
        refuse_unknown_version(self._begin(SERVED[API_VERSIONS_KEY], header, None, 0))
        return True

    def _begin(self, served: ApiHandler, header: RequestHeader, body: Message | None, size_bytes: int) -> Call:
        call = Call(self, served, header, body, size_bytes)
        self._waiting.append(call)
        self._in_flight_bytes += size_bytes
        self._queued_bytes.size_bytes += size_bytes
        return call

    async def _run(self, call: Call) -> None:
        try:
            call.answer(await call.served.handle(call.request, call))
        except Exception as error:  # noqa: BLE001 - a handler's error is one request's
            self.failed(call, error)

    # What goes out

    def answered(self, call: Call) -> None:
        """Send the responses that are ready, up to the first request that has none."""
        if self._transport is None:
            return
        queued = self._queued_bytes
        ready = self._responses.answered(call)
        for each in ready:
            self._in_flight_bytes -= each.size_bytes
            queued.size_bytes -= each.size_bytes
            if self.questions is not None:
                self.questions.is_leaving(each)
        if self._is_held or self._responses.overtaking_bytes or len(ready) > 1:
            self._hold_unread()
        if not ready:
            return
        if queued.waiting:
            queued.resume_soon()
        if not self._is_scheduled:
            self._is_scheduled = True
            self._turn.flush(self._flush)

    def _hold_unread(self) -> None:
        """Count what is ready, and the peer does not read, or cannot be sent before another response."""
        unread_bytes = self._responses.overtaking_bytes
        if self._is_held and self._transport is not None:
            unread_bytes += self._responses.out_bytes + self._transport.get_write_buffer_size()
        self.listener.unread_responses.hold(self, unread_bytes)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._transport is None:
            return
        if self._responses.are_ready and not self._is_held:
            self._responses.write_to(self._transport)
            if self.questions is not None:
                self.questions.written(has_read_part=self._frames.buffered_bytes > 0 or bool(self._untaken))
            if self._untaken:
                self._loop.call_soon(self._go_on)
        if self._is_finishing and not self._waiting and not self._responses.are_ready:
            self._transport.close()
        elif self._is_paused or self._is_finishing:
            self._pause_or_resume()

    def _go_on(self) -> None:
        """Take the requests that had to wait until earlier responses were written."""
        if self._untaken and self._transport is not None and not self._is_finishing:
            self.listener.parts_of_requests.forget(self)
            self._take_untaken()
            self._pause_or_resume()

    def failed(self, call: Call, error: BaseException) -> None:
        """Refuse a request whose handler failed; the node and the other requests go on."""
        request = f"{call.served.api.name} version {call.api_version}"
        self.listener.context.request_failed(self.peer_host, request, error)
        if not call.is_answered and self._transport is not None:
            self._refuse_call(call, ErrorCode.UNKNOWN_SERVER_ERROR)

    def log_failed_in_role(self, call: Call) -> None:
        """Log whose request it was at which a role has failed; the role itself has said why, and counted it."""
        sentence = f"{call.served.api.name} version {call.api_version} of port {self.peer_port} failed in a role"
        self.listener.throttled_log.log_refusal(self.peer_host, f"{call.served.api.name} failed", sentence)

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

    # Flow control

    def pause_writing(self) -> None:
        """Hold the responses back, and take no more requests: the peer does not read."""
        self._is_held = True
        self._hold_unread()
        self._pause_or_resume()

    def resume_writing(self) -> None:
        """Resume sending and reading."""
        self._is_held = False
        self._hold_unread()
        self._flush()

    def _throttle(self, requests: int) -> None:
        """Delay the peer where it sends more requests than it may."""
        delay_s = self._rate_limit.spend(requests, self._loop.time())
        if delay_s and not self._is_throttled:
            self._pause_for(delay_s)

    def _pause_for(self, delay_s: float) -> None:
        self._is_throttled = True
        self._loop.call_later(delay_s, self._end_throttling)

    def _end_throttling(self) -> None:
        self._is_throttled = False
        self._pause_or_resume()
        if self._first_bytes and self._transport is not None:
            data, self._first_bytes = self._first_bytes, b""
            self.data_received(data)

    def _pause_or_resume(self) -> None:
        should_pause = (
            self._is_held
            or self._is_throttled
            or self._is_finishing
            or bool(self._untaken)
            or self._has_much_in_flight
            or self._queued_bytes.holds(self, self._in_flight_bytes)
        )
        if should_pause is self._is_paused or self._transport is None:
            return
        self._is_paused = should_pause
        if should_pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
            self.listener.look_soon(self)
