"""What every role has in common: it gathers what happens in a turn, and hands it to its state machine at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from eagleray.actors.common.node_timer import NodeTimer
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.roles.resolver_calls import ResolverVerdict
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Message
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import PlannedNode, ProcessRole
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.broker.transactions.resolver_events import AskResolver


class Supervisor(Protocol):
    """What keeps the nodes of a cluster running."""

    def actor_of(self, node_id: int) -> object:
        """The handle of a node's actor; raises where there is none."""

    def start_nodes(self, nodes: tuple[PlannedNode, ...]) -> None:
        """Start nodes that are planned from now on."""

    def stop_nodes(self, node_ids: tuple[int, ...]) -> None:
        """Stop nodes for good."""

    def plan_changed(self, plan: Iterable[PlannedNode]) -> None:
        """Know which nodes there are to be, on which machines."""

    def ask_resolver(self, question: AskResolver, then: Callable[[ResolverVerdict], None]) -> None:
        """Ask a named actor how a transaction has to end; `then` is called once, on the loop, or never."""


class RoleContext(Protocol):
    """The node as every role sees it; what else a role uses, it says in a context of its own, beside its class."""

    turn: Turn
    timer: NodeTimer
    image: MetadataImage

    def now_ms(self) -> int:
        """The time of day."""

    def steady_ms(self) -> int:
        """The time by a clock that is never set; leases and all other durations go by it."""

    def answer(self, reply: Message) -> None:
        """Send an answer to the session that asked."""

    def peer_host(self, request_id: int) -> str:
        """The address that a question came from; empty where the lane does not know it."""

    def request_failed(self, host: str, request: str, error: BaseException) -> None:
        """Log that a request of a host has failed by a mistake of ours, which has changed nothing, and count it."""

    def fail(self, error: BaseException) -> None:
        """End the process: what has happened must not go on. It is started again and recovers from its disk."""


class Role(ABC):
    """A role of a node: a state machine of `broker/` with hands.

    What it is told between two turns is dealt with together in the next, so that it reaches the disk and other nodes
    together: the more there is to do, the less each of it costs. An error that the role does not expect ends the
    process.
    """

    process_role: ClassVar[ProcessRole]
    rest_ms: ClassVar[int] = 0
    """How long after it was called because of the time it is not called so again."""

    def __init__(self, context: RoleContext) -> None:
        self.context = context
        self._rested_ms = 0
        self._events: list[Any] = []
        self._is_scheduled = False
        self.turns = 0
        self.events = 0
        self.damaged: dict[TopicPartition, str] = {}
        """What is wrong with logs of the role's own that goes on serving."""

    def describe(self) -> dict[str, Any]:
        """What a status shows of this role, beyond what it shows of each."""
        return {}

    def post(self, event: Message) -> None:
        """Take an event; it is dealt with in the next turn."""
        self._events.append(event)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.context.turn.act(self._turn)

    def receiver_of(self, message_type: type) -> Callable[[Any], None]:  # noqa: ARG002 - most roles take all alike
        """Return what takes the messages of a type that come from a lane."""
        return self.post

    def _turn(self) -> None:
        self._is_scheduled = False
        events, self._events = self._events, []
        self.turns += 1
        self.events += len(events)
        try:
            self.handle(events)
            self.set_timer()
        except Exception as error:  # noqa: BLE001 - the state may be anything now
            self.context.fail(error)

    @abstractmethod
    def handle(self, events: list[Any]) -> None:
        """Deal with what happened since the last turn."""

    def metadata_changed(self, previous: MetadataImage) -> None:  # noqa: B027 - not every role needs it
        """Take note that `context.image` is another one now."""

    def connection_closed(self, number: int) -> None:  # noqa: B027 - not every role needs it
        """Take note that a connection is closed by which a Kafka client has sent requests of transactions."""

    def time_was_set(self, by_ms: int) -> None:  # noqa: B027 - not every role needs it
        """Take note that the time of day is ahead by so much of what it was."""

    @property
    def cuts(self) -> Mapping[str, int]:
        """How often openings of logs of the role's own have cut off their ends, and why."""
        return {}

    # Time

    def next_due_ms(self) -> int:
        """When it has something to do though nothing happens, by the steady clock; NEVER_MS where it has not."""
        return NEVER_MS

    def on_due(self) -> None:  # noqa: B027 - not every role needs it
        """Do what is due by now."""

    def set_timer(self) -> None:
        """Have the node's timer ring when something is due; called after each turn."""
        self.context.timer.set(self._ring, max(self.next_due_ms(), self._rested_ms))

    def _ring(self) -> None:
        self._rested_ms = self.context.steady_ms() + self.rest_ms
        self.on_due()
        self.set_timer()

    def close(self) -> None:  # noqa: B027 - not every role needs it
        """Put everything away: the process ends in good order."""
