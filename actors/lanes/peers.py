"""The `Peers` port: how whoever asks reaches whoever answers, whichever lane it takes."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from eagleray.actors.lanes import direct, ray_lane
from eagleray.actors.lanes.link import Link, OnReply
from eagleray.actors.lanes.local import LocalSession
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.traffic import Traffic
from eagleray.broker.messages import Message

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.5
_CONNECT_S: Final = 2.0
_ATTACH_S: Final = 10.0
_BACKOFF_S: Final = 0.05
_SILENT_S: Final = 1.0


class Unanswered(Exception):
    """No answer came; what was asked may have been done or not, and asking again is safe."""


class Lane(enum.StrEnum):
    """Which lane to take to another process."""

    DIRECT = "direct"
    RAY = "ray"


class Address(Protocol):
    """Where a node listens."""

    @property
    def host(self) -> str:
        """The host to connect to."""

    @property
    def port(self) -> int:
        """The port to connect to."""


_Question: TypeAlias = tuple[OnReply | None, Callable[..., Message], tuple[object, ...]]


class Peers:
    """Asks nodes by number. One link to each, opened with the first question and again after it broke.

    Owns: the links, and the questions that wait for one to open. Promises: every question is answered once, with None
    where no answer comes, and never before `ask` has returned. The local lane is taken to a node of this process, the
    direct one to others; where that cannot be opened, the Ray lane, until the direct one can.
    """

    def __init__(
        self,
        *,
        token: bytes,
        actor_of: Callable[[int], Any] | None = None,
        lane: Lane = Lane.DIRECT,
        timeout_s: float = 30.0,
    ) -> None:
        """Ask with a cluster's token; `actor_of` finds the handle of a node's actor and raises where there is none."""
        self._loop = asyncio.get_running_loop()
        self._token = token
        self._actor_of = actor_of
        self._lane = lane
        self._timeout_s = timeout_s
        self._addresses: dict[int, tuple[str, int]] = {}
        self._links: dict[int, Link] = {}
        self._closing: dict[int, Callable[[], None]] = {}
        self._opening: dict[int, list[_Question]] = {}
        self._opening_since: dict[int, float] = {}
        self._fallen_back: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.traffic = Traffic()
        self.on_silence: Callable[[], None] | None = None
        """Called again and again while a node lets somebody wait; it may be gone, or have much to do."""

        self._start(self._tick())

    def learn(self, nodes: Mapping[int, Address]) -> None:
        """Take the addresses of nodes."""
        for node_id, node in nodes.items():
            self._addresses[node_id] = (node.host, node.port)

    def forget(self, node_ids: Iterable[int]) -> None:
        """Give up the links to nodes that are gone: whoever waits for them need not wait until their time is up.

        Whoever asks them again opens another link.
        """
        for node_id in node_ids:
            link, close = self._links.get(node_id), self._closing.get(node_id)
            if link is not None and close is not None:
                link.break_off()
                close()
            for on_reply, _, _ in self._opening.get(node_id, ()):
                self._answer_none(on_reply)
            if node_id in self._opening:
                self._opening[node_id] = []

    def add_local(self, node_id: int, sessions: Sessions) -> None:
        """Take the local lane to a node of this process."""
        self._links[node_id] = LocalSession(sessions, self._loop).link

    def lane_to(self, node_id: int) -> str:
        """Which lane is open to a node, for whoever looks after the system."""
        if node_id not in self._links:
            return "none"
        if node_id not in self._closing:
            return "local"
        return Lane.RAY if self._lane is Lane.RAY or node_id in self._fallen_back else Lane.DIRECT

    # Asking

    def ask(
        self, node_id: int, on_reply: OnReply | None, message_type: Callable[..., Message], *fields: object
    ) -> None:
        """Ask a node, or tell it something where nobody waits for an answer.

        `fields` are those behind the request id of the message.
        """
        link = self._links.get(node_id)
        if link is not None and not link.is_broken:
            link.ask(on_reply, message_type, *fields)
            return
        if self._is_closed:
            self._answer_none(on_reply)
            return
        if node_id not in self._opening:
            self._opening[node_id] = []
            self._opening_since[node_id] = self._loop.time()
            self._start(self._open(node_id))
        self._opening[node_id].append((on_reply, message_type, fields))

    def gather(self, node_id: int, ask: Callable[[], None]) -> None:
        """Call somebody who wants to ask a node, once, right before what is asked in this turn goes out to it."""
        link = self._links.get(node_id)
        if link is not None and not link.is_broken:
            link.gather(ask)
        else:
            self._loop.call_soon(ask)

    async def call(self, node_id: int, message_type: Callable[..., Message], *fields: object) -> Any:  # noqa: ANN401 - the answer that belongs to the message
        """Ask a node and wait for the answer; raises Unanswered."""
        answered: asyncio.Future[Message | None] = self._loop.create_future()

        def on_reply(reply: Message | None) -> None:
            if not answered.done():
                answered.set_result(reply)

        self.ask(node_id, on_reply, message_type, *fields)
        reply = await answered
        if reply is None:
            name = getattr(message_type, "__name__", str(message_type))
            raise Unanswered(f"node {node_id} did not answer {name}")
        return reply

    # Opening links

    async def _open(self, node_id: int) -> None:
        is_open = await self._open_direct(node_id) or await self._open_either(node_id)
        if not is_open:
            # Whoever is told asks again; this keeps it from doing so without a pause.
            await asyncio.sleep(_BACKOFF_S)
        for on_reply, message_type, fields in self._opening.pop(node_id, ()):
            if is_open:
                self._links[node_id].ask(on_reply, message_type, *fields)
            else:
                self._answer_none(on_reply)

    def _answer_none(self, on_reply: OnReply | None) -> None:
        if on_reply is not None:
            self._loop.call_soon(on_reply, None)

    async def _open_direct(self, node_id: int) -> bool:
        address = self._addresses.get(node_id)
        if self._lane is not Lane.DIRECT or address is None:
            return False
        try:
            async with asyncio.timeout(_CONNECT_S):
                client, link = await direct.connect(
                    *address, self._token, node_id=node_id, timeout_s=self._timeout_s, traffic=self.traffic
                )
        except (OSError, TimeoutError) as error:
            _log.info("no direct lane to node %s at %s:%s: %s", node_id, *address, error)
            return False
        self._take(node_id, link, client.close)
        self._fallen_back.discard(node_id)
        return True

    async def _open_either(self, node_id: int) -> bool:
        """Open the Ray lane, or the direct one where that is sooner; False as soon as Ray says that there is no actor.

        A node that was killed listens again up to two seconds before Ray tells those who wait for its actor.
        """
        by_ray = self._loop.create_task(self._open_ray(node_id))
        directly = self._loop.create_task(self._open_direct_soon(node_id))
        try:
            await asyncio.wait({by_ray, directly}, return_when=asyncio.FIRST_COMPLETED)
            return directly.done() or by_ray.result()
        finally:
            by_ray.cancel()
            directly.cancel()

    async def _open_direct_soon(self, node_id: int) -> None:
        """Try until the direct lane is open."""
        while True:
            await asyncio.sleep(_BACKOFF_S)
            if await self._open_direct(node_id):
                return

    async def _open_ray(self, node_id: int) -> bool:
        if self._actor_of is None:
            return False
        try:
            async with asyncio.timeout(_ATTACH_S):
                client = await ray_lane.attach(self._actor_of(node_id), timeout_s=self._timeout_s)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, there is no lane
            _log.info("no Ray lane to node %s: %s", node_id, type(error).__name__)
            return False
        self._take(node_id, client.link, client.close)
        if self._lane is Lane.DIRECT:
            self._fallen_back.add(node_id)
        return True

    def _take(self, node_id: int, link: Link, close: Callable[[], None]) -> None:
        if self._is_closed:
            close()
        self._links[node_id] = link
        self._closing[node_id] = close

    # Time

    async def _tick(self) -> None:
        while not self._is_closed:
            await asyncio.sleep(_TICK_S)
            for link in self._links.values():
                link.expire()
            if self.on_silence is not None and self._is_anybody_silent():
                self.on_silence()
            for node_id in [*self._fallen_back]:
                # The link by Ray goes on until its answers are there; whatever is asked from now on goes direct.
                if node_id not in self._opening:
                    await self._open_direct(node_id)

    def _is_anybody_silent(self) -> bool:
        """Whether somebody has waited for long for an answer, or for a lane: one to a lost machine opens slowly."""
        long_ago = self._loop.time() - _SILENT_S
        is_opening_slowly = any(
            questions and self._opening_since[node_id] < long_ago for node_id, questions in self._opening.items()
        )
        return is_opening_slowly or any(link.is_silent(_SILENT_S) for link in self._links.values())

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Close every link; whoever waits is answered with None."""
        self._is_closed = True
        for task in [*self._tasks]:
            task.cancel()
        for link in self._links.values():
            link.break_off()
        for close in self._closing.values():
            close()
        for questions in self._opening.values():
            for on_reply, _, _ in questions:
                self._answer_none(on_reply)
        self._opening.clear()
