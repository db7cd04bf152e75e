"""One way to one node that is open: what was asked on it, and who waits for the answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from eagleray.actors.messages import Misdirected
from eagleray.broker.messages import Message

OnReply: TypeAlias = Callable[[Message | None], None]
"""Takes the answer, or None where none came: what was asked may have been done or not."""

SESSION_SHIFT: Final = 32
"""A request id is the number of a session, shifted by this, and a count within it."""


def session_of(request_id: int) -> int:
    """The session that a request came by, and that its answer goes back to."""
    return request_id >> SESSION_SHIFT


class Link:
    """What is asked within one turn of the loop goes out together; an answer finds whoever asked.

    Owns: the questions that are open. On failure (`break_off`): each of them is answered with None, once, and later
    questions are too. Neither `ask` nor `break_off` calls back before it returns.
    """

    __slots__ = (
        "_deadlines",
        "_gathering",
        "_is_scheduled",
        "_loop",
        "_next_id",
        "_open",
        "_outbox",
        "_send",
        "_timeout_s",
        "_waiting_since",
        "is_broken",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session: int,
        send: Callable[[list[Message]], None],
        *,
        timeout_s: float | None,
    ) -> None:
        self._loop = loop
        self._send = send
        self._timeout_s = timeout_s
        self._next_id = session << SESSION_SHIFT
        self._open: dict[int, OnReply] = {}
        self._deadlines: deque[tuple[float, int]] = deque()
        self._outbox: list[Message] = []
        self._gathering: list[Callable[[], None]] = []
        self._is_scheduled = False
        self._waiting_since = loop.time()
        self.is_broken = False

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, on_reply: OnReply | None, message_type: Callable[..., Message], *fields: object) -> None:
        """Ask a question, or tell something where nobody waits for an answer.

        `fields` are those behind the message's request id.
        """
        if self.is_broken:
            if on_reply is not None:
                self._loop.call_soon(on_reply, None)
            return
        request_id = self._next_id
        self._next_id = request_id + 1
        if on_reply is not None:
            if not self._open:
                self._waiting_since = self._loop.time()
            self._open[request_id] = on_reply
        self._outbox.append(message_type(request_id, *fields))
        self._schedule()

    def gather(self, ask: Callable[[], None]) -> None:
        """Have somebody ask right before what is asked in this turn goes out, once it knows everything that it wants.

        It is called once, even if the link breaks before.
        """
        self._gathering.append(ask)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        gathering, self._gathering = self._gathering, []
        try:
            for ask in gathering:
                ask()
        finally:
            self._is_scheduled = False
        if self.is_broken or not self._outbox:
            return
        outbox, self._outbox = self._outbox, []
        if self._timeout_s is not None:
            # One deadline stands for all that goes out together.
            self._deadlines.append((self._loop.time() + self._timeout_s, self._next_id))
        self._send(outbox)

    def received(self, replies: Sequence[Message]) -> None:
        """Hand answers to whoever asked; one that nobody waits for any more is dropped."""
        self._waiting_since = self._loop.time()
        take = self._open.pop
        for reply in replies:
            on_reply = take(reply.request_id, None)  # type: ignore[attr-defined] # every answer has one
            if on_reply is not None:
                on_reply(None if type(reply) is Misdirected else reply)

    def is_silent(self, seconds: float) -> bool:
        """Whether somebody has waited for so long, and nobody was answered meanwhile."""
        return bool(self._open) and not self.is_broken and self._loop.time() - self._waiting_since > seconds

    def expire(self) -> None:
        """Answer None to what has been open for too long; called now and then."""
        now = self._loop.time()
        below = -1
        while self._deadlines and self._deadlines[0][0] <= now:
            below = self._deadlines.popleft()[1]
        if below < 0:
            return
        # Questions are kept in the order in which they were asked.
        for request_id in [request_id for request_id in self._open if request_id < below]:
            self._loop.call_soon(self._open.pop(request_id), None)

    def break_off(self) -> None:
        """Give up: nobody gets an answer by this link any more."""
        if self.is_broken:
            return
        self.is_broken = True
        unanswered, self._open = self._open, {}
        self._outbox = []
        for on_reply in unanswered.values():
            self._loop.call_soon(on_reply, None)
