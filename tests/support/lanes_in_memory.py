"""Lanes between nodes and clients of one process, on which a test plans what goes wrong."""

import asyncio
import enum
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from eagleray.actors.lanes.frames import decode_messages, encode_messages
from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.process.node import Node
from eagleray.broker.messages import Message

UNANSWERED_S = 0.1
TIMEOUT_S = 30.0


class Fate(enum.Enum):
    """What happens to a question."""

    DELIVERED = enum.auto()
    REQUEST_LOST = enum.auto()
    REPLY_LOST = enum.auto()
    DUPLICATED = enum.auto()
    FORGOTTEN = enum.auto()
    """Neither delivered nor answered, as by a lane that has lost it without a word."""


class Network:
    """Decides over each question; a fault that a test has planned has to be used up by its end.

    What is planned strikes the next question of that kind, whoever asks it; chance, all that crosses the network.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.nodes: dict[int, Node] = {}
        """Every node that runs, which are the ones that can be reached."""
        self.asked: list[Message] = []
        """Every question to a node, whatever became of it."""
        self._planned: list[tuple[type, Fate]] = []
        self.chance: Random | None = None
        self.loss = 0.0
        self.duplication = 0.0
        self.longest_delay_s = 0.0

    def plan(self, kind: type, fate: Fate, times: int = 1) -> None:
        self._planned += [(kind, fate)] * times

    @property
    def unused(self) -> list[tuple[type, Fate]]:
        return self._planned

    def fate_of(self, message: Message, *, crosses: bool) -> Fate:
        for place, (kind, fate) in enumerate(self._planned):
            if kind is type(message):
                del self._planned[place]
                return fate
        if self.chance is None or not crosses:
            return Fate.DELIVERED
        drawn = self.chance.random()
        if drawn < self.loss:
            return self.chance.choice([Fate.REQUEST_LOST, Fate.REPLY_LOST])
        return Fate.DUPLICATED if drawn < self.loss + self.duplication else Fate.DELIVERED

    def delay_s(self, *, crosses: bool) -> float:
        return self.chance.random() * self.longest_delay_s if self.chance is not None and crosses else 0.0

    def after(self, delay_s: float, act: Callable[..., None], *arguments: object) -> None:
        """Do something later; timers of the same moment have no order, so what is not delayed is done at once."""
        if delay_s:
            self.loop.call_later(delay_s, act, *arguments)
        else:
            act(*arguments)


class LaneInMemory:
    """A link to a node of this process, and its session there; all that goes over it is encoded and decoded."""

    peer_host = "10.0.0.1"

    def __init__(self, node: Node, turn: Turn) -> None:
        self._node = node
        self._outbox: list[Message] = []
        self._session = node.sessions.begin(self)
        self.link = Link(turn, self._session, self._carry, timeout_s=TIMEOUT_S)

    def _carry(self, messages: list[Message]) -> None:
        self._node.loop.call_soon(self._node.sessions.receive, self._session, travelled(messages))

    def answer(self, reply: Message) -> None:
        if not self._outbox:
            self._node.turn.flush(self._flush)
        self._outbox.append(reply)

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, []
        self._node.loop.call_soon(self.link.received, travelled(outbox))

    def close(self) -> None:
        """Break, because the node goes away."""
        self.link.break_off()

    def hang_up(self) -> None:
        """End, because the asker goes away."""
        self._node.sessions.end(self._session)


def travelled(messages: list[Message]) -> list[Message]:
    """What messages are on the other side of a connection."""
    return decode_messages(encode_messages(messages))


class PeersInMemory(Peers):
    """The real `Peers`, on lanes in memory, to every node that runs."""

    def __init__(self, network: Network, own_id: int | None = None) -> None:
        super().__init__(token=b"", timeout_s=TIMEOUT_S)
        self._network = network
        self._own_id = own_id
        self.asked: list[Message] = []
        """Every question of this asker."""

    def ask(self, node_id: int, on_reply: Any, message_type: Any, /, *fields: Any, **named: Any) -> None:
        network, crosses = self._network, node_id != self._own_id
        message = message_type(0, *fields, **named)
        self.asked.append(message)
        network.asked.append(message)
        fate = network.fate_of(message, crosses=crosses)
        if fate in (Fate.REQUEST_LOST, Fate.REPLY_LOST):
            self._unanswered(on_reply)
            on_reply = None
        if fate not in (Fate.REQUEST_LOST, Fate.FORGOTTEN):
            delay_s = network.delay_s(crosses=crosses)
            if fate is Fate.DUPLICATED:
                # A copy comes before what it is a copy of.
                again_s = delay_s + network.delay_s(crosses=crosses)
                network.after(again_s, self._ask, node_id, None, message)
            network.after(delay_s, self._ask, node_id, self._heard_later(on_reply, crosses=crosses), message)

    def _ask(self, node_id: int, on_reply: Any, message: Message) -> None:
        super().ask(node_id, on_reply, lambda request_id: msgspec.structs.replace(message, request_id=request_id))

    def _unanswered(self, on_reply: Any) -> None:
        if on_reply is not None:
            self._network.loop.call_later(UNANSWERED_S, on_reply, None)

    def _heard_later(self, on_reply: Any, *, crosses: bool) -> Any:
        if on_reply is None or self._network.chance is None:
            return on_reply

        def heard(reply: Any) -> None:
            self._network.after(self._network.delay_s(crosses=crosses), on_reply, reply)

        return heard

    async def _open_direct(self, node_id: int) -> bool:
        node = self._network.nodes.get(node_id)
        if node is None:
            return False
        lane = LaneInMemory(node, self.turn)
        self._take(node_id, lane.link, lane.hang_up)
        return True
