"""The local lane: the node is in this process, and a question is a function call away."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from eagleray.actors.lanes.link import SESSION_SHIFT, Fields, OnReply, Reply, RequestType
from eagleray.actors.lanes.messages import Misdirected
from eagleray.actors.lanes.sessions import Sessions
from eagleray.broker.messages import Message


class LocalSession:
    """A session of this process with itself: the role that is asked has the question before `ask` returns.

    Owns: the questions that are open. The role answers when it can, never before `ask` has returned. There is no
    timeout: no question gets lost here, and some are meant to wait: a fetch for records, a member of a group for the
    others.
    """

    __slots__ = ("_is_closed", "_loop", "_next_id", "_open", "_receivers")

    is_broken: ClassVar = False
    """No other way has to be opened in its place, as for a link: where it is closed, its node is."""

    peer_host: ClassVar = ""
    """A role of this process asks for a client, whose address is in the question."""

    def __init__(self, sessions: Sessions, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._receivers = sessions.receivers
        self._next_id = sessions.begin(self) << SESSION_SHIFT
        self._open: dict[int, OnReply[Any]] = {}
        self._is_closed = False

    def ask(
        self,
        on_reply: OnReply[Reply] | None,
        message_type: RequestType[Fields, Reply],
        /,
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask a question, or tell something where no answer is waited for."""
        request_id = self._next_id
        self._next_id = request_id + 1
        if on_reply is not None:
            if self._is_closed:
                self._loop.call_soon(on_reply, None)
                return
            self._open[request_id] = on_reply
        message = message_type(request_id, *fields, **named)
        self._receivers[type(message)](message)

    def answer(self, reply: Message) -> None:
        """Hand the answer to the asker."""
        on_reply = self._open.pop(reply.request_id, None)  # type: ignore[attr-defined] # every answer has one
        if on_reply is not None:
            on_reply(None if type(reply) is Misdirected else reply)

    def close(self) -> None:
        """End, with the node."""
        self.break_off()

    def break_off(self) -> None:
        """Answer None to every question that is open, and to later ones."""
        self._is_closed = True
        unanswered, self._open = self._open, {}
        for on_reply in unanswered.values():
            self._loop.call_soon(on_reply, None)
