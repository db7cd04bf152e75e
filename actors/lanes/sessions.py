"""The receiving end of all lanes: who has a session with this node, and where its answers go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from eagleray.actors.lanes.link import session_of
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.messages import Misdirected
from eagleray.broker.messages import Message

Receiver: TypeAlias = Callable[[Message], None]


class Session(Protocol):
    """Somebody who asks this node."""

    def answer(self, reply: Message) -> None:
        """Take an answer; it may go out with others, at the end of the turn."""

    def close(self) -> None:
        """Let the asker know that no more answers come."""


class Sessions:
    """Gives what comes in to the role that it is for, and what goes out to the session that it is for.

    Owns: the sessions by number. A number is never used twice in the life of a process, and another process begins
    elsewhere, so an answer cannot reach a stranger. An answer for a session that has ended is dropped: its asker has
    been told that none came.
    """

    def __init__(self, receivers: Mapping[type, Receiver], turn: Turn, first_session: int) -> None:
        self._receivers = receivers
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

    def receive(self, messages: Sequence[Message]) -> None:
        """Hand messages to the roles that they are for."""
        for message in messages:
            self.receive_one(message)

    def receive_one(self, message: Message) -> None:
        """Hand a message to the role that it is for, or say in the next turn that there is none."""
        receiver = self._receivers.get(type(message))
        if receiver is None:
            misdirected = Misdirected(message.request_id)  # type: ignore[attr-defined] # every question has one
            self._turn.act(partial(self.answer, misdirected))
        else:
            receiver(message)

    def answer(self, reply: Any) -> None:  # noqa: ANN401 - any message that begins with a request id
        """Hand an answer to the session that asked."""
        session = self._sessions.get(session_of(reply.request_id))
        if session is not None:
            session.answer(reply)
