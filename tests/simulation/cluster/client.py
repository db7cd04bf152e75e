"""Whatever talks to a simulated cluster from outside: a process of its own, that asks again until it is answered."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eagleray.actors.lanes.peers import Unanswered
from eagleray.broker.controller.events import GetMetadata
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Message
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from tests.simulation.cluster.lanes import Endpoint, SimulatedPeers
from tests.simulation.cluster.loop import Clock, SimulatedLoop

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

ANSWER_S = 0.9


class Client:
    """One client, through all its restarts. It believes any node about who leads what, until that turns out wrong."""

    def __init__(self, harness: "Harness", name: str) -> None:
        self.harness = harness
        self.chance = harness.schedule.chance
        self.name = name
        self.process = 0
        self.image: MetadataImage = EMPTY_IMAGE
        self.is_done = False
        self._clock = Clock(harness.schedule)
        self._loop: SimulatedLoop | None = None
        harness.network.connect(name, self.receive)

    @property
    def is_up(self) -> bool:
        return self._loop is not None

    def start(self) -> None:
        if self.is_up:
            return
        self.process += 1
        loop = self._loop = SimulatedLoop(self.harness.schedule, self._clock, self._guard)
        self.endpoint = Endpoint(self.harness.network, self.name, self.process, loop)
        loop.run(self._boot)

    def _boot(self) -> None:
        assert self._loop is not None
        self.peers = SimulatedPeers(self.endpoint)
        self._loop.create_task(self.run()).add_done_callback(self._ended)

    def _guard(self, error: BaseException | None) -> None:
        if error is not None:
            self.harness.violate(error)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._guard(task.exception())

    def crash(self) -> None:
        if self._loop is not None:
            self._loop.kill()
            self._loop = None

    def receive(self, source: object, frame: Any) -> None:
        self.at_loop(lambda: self.endpoint.arrive(source, frame))

    def at_loop(self, act: Callable[..., None], *fields: object) -> None:
        """Let something happen to the process, where it lives."""
        if self._loop is not None:
            self._loop.run(act, *fields)

    async def run(self) -> None:
        """What this client is there for."""

    # Asking

    async def ask(self, node_id: int, message_type: Callable[..., Message], *fields: object) -> Any:
        """Ask a node; None where no answer comes in time."""
        if node_id < 0:
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self.peers.call(node_id, message_type, *fields)
        except (Unanswered, TimeoutError):
            self.harness.schedule.fired["client repeats"] += 1
            return None

    async def think(self, longest_ms: int) -> None:
        await asyncio.sleep(self.chance.randint(1, longest_ms) / 1000)

    def any_node(self) -> int:
        return self.chance.choice(list(self.harness.machines))

    async def look_around(self) -> None:
        """Ask some node who leads what."""
        await self.think(60)
        reply = await self.ask(self.any_node(), GetMetadata)
        if reply is not None and reply.image.version > 0:
            self.image = reply.image

    def leader_of(self, partition: TopicPartition) -> int:
        return self.image.leader_of(partition)
