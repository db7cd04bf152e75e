"""The direct lane: frames of messages on one connection to a node's listener, on the loop of either end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

import msgspec

from eagleray.actors.lanes.frames import (
    CANNOT_ENCODE,
    MAX_FRAME_BYTES,
    PREFACE_BYTES,
    NotOurs,
    Welcome,
    check_preface,
    decode_messages,
    decode_readable,
    decode_welcome,
    encode_preface,
    encode_welcome,
    frames_of,
    split_encodable,
)
from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.messages import Malformed
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.traffic import Traffic
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.messages import Message
from eagleray.protocol.framing import FrameReader, InvalidFrame
from eagleray.protocol.records import BytesLike

_log = logging.getLogger(__name__)


class _Connection(asyncio.Protocol):
    """What both ends have in common: messages are gathered in a turn, and held while the peer does not read."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader(MAX_FRAME_BYTES)
        self._outbox: list[Message] = []
        self._is_scheduled = False
        self._is_held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @property
    def _peer(self) -> str:
        return str(self._transport.get_extra_info("peername")) if self._transport else "a closed connection"

    def _send(self, messages: list[Message]) -> None:
        self._outbox += messages
        self._flush()

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._is_held or self._transport is None or not self._outbox:
            return
        outbox, self._outbox = self._outbox, []
        for frame in self._frames_of(outbox):
            self._write(self._transport, frame)

    def _frames_of(self, outbox: list[Message]) -> Sequence[bytes]:
        try:
            return frames_of(outbox)
        except CANNOT_ENCODE:
            encodable, malformed = split_encodable(outbox)
        frames = self._with_malformed(encodable, malformed)
        return frames_of(frames) if frames else ()

    def _with_malformed(self, encodable: list[Message], malformed: list[Malformed]) -> list[Message]:
        raise NotImplementedError

    def _write(self, transport: asyncio.Transport, frame: bytes) -> None:
        transport.write(frame)

    def pause_writing(self) -> None:
        self._is_held = True

    def resume_writing(self) -> None:
        self._is_held = False
        self._flush()

    def _refuse(self, reason: object) -> None:
        _log.warning("closing the connection with %s: %s", self._peer, reason)
        if self._transport is not None:
            self._transport.abort()


class DirectSession(_Connection):
    """A listener's end of a connection: a session of its node from the preface to the end of the connection.

    An asker that sends more than it reads is not read from until it reads, so what waits for it is bounded.
    """

    def __init__(self, sessions: Sessions, turn: Turn, *, token: bytes, node_id: int, incarnation: int) -> None:
        super().__init__(turn)
        self._sessions = sessions
        self._token = token
        self._node_id = node_id
        self._incarnation = incarnation
        self._session = -1
        self._preface = b""

    @property
    def peer_host(self) -> str:
        """The address of the asker."""
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    def data_received(self, data: bytes) -> None:
        """Take what came: first the preface, then frames."""
        try:
            if self._session < 0:
                data = self._take_preface(data)
            for frame in self._frames.feed(data):
                self._receive(frame)
        except (NotOurs, InvalidFrame, *CANNOT_DECODE) as error:
            self._refuse(error)

    def _receive(self, frame: BytesLike) -> None:
        try:
            messages = decode_messages(frame)
        except msgspec.ValidationError:
            messages, malformed = decode_readable(frame)
            _log.warning("%s asked what cannot be read: %s", self._peer, malformed[0].message)
            for reply in malformed:
                self.answer(reply)
        self._sessions.receive(self._session, messages)

    def _with_malformed(self, encodable: list[Message], malformed: list[Malformed]) -> list[Message]:
        _log.error("an answer to %s is lost: %s", self._peer, malformed[0].message)
        return [*encodable, *malformed]

    def _take_preface(self, data: bytes) -> bytes:
        self._preface += data
        if len(self._preface) < PREFACE_BYTES:
            return b""
        preface, rest = self._preface[:PREFACE_BYTES], self._preface[PREFACE_BYTES:]
        self._preface = b""
        check_preface(preface, self._token)
        self._session = self._sessions.begin(self)
        assert self._transport is not None
        self._transport.write(encode_welcome(Welcome(self._session, self._node_id, self._incarnation)))
        return rest

    def answer(self, reply: Message) -> None:
        """Send an answer with all others of this turn."""
        self._outbox.append(reply)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._turn.flush(self._flush)

    def pause_writing(self) -> None:
        """Stop reading as well: its questions would only add to the answers that it does not take."""
        super().pause_writing()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection, so that the asker does not wait."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's name for it
        """End the session."""
        self._transport = None
        self._outbox = []
        self._sessions.end(self._session)


class DirectClient(_Connection):
    """The asking end of a connection."""

    def __init__(self, token: bytes, turn: Turn, *, timeout_s: float, traffic: Traffic | None = None) -> None:
        super().__init__(turn)
        self._token = token
        self._traffic = traffic or Traffic()
        self._timeout_s = timeout_s
        self._link: Link | None = None
        self._closed: Exception | None = None
        self.welcomed: asyncio.Future[tuple[Welcome, Link]] = turn.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who we are."""
        super().connection_made(transport)
        assert self._transport is not None
        self._transport.write(encode_preface(self._token))

    def data_received(self, data: bytes) -> None:
        """Take what came: first the welcome, then answers."""
        self._traffic.received_bytes += len(data)
        try:
            for frame in self._frames.feed(data):
                if self._link is None:
                    self._take_welcome(decode_welcome(frame))
                else:
                    self._link.received(decode_messages(frame))
        except (InvalidFrame, *CANNOT_DECODE) as error:
            self._refuse(error)

    def _take_welcome(self, welcome: Welcome) -> None:
        self._link = Link(self._turn, welcome.session, self._ask, timeout_s=self._timeout_s)
        if not self.welcomed.done():
            self.welcomed.set_result((welcome, self._link))

    def _ask(self, questions: list[Message]) -> None:
        self._traffic.questions += len(questions)
        self._send(questions)

    def _with_malformed(self, encodable: list[Message], malformed: list[Malformed]) -> list[Message]:
        assert self._link is not None, "nothing is asked before the welcome"
        self._link.received(malformed)
        return encodable

    def _write(self, transport: asyncio.Transport, frame: bytes) -> None:
        self._traffic.frames += 1
        self._traffic.sent_bytes += len(frame)
        transport.write(frame)

    def connection_lost(self, error: Exception | None) -> None:
        """Answer every open question with None."""
        self._transport = None
        if self._link is not None:
            self._link.break_off()
        if not self.welcomed.done():
            self.welcomed.set_exception(ConnectionError(f"the listener closed the connection: {error or 'refused'}"))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()


async def connect(
    host: str,
    port: int,
    token: bytes,
    turn: Turn,
    *,
    node_id: int,
    timeout_s: float,
    traffic: Traffic | None = None,
) -> tuple[DirectClient, Link]:
    """Open a link to a node's listener; raises OSError, also where another node answers there."""
    _, client = await turn.loop.create_connection(
        lambda: DirectClient(token, turn, timeout_s=timeout_s, traffic=traffic), host, port
    )
    try:
        welcome, link = await client.welcomed
    except BaseException:
        # A caller that gave up waiting would leave the connection open behind it.
        client.close()
        raise
    if welcome.node_id != node_id:
        client.close()
        raise ConnectionError(f"node {welcome.node_id} listens at {host}:{port}, where node {node_id} was")
    return client, link
