"""The `Peers` port: how a question reaches the node that answers it, whichever lane it takes."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from eagleray.actors.lanes import direct, ray_lane
from eagleray.actors.lanes.link import Fields, Link, OnReply, Reply, RequestType
from eagleray.actors.lanes.local import LocalSession
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.traffic import Traffic
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.metadata.nodes import NodeRegistration

_log = logging.getLogger(__name__)

_CONNECT_S: Final = 2.0
_ATTACH_S: Final = 10.0
_BACKOFF_S: Final = 0.05
_REACH_S: Final = 1.0
"""How long a node that runs, as Ray says, is tried before its port counts as one that cannot be reached."""

_SILENT_S: Final = 1.0
_SILENT_AGAIN_S: Final = 0.5
_LOOK_S: Final = 0.05
"""How much time is between two looks at what has waited for too long, at the least."""

HOW_TO_REACH: Final = 'open the port, or take Ray\'s lane with lane="ray"'


class Unanswered(Exception):
    """No answer came; what was asked may have been done or not, and asking again is safe."""


class Unreachable(Unanswered):
    """A node runs, and its port cannot be reached from here: nothing was asked of it."""


class Lane(enum.StrEnum):
    """Which lane to take to another process."""

    DIRECT = "direct"
    RAY = "ray"


class Endpoint(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


_Question: TypeAlias = tuple[OnReply[Any] | None, Callable[[Link], None]]
"""The callback for the answer, and what asks once a link is open."""


class Peers:
    """Asks nodes by number. One link to each, opened with the first question and again after it broke.

    Owns: the links, and the questions that wait for one to open. Promises: every question is answered once, with None
    where no answer comes, and never before `ask` has returned. The local lane is taken to a node of this process, and
    to others the lane that was chosen, never another. For the direct lane, Ray is asked where a node listens that is
    not known, or does not answer where it was; `why_unreachable` says which port cannot be reached.
    """

    def __init__(
        self,
        *,
        token: bytes,
        actor_of: Callable[[int], Any] | None = None,
        lane: Lane = Lane.DIRECT,
        timeout_s: float = 30.0,
        turn: Turn | None = None,
    ) -> None:
        """Ask with a cluster's token; `actor_of` finds the handle of a node's actor and raises where there is none."""
        self._loop = asyncio.get_running_loop()
        self.turn = turn or Turn(self._loop)
        self._token = token
        self._actor_of = actor_of
        self._lane = lane
        self._timeout_s = timeout_s
        self._addresses: dict[int, Endpoint] = {}
        self._last_errors: dict[int, str] = {}
        self._unreachable: dict[int, str] = {}
        self._ways: dict[int, Link | LocalSession] = {}
        """By what each node is asked: the links, and the nodes of this process."""
        self._links: dict[int, Link] = {}
        self._closing: dict[int, Callable[[], None]] = {}
        self._opening: dict[int, list[_Question]] = {}
        self._opening_since: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.traffic = Traffic()
        self.on_silence: Callable[[], None] | None = None
        """Called again and again while a node lets an asker wait; it may be gone, or have much to do.

        It is set before the first question.
        """

        self._hears_malformed = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def hears_malformed(self) -> bool:
        """Whether a question that cannot be carried is answered with `Malformed`, and not as one without an answer."""
        return self._hears_malformed

    @hears_malformed.setter
    def hears_malformed(self, hears: bool) -> None:
        self._hears_malformed = hears
        for link in self._links.values():
            link.hears_malformed = hears

    def learn(self, nodes: Mapping[int, Endpoint | NodeRegistration]) -> None:
        """Take the addresses of nodes."""
        for node_id, node in nodes.items():
            self._addresses[node_id] = Endpoint(node.host, node.port)

    def forget(self, node_ids: Iterable[int]) -> None:
        """Give up the links to nodes that are gone: open questions to them are answered with None at once.

        The next question to such a node opens another link.
        """
        for node_id in node_ids:
            self._unreachable.pop(node_id, None)
            link, close = self._links.get(node_id), self._closing.get(node_id)
            if link is not None and close is not None:
                link.break_off()
                close()
            for on_reply, _ in self._opening.get(node_id, ()):
                self._answer_none(on_reply)
            if node_id in self._opening:
                self._opening[node_id] = []

    def add_local(self, node_id: int, sessions: Sessions) -> None:
        """Take the local lane to a node of this process."""
        self._ways[node_id] = LocalSession(sessions, self._loop)

    def lane_to(self, node_id: int) -> str:
        """Which lane is open to a node, for operators."""
        if node_id in self._links:
            return self._lane
        return "local" if node_id in self._ways else "none"

    def why_unreachable(self, node_id: int) -> str | None:
        """Say which port of a node cannot be reached although the node runs, and why; None where that is not so."""
        return self._unreachable.get(node_id)

    # Asking

    def ask(
        self,
        node_id: int,
        on_reply: OnReply[Reply] | None,
        message_type: RequestType[Fields, Reply],
        /,
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask a node, or tell it something; without `on_reply` the answer is dropped.

        `fields` are those behind the request id of the message.
        """
        way = self._ways.get(node_id)
        if way is not None and not way.is_broken:
            way.ask(on_reply, message_type, *fields, **named)
        elif self._is_closed:
            self._answer_none(on_reply)
            return
        else:
            self._ask_when_open(node_id, (on_reply, lambda link: link.ask(on_reply, message_type, *fields, **named)))
        if self._alarm is None and on_reply is not None:
            self._set_alarm()

    def gather(self, node_id: int, ask: Callable[[], None]) -> None:
        """Call `ask` once, right before what is asked of the node in this turn goes out."""
        link = self._links.get(node_id)
        if link is not None and not link.is_broken:
            link.gather(ask)
        else:
            self.turn.act(ask)

    async def call(
        self, node_id: int, message_type: RequestType[Fields, Reply], /, *fields: Fields.args, **named: Fields.kwargs
    ) -> Reply:
        """Ask a node and wait for the answer; raises Unanswered, and Unreachable where its port is the reason."""
        answered: asyncio.Future[Reply | None] = self._loop.create_future()

        def on_reply(reply: Reply | None) -> None:
            if not answered.done():
                answered.set_result(reply)

        self.ask(node_id, on_reply, message_type, *fields, **named)
        reply = await answered
        if reply is None:
            unreachable = self.why_unreachable(node_id)
            if unreachable is not None:
                raise Unreachable(unreachable)
            name = getattr(message_type, "__name__", str(message_type))
            raise Unanswered(f"node {node_id} did not answer {name}")
        return reply

    # Opening links

    def _ask_when_open(self, node_id: int, question: _Question) -> None:
        if node_id not in self._opening:
            self._opening[node_id] = []
            self._opening_since[node_id] = self._loop.time()
            self._start(self._open(node_id))
        self._opening[node_id].append(question)

    async def _open(self, node_id: int) -> None:
        is_by_ray = self._lane is Lane.RAY
        is_open = await (self._open_ray(node_id) if is_by_ray else self._open_by_address(node_id))
        if not is_open:
            # An asker that is answered with None asks again; this keeps it from doing so without a pause.
            await asyncio.sleep(_BACKOFF_S)
        for on_reply, ask in self._opening.pop(node_id, ()):
            if is_open:
                ask(self._links[node_id])
                if self._alarm is None:
                    self._set_alarm()
            else:
                self._answer_none(on_reply)

    def _answer_none(self, on_reply: OnReply[Any] | None) -> None:
        if on_reply is not None:
            self._loop.call_soon(on_reply, None)

    async def _open_by_address(self, node_id: int) -> bool:
        """Connect to where a node is known to listen; where nothing answers there, ask Ray where that is by now.

        Meanwhile the node is tried again: one that was killed listens up to two seconds before Ray answers for it.
        """
        if await self._open_direct(node_id):
            return True
        if self._actor_of is None:
            return False
        asking = self._loop.create_task(self._ask_address(node_id))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_BACKOFF_S)
                if not asking.done() and await self._open_direct(node_id):
                    return True
            address = asking.result()
        finally:
            asking.cancel()
        if address is None:
            self._unreachable.pop(node_id, None)
            return False
        return await self._open_at(node_id, address)

    async def _ask_address(self, node_id: int) -> Endpoint | None:
        assert self._actor_of is not None, "an asker outside of Ray does not ask it"
        try:
            async with asyncio.timeout(_ATTACH_S):
                host, port, _ = await self._actor_of(node_id).contact.remote()
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, there is no address
            _log.info("Ray does not say where node %s listens: %s", node_id, type(error).__name__)
            return None
        return Endpoint(host, port)

    async def _open_at(self, node_id: int, address: Endpoint) -> bool:
        """Connect to a node that runs; where that does not succeed soon, its port cannot be reached."""
        deadline = self._loop.time() + _REACH_S
        while True:
            # The metadata may be older than what Ray says.
            self._addresses[node_id] = address
            if await self._open_direct(node_id):
                return True
            if self._loop.time() >= deadline:
                self._found_unreachable(node_id, address)
                return False
            await asyncio.sleep(_BACKOFF_S)

    def _found_unreachable(self, node_id: int, address: Endpoint) -> None:
        why = f"node {node_id} runs, but cannot be reached at {address} from here ({self._last_errors[node_id]})"
        if node_id not in self._unreachable:
            _log.error("%s: %s", why, HOW_TO_REACH)
        self._unreachable[node_id] = why

    async def _open_direct(self, node_id: int) -> bool:
        address = self._addresses.get(node_id)
        if address is None:
            return False
        try:
            async with asyncio.timeout(_CONNECT_S):
                client, link = await direct.connect(
                    *address, self._token, self.turn, node_id=node_id, timeout_s=self._timeout_s, traffic=self.traffic
                )
        except (OSError, TimeoutError) as error:
            self._last_errors[node_id] = str(error) or f"nothing answered within {_CONNECT_S:g} s"
            _log.info("no connection to node %s at %s: %s", node_id, address, self._last_errors[node_id])
            return False
        self._take(node_id, link, client.close)
        self._unreachable.pop(node_id, None)
        return True

    async def _open_ray(self, node_id: int) -> bool:
        if self._actor_of is None:
            return False
        try:
            async with asyncio.timeout(_ATTACH_S):
                client = await ray_lane.attach(self._actor_of(node_id), self.turn, timeout_s=self._timeout_s)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, there is no lane
            _log.info("no Ray lane to node %s: %s", node_id, type(error).__name__)
            return False
        self._take(node_id, client.link, client.close)
        return True

    def _take(self, node_id: int, link: Link, close: Callable[[], None]) -> None:
        if self._is_closed:
            close()
        link.hears_malformed = self._hears_malformed
        self._links[node_id] = self._ways[node_id] = link
        self._closing[node_id] = close

    # Time

    def _set_alarm(self) -> None:
        # Nothing that is open is due before this; what is asked later is due later.
        delay_s = self._timeout_s if self.on_silence is None else min(_SILENT_S, self._timeout_s)
        self._alarm = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        """Answer what has waited for too long, and tell of silence; look again when the next of both is due.

        Where no question is open, nothing is due, and the next question has it looked again.
        """
        self._alarm = None
        now = self._loop.time()
        for link in self._links.values():
            link.expire()
        due = [at for link in self._links.values() if (at := link.expires_at) is not None]
        waiting_since = self._waiting_since() if self.on_silence is not None else None
        is_silent = waiting_since is not None and now - waiting_since >= _SILENT_S
        if waiting_since is not None:
            due.append(now + _SILENT_AGAIN_S if is_silent else waiting_since + _SILENT_S)
        if due:
            self._alarm = self._loop.call_at(max(min(due), now + _LOOK_S), self._look)
        if is_silent and self.on_silence is not None:
            self.on_silence()

    def _waiting_since(self) -> float | None:
        """Since when an asker has waited for an answer, or for a lane: one to a lost machine opens slowly."""
        since = [at for link in self._links.values() if (at := link.waiting_since) is not None]
        since += [self._opening_since[node_id] for node_id, questions in self._opening.items() if questions]
        return min(since, default=None)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Close every link; open questions are answered with None."""
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        for task in [*self._tasks]:
            task.cancel()
        for way in self._ways.values():
            way.break_off()
        for close in self._closing.values():
            close()
        for questions in self._opening.values():
            for on_reply, _ in questions:
                self._answer_none(on_reply)
        self._opening.clear()
