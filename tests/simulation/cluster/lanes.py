"""Lanes over the simulated network: the real questions and answers, carried by frames that may get lost."""

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import Any

import msgspec

from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.messages import Message
from tests.simulation.cluster.loop import SimulatedLoop
from tests.simulation.network import Network

ANSWER_TIMEOUT_S = 30.0
CONNECT_S = 0.3


class Connect(msgspec.Struct, frozen=True):
    process: int
    link: int


class Accept(msgspec.Struct, frozen=True):
    to_process: int
    link: int
    process: int
    session: int


class Asked(msgspec.Struct, frozen=True):
    """Questions for one process of a node; another one refuses them, as a connection would be."""

    to_process: int
    from_process: int
    link: int
    messages: list[Message]


class Replied(msgspec.Struct, frozen=True):
    to_process: int
    link: int
    messages: list[Message]


class Reset(msgspec.Struct, frozen=True):
    to_process: int
    link: int


class _Session:
    """Somebody who asks a node over the network; what is answered in one turn goes out together."""

    peer_host = "10.0.0.1"

    def __init__(self, endpoint: "Endpoint", asker: object, process: int, link: int) -> None:
        self._endpoint = endpoint
        self._asker = asker
        self._process = process
        self._link = link
        self._outbox: list[Message] = []
        self.number = -1

    def answer(self, reply: Message) -> None:
        if not self._outbox:
            self._endpoint.turn.flush(self._flush)
        self._outbox.append(reply)

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, []
        self._endpoint.send(self._asker, Replied(self._process, self._link, outbox))

    def close(self) -> None:
        self._endpoint.send(self._asker, Reset(self._process, self._link))


class Endpoint:
    """One process at the network: the links that it has opened, and the sessions that others have with it."""

    def __init__(self, network: Network, place: object, process: int, loop: SimulatedLoop) -> None:
        self._network = network
        self._place = place
        self._process = process
        self.loop = loop
        self.turn = Turn(loop)
        self.sessions: Sessions | None = None
        self._links: dict[int, Link] = {}
        self._connecting: dict[int, asyncio.Future[Accept]] = {}
        self._served: dict[tuple[object, int, int], _Session] = {}
        self._link_ids = count(1)

    def send(self, target: object, frame: object) -> None:
        self._network.send(self._place, target, frame)

    async def connect(self, target: object) -> Link | None:
        link_id = next(self._link_ids)
        accepted = self._connecting[link_id] = self.loop.create_future()
        self.send(target, Connect(self._process, link_id))
        try:
            async with asyncio.timeout(CONNECT_S):
                accept = await accepted
        except TimeoutError:
            return None
        finally:
            del self._connecting[link_id]

        def ask(messages: list[Message]) -> None:
            self.send(target, Asked(accept.process, self._process, link_id, messages))

        link = self._links[link_id] = Link(self.turn, accept.session, ask, timeout_s=ANSWER_TIMEOUT_S)
        return link

    def arrive(self, source: object, frame: Any) -> None:
        match frame:
            case Connect() if self.sessions is not None:
                self._accept(source, frame)
            case Asked():
                self._receive(source, frame)
            case Accept() | Replied() | Reset() if frame.to_process != self._process:
                pass
            case Accept():
                waiting = self._connecting.get(frame.link)
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame)
            case Replied() if frame.link in self._links:
                self._links[frame.link].received(frame.messages)
            case Reset() if frame.link in self._links:
                self._links.pop(frame.link).break_off()

    def _accept(self, source: object, frame: Connect) -> None:
        assert self.sessions is not None
        key = source, frame.process, frame.link
        session = self._served.get(key)
        if session is None:
            session = self._served[key] = _Session(self, *key)
            session.number = self.sessions.begin(session)
        self.send(source, Accept(frame.process, frame.link, self._process, session.number))

    def _receive(self, source: object, frame: Asked) -> None:
        if frame.to_process != self._process or self.sessions is None:
            self.send(source, Reset(frame.from_process, frame.link))
        else:
            session = self._served[source, frame.from_process, frame.link]
            self.sessions.receive(session.number, frame.messages)

    def break_link(self, process: int, link_id: int) -> None:
        """Notice that nothing comes through on a link any more."""
        if process == self._process and link_id in self._links:
            self._links.pop(link_id).break_off()

    def hang_up(self) -> None:
        """Tell everybody whom the operating system would tell that this process has ended."""
        for session in self._served.values():
            session.close()


class SimulatedPeers(Peers):
    """The real `Peers`, on lanes over the simulated network, which knows where every node is."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        super().__init__(token=b"", timeout_s=ANSWER_TIMEOUT_S, turn=endpoint.turn)

    async def _open_direct(self, node_id: int) -> bool:
        link = None if node_id < 0 else await self._endpoint.connect(node_id)
        if link is None:
            return False
        self._take(node_id, link, lambda: None)
        return True

    def forget(self, node_ids: Iterable[int]) -> None:
        super().forget(sorted(node_ids))
