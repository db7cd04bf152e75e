"""Which of the nodes that could be the controller is it: whoever asks it finds out by asking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from eagleray.actors.lanes.link import Fields, OnReply, Reply, RequestType
from eagleray.actors.lanes.peers import Peers, Unanswered
from eagleray.actors.not_controller import says_not_controller
from eagleray.broker.messages import Message

PATIENCE_S: Final = 5.0
"""How long one node is waited for, where there are others to ask, by whoever does not say otherwise."""


class _Question:
    """Something that is asked of one node after another, until one of them answers as the controller."""

    __slots__ = ("ask", "attempt", "node_id", "on_reply", "patience", "tries_left")

    def __init__(self, on_reply: OnReply[Any], ask: Callable[[int, OnReply[Any]], None], tries: int) -> None:
        self.on_reply = on_reply
        self.ask = ask
        self.tries_left = tries
        self.node_id = -1
        self.attempt = 0
        self.patience: asyncio.TimerHandle | None = None


class ControllerFinder:
    """Asks the controller, which may be any of some nodes.

    Owns: which of them answered as the controller last, and what is being asked. A node that says that it is not the
    controller, or does not answer, is followed by the next, until each was asked once; then the answer is None. As
    soon as another node is known to be the controller, whoever still waits for an earlier one is sent there: a
    machine that is gone may leave questions open for long. Asking again is safe for everything that is asked here.
    With one node only, it is asked, and its answer is the answer.
    """

    def __init__(self, peers: Peers, controllers: Sequence[int], *, patience_s: float = PATIENCE_S) -> None:
        self._peers = peers
        self._controllers = tuple(controllers)
        self._patience_s = patience_s
        self._open: dict[_Question, None] = {}
        self.node_id = self._controllers[0]
        """The node that is asked first."""

    def why_unreachable(self) -> str | None:
        """Say of a node that could be the controller why its port cannot be reached; None where all of them can."""
        reasons = map(self._peers.why_unreachable, self._controllers)
        return next((why for why in reasons if why is not None), None)

    def ask(
        self,
        on_reply: OnReply[Reply],
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask the controller like `Peers.ask`."""
        self.ask_within(self._patience_s, on_reply, message_type, *fields, **named)

    def ask_within(
        self,
        patience_s: float,
        on_reply: OnReply[Reply],
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask the controller; `patience_s` is how long the answer of one node may take where there are others."""
        if len(self._controllers) == 1:
            self._peers.ask(self.node_id, on_reply, message_type, *fields, **named)
            return

        def ask(node_id: int, on_reply: OnReply[Reply]) -> None:
            self._peers.ask(node_id, on_reply, message_type, *fields, **named)

        question = _Question(on_reply, ask, len(self._controllers))
        self._open[question] = None
        self._try(question, self.node_id, patience_s)

    async def call(
        self, message_type: RequestType[Fields, Reply], *fields: Fields.args, **named: Fields.kwargs
    ) -> Reply:
        """Ask the controller and wait for the answer; raises Unanswered."""
        return await self.call_within(self._patience_s, message_type, *fields, **named)

    async def call_within(
        self,
        patience_s: float,
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> Reply:
        """Ask like `ask_within` and wait for the answer; raises Unanswered."""
        answered: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

        def on_reply(reply: Reply | None) -> None:
            if not answered.done():
                answered.set_result(reply)

        self.ask_within(patience_s, on_reply, message_type, *fields, **named)
        reply = await answered
        if reply is None:
            name = getattr(message_type, "__name__", str(message_type))
            raise Unanswered(f"no controller answered {name}")
        return reply

    def _try(self, question: _Question, node_id: int, patience_s: float) -> None:
        question.node_id = node_id
        question.tries_left -= 1
        question.attempt += 1
        attempt = question.attempt

        def on_reply(reply: Message | None) -> None:
            if attempt == question.attempt and question in self._open:
                self._answered(question, reply, patience_s)

        loop = asyncio.get_running_loop()
        if question.patience is not None:
            question.patience.cancel()
        question.patience = loop.call_later(patience_s, on_reply, None)
        question.ask(node_id, on_reply)

    def _answered(self, question: _Question, reply: Message | None, patience_s: float) -> None:
        is_answer = reply is not None and not says_not_controller(reply)
        if not is_answer and question.tries_left:
            self._try(question, self._after(question.node_id), patience_s)
            return
        self._close(question)
        if is_answer:
            self._found(question.node_id)
        elif question.node_id == self.node_id or reply is None:
            # Nobody is the controller at the moment; the next who asks begins elsewhere.
            self.node_id = self._after(self.node_id)
        question.on_reply(reply if is_answer else None)

    def _found(self, node_id: int) -> None:
        if node_id == self.node_id:
            return
        self.node_id = node_id
        for question in [each for each in self._open if each.node_id != node_id]:
            question.tries_left = max(question.tries_left, 1)
            self._try(question, node_id, self._patience_s)

    def _close(self, question: _Question) -> None:
        self._open.pop(question, None)
        if question.patience is not None:
            question.patience.cancel()

    def _after(self, node_id: int) -> int:
        place = self._controllers.index(node_id)
        return self._controllers[(place + 1) % len(self._controllers)]
