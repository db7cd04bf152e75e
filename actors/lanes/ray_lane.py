"""The Ray lane: actor calls that each carry as many messages as have gathered, where lane="ray" chooses it.

Two calls make a lane. `exchange` brings questions and takes back the answers that are there when they have been dealt
with. What is answered later (a long poll, a question that had to wait) is fetched by `collect`, of which one call waits
at the node as long as anything is open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, ClassVar, Final, Protocol

import msgspec

from eagleray.actors.lanes.frames import (
    CANNOT_ENCODE,
    decode_messages,
    decode_readable,
    encode_messages,
    split_encodable,
)
from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.messages import Message

_log = logging.getLogger(__name__)

_CALLS_IN_FLIGHT: Final = 2
_COLLECT_S: Final = 2.0


class UnknownSession(Exception):
    """The node has begun anew since the session was opened, or has given it up."""


class RaySession:
    """A node's end of the lane: answers wait here until a call fetches them."""

    peer_host: ClassVar = ""
    """Ray does not say where a call comes from; the client says it itself."""

    def __init__(self) -> None:
        self._answers: list[Message] = []
        self._arrived = asyncio.Event()
        self.used_at = 0.0

    def answer(self, reply: Message) -> None:
        """Keep an answer for the next call."""
        self._answers.append(reply)
        self._arrived.set()

    def close(self) -> None:
        """Wake the call that waits; the next one is told that there is no such session."""
        self._arrived.set()

    def take(self) -> bytes:
        """Give the answers that are there."""
        answers, self._answers = self._answers, []
        self._arrived.clear()
        try:
            return encode_messages(answers)
        except CANNOT_ENCODE:
            encodable, malformed = split_encodable(answers)
            return encode_messages([*encodable, *malformed])

    async def wait(self) -> None:
        """Return when there is an answer, or none has come for a while."""
        try:
            async with asyncio.timeout(_COLLECT_S):
                await self._arrived.wait()
        except TimeoutError:
            pass


class RayLane:
    """The node's side of all sessions by actor call; an actor has these three methods as its own."""

    def __init__(self, sessions: Sessions, *, idle_s: float = 120.0) -> None:
        self._sessions = sessions
        self._idle_s = idle_s
        self._open: dict[int, RaySession] = {}

    def attach(self) -> int:
        """Begin a session; those that have not been used for long are ended."""
        now = asyncio.get_running_loop().time()
        for number in [number for number, session in self._open.items() if now - session.used_at > self._idle_s]:
            self._sessions.end(number)
            del self._open[number]
        session = RaySession()
        session.used_at = now
        number = self._sessions.begin(session)
        self._open[number] = session
        return number

    async def exchange(self, number: int, payload: bytes) -> bytes:
        """Take questions; give the answers that are there once these have been dealt with."""
        session = self._used(number)
        try:
            messages = decode_messages(payload)
        except msgspec.ValidationError:
            messages, malformed = decode_readable(payload)
            for reply in malformed:
                session.answer(reply)
        self._sessions.receive(number, messages)
        # The turn of the process, in which the roles take what they were asked, comes first.
        await asyncio.sleep(0)
        return session.take()

    async def collect(self, number: int) -> bytes:
        """Give answers as soon as there are some."""
        session = self._used(number)
        await session.wait()
        return session.take()

    def _used(self, number: int) -> RaySession:
        session = self._open.get(number)
        if session is None:
            raise UnknownSession(f"session {number} is not of this incarnation of the node")
        session.used_at = asyncio.get_running_loop().time()
        return session


class RemoteMethod(Protocol):
    """A method of an actor, as its handle has it."""

    def remote(self, *arguments: object) -> Awaitable[Any]:
        """Call it."""


class NodeHandle(Protocol):
    """The handle of a node's actor, as far as the lane needs it; the methods are those of `RayLane`."""

    attach: RemoteMethod
    exchange: RemoteMethod
    collect: RemoteMethod


class RayClient:
    """The asking end: a few calls in flight, and what is asked meanwhile joins the next."""

    def __init__(self, actor: NodeHandle, session: int, turn: Turn, *, timeout_s: float) -> None:
        self._loop = turn.loop
        self._actor = actor
        self._session = session
        self._outbox: list[Message] = []
        self._in_flight = 0
        self._is_collecting = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.link = Link(turn, session, self._send, timeout_s=timeout_s)

    def _send(self, messages: list[Message]) -> None:
        self._outbox += messages
        self._pump()

    def _pump(self) -> None:
        if self.link.is_broken:
            return
        if self._outbox and self._in_flight < _CALLS_IN_FLIGHT:
            outbox, self._outbox = self._outbox, []
            self._in_flight += 1
            self._start(self._exchange(self._encoded(outbox)))
        elif len(self.link) and not self._outbox and not self._in_flight and not self._is_collecting:
            self._is_collecting = True
            self._start(self._collect())

    def _encoded(self, outbox: list[Message]) -> bytes:
        try:
            return encode_messages(outbox)
        except CANNOT_ENCODE:
            encodable, malformed = split_encodable(outbox)
            self.link.received(malformed)
            return encode_messages(encodable)

    def _start(self, call: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, payload: bytes) -> None:
        await self._call(self._actor.exchange, payload)
        self._in_flight -= 1
        self._pump()

    async def _collect(self) -> None:
        await self._call(self._actor.collect)
        self._is_collecting = False
        self._pump()

    async def _call(self, method: RemoteMethod, *arguments: object) -> None:
        try:
            replies = decode_messages(await method.remote(self._session, *arguments))
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, or an answer that cannot be read
            _log.info("the Ray lane of session %s broke: %s", self._session, type(error).__name__)
            self.link.break_off()
            return
        self.link.received(replies)

    def close(self) -> None:
        """Stop; calls in flight are left to end by themselves."""
        self.link.break_off()


async def attach(actor: NodeHandle, turn: Turn, *, timeout_s: float) -> RayClient:
    """Open a link to a node by actor calls; raises what Ray raises where the actor does not answer."""
    return RayClient(actor, await actor.attach.remote(), turn, timeout_s=timeout_s)
