"""The channel to the controller, which finds by asking which of the voters it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from eagleray.actors.lanes.link import Fields, OnReply, RequestType
from eagleray.actors.lanes.peers import Peers, Unanswered
from eagleray.broker.controller.messages import ControllerReply
from eagleray.protocol.errors import ErrorCode

ControllerAnswer = TypeVar("ControllerAnswer", bound=ControllerReply)

REPLY_TIMEOUT_S: Final = 5.0
"""How long to wait for one node where there are others to ask, unless the caller says otherwise."""

_ASK_ANOTHER: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""The node is not the controller, or ceased to be it before it could say whether something was done."""


class _Question:
    """A request that goes to one node after another, until one of them answers as the controller."""

    __slots__ = ("ask", "attempt", "node_id", "on_reply", "timeout", "tries_left")

    def __init__(self, on_reply: OnReply[Any], ask: Callable[[int, OnReply[Any]], None], tries: int) -> None:
        self.on_reply = on_reply
        self.ask = ask
        self.tries_left = tries
        self.node_id = -1
        self.attempt = 0
        self.timeout: asyncio.TimerHandle | None = None


class ControllerChannel:
    """Asks the controller, which may be any of some nodes.

    Owns: which of them last answered as the controller, and the open requests. Where a node is not the controller, or
    does not answer, the next is asked, until each was asked once; then the reply is None. As soon as another node is
    known to be the controller, open requests to an earlier one are sent there too, because a machine that is gone may
    leave them open for long. Every request that is sent here is safe to repeat. With one node only, its reply is the
    reply.
    """

    def __init__(self, peers: Peers, controllers: Sequence[int], *, reply_timeout_s: float = REPLY_TIMEOUT_S) -> None:
        self._peers = peers
        self._controllers = tuple(controllers)
        self._reply_timeout_s = reply_timeout_s
        self._open: dict[_Question, None] = {}
        self.node_id = self._controllers[0]
        """The node that is asked first."""

    def why_unreachable(self) -> str | None:
        """Return why the port of a node that could be the controller cannot be reached; None where all of them can."""
        reasons = map(self._peers.why_unreachable, self._controllers)
        return next((why for why in reasons if why is not None), None)

    def ask(
        self,
        on_reply: OnReply[ControllerAnswer],
        message_type: RequestType[Fields, ControllerAnswer],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask the controller like `Peers.ask`."""
        self.ask_within(self._reply_timeout_s, on_reply, message_type, *fields, **named)

    def ask_within(
        self,
        reply_timeout_s: float,
        on_reply: OnReply[ControllerAnswer],
        message_type: RequestType[Fields, ControllerAnswer],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask the controller; `reply_timeout_s` is how long the reply of one node may take where there are others."""
        if len(self._controllers) == 1:
            self._peers.ask(self.node_id, on_reply, message_type, *fields, **named)
            return

        def ask(node_id: int, on_reply: OnReply[ControllerAnswer]) -> None:
            self._peers.ask(node_id, on_reply, message_type, *fields, **named)

        question = _Question(on_reply, ask, len(self._controllers))
        self._open[question] = None
        self._try(question, self.node_id, reply_timeout_s)

    async def call(
        self, message_type: RequestType[Fields, ControllerAnswer], *fields: Fields.args, **named: Fields.kwargs
    ) -> ControllerAnswer:
        """Ask the controller and wait for the answer; raises Unanswered."""
        return await self.call_within(self._reply_timeout_s, message_type, *fields, **named)

    async def call_within(
        self,
        reply_timeout_s: float,
        message_type: RequestType[Fields, ControllerAnswer],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> ControllerAnswer:
        """Ask like `ask_within` and wait for the answer; raises Unanswered."""
        answered: asyncio.Future[ControllerAnswer | None] = asyncio.get_running_loop().create_future()

        def on_reply(reply: ControllerAnswer | None) -> None:
            if not answered.done():
                answered.set_result(reply)

        self.ask_within(reply_timeout_s, on_reply, message_type, *fields, **named)
        reply = await answered
        if reply is None:
            name = getattr(message_type, "__name__", str(message_type))
            raise Unanswered(f"no controller answered {name}")
        return reply

    def _try(self, question: _Question, node_id: int, reply_timeout_s: float) -> None:
        question.node_id = node_id
        question.tries_left -= 1
        question.attempt += 1
        attempt = question.attempt

        def on_reply(reply: ControllerReply | None) -> None:
            if attempt == question.attempt and question in self._open:
                self._answered(question, reply, reply_timeout_s)

        loop = asyncio.get_running_loop()
        if question.timeout is not None:
            question.timeout.cancel()
        question.timeout = loop.call_later(reply_timeout_s, on_reply, None)
        question.ask(node_id, on_reply)

    def _answered(self, question: _Question, reply: ControllerReply | None, reply_timeout_s: float) -> None:
        is_answer = reply is not None and not any(reply.says(code) for code in _ASK_ANOTHER)
        if not is_answer and question.tries_left:
            self._try(question, self._after(question.node_id), reply_timeout_s)
            return
        self._close(question)
        if is_answer:
            self._found(question.node_id)
        elif question.node_id == self.node_id or reply is None:
            # No node is the controller at the moment; the next request starts with another one.
            self.node_id = self._after(self.node_id)
        question.on_reply(reply if is_answer else None)

    def _found(self, node_id: int) -> None:
        if node_id == self.node_id:
            return
        self.node_id = node_id
        for question in [each for each in self._open if each.node_id != node_id]:
            question.tries_left = max(question.tries_left, 1)
            self._try(question, node_id, self._reply_timeout_s)

    def _close(self, question: _Question) -> None:
        self._open.pop(question, None)
        if question.timeout is not None:
            question.timeout.cancel()

    def _after(self, node_id: int) -> int:
        place = self._controllers.index(node_id)
        return self._controllers[(place + 1) % len(self._controllers)]
