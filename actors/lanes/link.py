"""One way to one node that is open: what was asked on it, and who waits for the answers."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from eagleray.actors.lanes.messages import Malformed, Misdirected
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.messages import Message, RequestOf

_log = logging.getLogger(__name__)

Reply = TypeVar("Reply")
Fields = ParamSpec("Fields")

OnReply: TypeAlias = Callable[[Reply | None], None]
"""Takes the answer, or None where none came: what was asked may have been done or not."""

RequestType: TypeAlias = Callable[Concatenate[int, Fields], RequestOf[Reply]]
"""The class of a question: it takes a request id, and the fields behind it."""

SESSION_SHIFT: Final = 32
"""A request id is the number of a session, shifted by this, and a count within it."""

_SHARED: Final = 1 / 60
"""Questions share a deadline that go out within this part of the timeout; so much longer one of them may wait."""


class Link:
    """What is asked within one turn of the loop goes out together; an answer finds the callback of its question.

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
        "_turn",
        "_waiting_since",
        "_window_ends_at",
        "hears_malformed",
        "is_broken",
    )

    def __init__(
        self,
        turn: Turn,
        session: int,
        send: Callable[[list[Message]], None],
        *,
        timeout_s: float,
    ) -> None:
        self._turn = turn
        self._loop = turn.loop
        self._send = send
        self._timeout_s = timeout_s
        self._next_id = session << SESSION_SHIFT
        self._open: dict[int, OnReply[Any]] = {}
        self._deadlines: deque[tuple[float, int]] = deque()
        self._window_ends_at = 0.0
        self._outbox: list[Message] = []
        self._gathering: list[Callable[[], None]] = []
        self._is_scheduled = False
        self._waiting_since = self._loop.time()
        self.is_broken = False
        self.hears_malformed = False
        """Whether the askers take `Malformed` for an answer; to others it is a question without one."""

    def __len__(self) -> int:
        return len(self._open)

    def ask(
        self,
        on_reply: OnReply[Reply] | None,
        message_type: RequestType[Fields, Reply],
        /,
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask a question, or tell something; without `on_reply` the answer is dropped.

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
        self._outbox.append(message_type(request_id, *fields, **named))
        if not self._is_scheduled:
            self._schedule()

    def gather(self, ask: Callable[[], None]) -> None:
        """Call `ask` right before what is asked in this turn goes out, when the asker knows everything that it wants.

        It is called once, even if the link breaks before.
        """
        self._gathering.append(ask)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._turn.flush(self._flush)

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
        self._set_deadline()
        self._send(outbox)

    def _set_deadline(self) -> None:
        """Give all that has been asked a deadline, one for what goes out within a small part of the timeout."""
        now = self._loop.time()
        if self._deadlines and now < self._window_ends_at:
            self._deadlines[-1] = (self._deadlines[-1][0], self._next_id)
            return
        self._window_ends_at = now + self._timeout_s * _SHARED
        self._deadlines.append((self._window_ends_at + self._timeout_s, self._next_id))

    def received(self, replies: Sequence[Message]) -> None:
        """Call the callbacks of the questions; an answer that comes after its question's deadline is dropped."""
        self._waiting_since = self._loop.time()
        take = self._open.pop
        for reply in replies:
            on_reply = take(reply.request_id, None)  # type: ignore[attr-defined] # every answer has one
            if on_reply is None:
                continue
            if type(reply) is Malformed and not self.hears_malformed:
                _log.error("a question was not carried: %s", reply.message)
                on_reply(None)
            else:
                on_reply(None if type(reply) is Misdirected else reply)

    @property
    def waiting_since(self) -> float | None:
        """Since when an asker has waited and none was answered; None where no asker waits."""
        return self._waiting_since if self._open and not self.is_broken else None

    @property
    def expires_at(self) -> float | None:
        """When the oldest open question has waited for too long; None where none is open."""
        oldest = next(iter(self._open), None)
        if oldest is None:
            self._deadlines.clear()
            return None
        while self._deadlines and self._deadlines[0][1] <= oldest:
            self._deadlines.popleft()
        # A question that has not gone out yet has all of its time.
        return self._deadlines[0][0] if self._deadlines else self._loop.time() + self._timeout_s

    def expire(self) -> None:
        """Answer None to what has been open for too long; called when the first of it has."""
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
        """Give up: no question gets an answer by this link any more."""
        if self.is_broken:
            return
        self.is_broken = True
        unanswered, self._open = self._open, {}
        self._outbox = []
        for on_reply in unanswered.values():
            self._loop.call_soon(on_reply, None)
