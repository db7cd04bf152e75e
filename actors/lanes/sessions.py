"""The receiving end of all lanes: who has a session with this node, and where its answers go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from eagleray.actors.lanes.frames import NotOurs
from eagleray.actors.lanes.link import SESSION_SHIFT
from eagleray.actors.lanes.messages import Misdirected
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.messages import Message

Receiver: TypeAlias = Callable[[Message], None]


class Session(Protocol):
    """A client or a node that asks this node."""

    @property
    def peer_host(self) -> str:
        """The address that its questions come from; empty where the lane does not know it."""

    def answer(self, reply: Message) -> None:
        """Take an answer; it may go out with others, at the end of the turn."""

    def close(self) -> None:
        """Let the asker know that no more answers come."""


class Sessions:
    """Gives what comes in to the role that it is for, and what goes out to the session that it is for.

    Owns: the sessions by number. A number is never used twice in the life of a process, and another process begins
    elsewhere, so an answer cannot reach another asker. An answer for a session that has ended is dropped: its asker has
    been told that none came.
    """

    def __init__(self, receivers: Mapping[type, Receiver], turn: Turn, first_session: int) -> None:
        self.receivers = defaultdict(lambda: self._refuse, receivers)
        self._turn = turn
        self._next = first_session
        self._sessions: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session: int) -> bool:
        return session in self._sessions

    def begin(self, session: Session) -> int:
        """Begin a session; return its number."""
        number = self._next
        self._next += 1
        self._sessions[number] = session
        return number

    def end(self, number: int) -> None:
        """End a session."""
        self._sessions.pop(number, None)

    def end_all(self) -> None:
        """End every session: the node goes away."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()

    def receive(self, session: int, messages: Sequence[Message]) -> None:
        """Hand what a session asks to the roles that it is for; raises NotOurs for what another has to be answered."""
        receivers = self.receivers
        for message in messages:
            if message.request_id >> SESSION_SHIFT != session:  # type: ignore[attr-defined] # every question has one
                raise NotOurs(f"session {session} sent a {type(message).__name__} whose answer another would get")
            receivers[type(message)](message)

    def peer_host(self, request_id: int) -> str:
        """Return the address that a question came from; empty where the lane does not know it."""
        session = self._sessions.get(request_id >> SESSION_SHIFT)
        return "" if session is None else session.peer_host

    def _refuse(self, message: Message) -> None:
        misdirected = Misdirected(message.request_id)  # type: ignore[attr-defined] # every question has one
        self._turn.act(partial(self.answer, misdirected))

    def answer(self, reply: Message) -> None:
        """Hand an answer to the session that asked."""
        session = self._sessions.get(reply.request_id >> SESSION_SHIFT)  # type: ignore[attr-defined] # every answer has one
        if session is not None:
            session.answer(reply)
