"""What every role's shell has in common: it gathers what happens in a turn, and hands it to its machine at once."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from eagleray.actors.controller_finder import ControllerFinder
from eagleray.actors.disk import Disk
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.node_timer import NodeTimer
from eagleray.actors.spec import NodeSpec
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import PlannedNode, Role
from eagleray.broker.messages import Message
from eagleray.broker.runtime.deadlines import NEVER_MS

if TYPE_CHECKING:
    from eagleray.actors.replicas import Replicas


class Supervisor(Protocol):
    """Whoever keeps the nodes of a cluster running."""

    def actor_of(self, node_id: int) -> Any:  # noqa: ANN401 - an actor's handle
        """The handle of a node's actor; raises where there is none."""

    def start_nodes(self, nodes: tuple[PlannedNode, ...]) -> None:
        """Start nodes that are planned from now on."""

    def stop_nodes(self, node_ids: tuple[int, ...]) -> None:
        """Stop nodes for good."""

    def plan_changed(self, plan: Iterable[PlannedNode]) -> None:
        """Know which nodes there are to be, on which machines."""


class Host(Protocol):
    """The node as its roles see it."""

    spec: NodeSpec
    supervisor: Supervisor
    loop: asyncio.AbstractEventLoop
    turn: Turn
    timer: NodeTimer
    peers: Peers
    controller: ControllerFinder
    image: MetadataImage
    is_registered: bool
    replicas: Replicas
    disk: Disk

    @property
    def incarnation(self) -> int:
        """Which life of the node this is."""

    def now_ms(self) -> int:
        """The time of day."""

    def steady_ms(self) -> int:
        """The time by a clock that nobody sets; it counts for leases and for whatever else is about how long."""

    def chance(self) -> float:
        """A number from 0 to 1 that nobody can foresee."""

    def begin_life(self) -> None:
        """Give up everything that is led here, and register again as another incarnation, soon.

        The replicas say then what of them others can count on no longer.
        """

    def answer(self, reply: Message) -> None:
        """Send an answer to whoever asked."""

    def fail(self, error: BaseException) -> None:
        """End the process: what has happened must not go on. It is started again and recovers from its disk."""


class Shell(ABC):
    """A role of a node: a machine of `broker/` with hands.

    What it is told between two turns is dealt with together in the next, so that it reaches the disk and other nodes
    together: the more there is to do, the less each of it costs. An error that the shell does not expect ends the
    process.
    """

    role: ClassVar[Role]
    rest_ms: ClassVar[int] = 0
    """How long after it was called because of the time it is not called so again."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._of_wall_clock = NEVER_MS, NEVER_MS
        self._rested_ms = 0
        self._events: list[Any] = []
        self._is_scheduled = False
        self.turns = 0
        self.events = 0

    def post(self, event: Message) -> None:
        """Take an event; it is dealt with in the next turn."""
        self._events.append(event)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.host.turn.act(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        events, self._events = self._events, []
        self.turns += 1
        self.events += len(events)
        try:
            self.handle(events)
            self.set_timer()
        except Exception as error:  # noqa: BLE001 - the state may be anything now
            self.host.fail(error)

    @abstractmethod
    def handle(self, events: list[Any]) -> None:
        """Deal with what happened since the last turn."""

    def metadata_changed(self, previous: MetadataImage) -> None:  # noqa: B027 - not every role needs it
        """Take note that `host.image` is another one now."""

    # Time

    def next_due_ms(self) -> int:
        """When it has something to do though nothing happens, by the steady clock; NEVER_MS where it has not."""
        return NEVER_MS

    def on_due(self) -> None:  # noqa: B027 - not every role needs it
        """Do what is due by now."""

    def set_timer(self) -> None:
        """Have the node's timer ring when something is due; called after each turn."""
        self.host.timer.set(self._ring, max(self.next_due_ms(), self._rested_ms))

    def _ring(self) -> None:
        self._of_wall_clock = NEVER_MS, NEVER_MS
        self._rested_ms = self.host.steady_ms() + self.rest_ms
        self.on_due()
        self.set_timer()

    def _steady(self, due_ms: int) -> int:
        """Give the time by the steady clock at which the time of day is due, unless that is set meanwhile.

        One that was set forward is noticed at what was the right time before; one that was set back lets the role wait.
        """
        if due_ms == NEVER_MS:
            return NEVER_MS
        if due_ms != self._of_wall_clock[0]:
            self._of_wall_clock = due_ms, self.host.steady_ms() + due_ms - self.host.now_ms()
        return self._of_wall_clock[1]

    def close(self) -> None:  # noqa: B027 - not every role needs it
        """Put everything away: the process ends in good order."""
