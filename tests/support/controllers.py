"""A controller with the world around it: a log in memory, supervision, answers, and a clock that one sets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.controller import Controller
from eagleray.broker.controller.events import (
    Answer,
    ChangesCommitted,
    CreateTopics,
    Effect,
    Event,
    LogChanges,
    NewTopic,
    PlanNodes,
    RegisterNode,
    Respond,
    StartNodes,
    StopNodes,
    StopRuling,
    TopicResult,
)
from eagleray.broker.controller.replica_events import ChangeIsr, NodeBeat, NodeBeatAnswered
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.log_records import encode_changes, replay
from eagleray.broker.metadata.losses import NO_LOSS, Loss
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.positions import NO_POSITION, MetadataPosition
from eagleray.broker.replication.events import (
    BrokerHeartbeat,
    BrokerHeartbeatAnswered,
    InSyncReplica,
    ProposeIsr,
    Resigned,
)
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode

SMALL = ControllerConfig(transaction_state_log_num_partitions=4, offsets_topic_num_partitions=3)

PLAN = (
    PlannedNode(0, ("controller", "allocator", "markers")),
    PlannedNode(1, ("coordinator", "groups")),
    PlannedNode(2, ("leader",)),
    PlannedNode(3, ("leader",)),
)


_LONGEST_STEP_MS = 1000

MACHINES = ("a", "b", "c")


def plan_of(machines: Iterable[str] = MACHINES, leaders: int = 2) -> tuple[PlannedNode, ...]:
    """A plan with the same nodes on each machine; the first digit of their ids is the machine's."""
    return tuple(
        PlannedNode(100 * MACHINES.index(machine) + local_id, roles, None, machine)
        for machine in machines
        for local_id, roles in (
            *([(0, ("controller", "allocator", "markers"))] if machine == "a" else []),
            (10, ("coordinator", "groups")),
            *((30 + place, ("leader",)) for place in range(leaders)),
        )
    )


def topic_ids() -> Callable[[], bytes]:
    """Ids that are never the same twice, and the same in every run."""
    numbers = count(1)
    return lambda: next(numbers).to_bytes(16, "big")


def registration(node: PlannedNode, incarnation: int = 1) -> NodeRegistration:
    return NodeRegistration(node.node_id, incarnation, "localhost", 9000 + node.node_id, node.roles)


class ControllerDriver:
    """Feeds a controller; keeps its log and its answers, and commits what is appended unless told to hold it."""

    def __init__(self, config: ControllerConfig = SMALL) -> None:
        self.config = config
        self.batches: list[list[bytes]] = []
        self.answers: dict[int, Answer] = {}
        self.supervision: list[StartNodes | StopNodes] = []
        self.now_ms = 0
        self.time_of_day_ms = 1_700_000_000_000
        self.term = 0
        """Of the controller that is begun next; in term 0 it notes none."""
        self.is_only_voter = False
        self.stopped: list[str] = []
        self.holds_appends = False
        self.held: deque[LogChanges] = deque()
        """What is appended, and not committed yet."""
        self.next_request_id = 1
        self._new_topic_id = topic_ids()
        self.controller = Controller(
            config, self.replayed(), self._new_topic_id, now_ms=self.now_ms, time_of_day_ms=lambda: self.time_of_day_ms
        )

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def replayed(self) -> MetadataImage:
        return replay(record for batch in self.batches for record in batch)

    def restart(self, config: ControllerConfig | None = None) -> None:
        """End the controller, with whatever it had under way, and begin another from the log."""
        self.held.clear()
        self.config = config or self.config
        self.controller = Controller(
            self.config,
            self.replayed(),
            self._new_topic_id,
            now_ms=self.now_ms,
            time_of_day_ms=lambda: self.time_of_day_ms,
            term=self.term,
            is_only_voter=self.is_only_voter,
        )

    def ask(self, kind: type, *fields: object, **more: object) -> Answer | None:
        """Ask, and return the answer if there is one already."""
        request_id = self.send(kind, *fields, **more)
        return self.answers.get(request_id)

    def send(self, kind: type, *fields: object, **more: object) -> int:
        request_id, self.next_request_id = self.next_request_id, self.next_request_id + 1
        self.tell(kind(request_id, *fields, **more))
        return request_id

    def tell(self, event: Event) -> None:
        due_ms = self.controller.next_due_ms
        effects = self.controller.handle(event, self.now_ms)
        is_unforeseen = isinstance(event, Tick) and effects and due_ms > self.now_ms
        assert not is_unforeseen, "what time makes necessary was said to be due"
        self._perform(effects)

    def tell_all(self, events: Iterable[Event]) -> None:
        """Let events come in one turn."""
        self._perform(self.controller.handle_all(events, self.now_ms))

    def tick(self, elapsed_ms: int) -> None:
        """Let time pass, as it does for a controller that is not held up."""
        until_ms = self.now_ms + elapsed_ms
        while until_ms - self.now_ms > _LONGEST_STEP_MS:
            self.now_ms += _LONGEST_STEP_MS
            self.tell(Tick())
        self.now_ms = until_ms
        self.tell(Tick())

    def plan_another_machine(self) -> None:
        """Have the controller mind who is alive, for it does not where no node could take over."""
        self.ask(PlanNodes, (*self.image.plan.values(), PlannedNode(9, ("markers",), None, "another machine")))

    def commit_held(self) -> None:
        """Have the first append that is held committed."""
        append = self.held.popleft()
        self.batches.append(encode_changes(append.changes))
        self.tell(ChangesCommitted(append.position))

    def lose_held(self, error_code: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
        """Let another controller go on from what is committed, once all who wait have been answered."""
        self._perform(self.controller.resign(error_code))
        self.restart()

    def _perform(self, effects: Iterable[Effect]) -> None:
        appends = []
        for effect in effects:
            match effect:
                case LogChanges():
                    assert effect.changes, "an append of nothing"
                    appends.append(effect)
                case StartNodes() | StopNodes():
                    self.supervision.append(effect)
                case StopRuling():
                    self.stopped.append(effect.reason)
                case Respond():
                    assert effect.request.request_id == effect.answer.request_id
                    assert effect.answer.request_id not in self.answers, "answered twice"
                    self.answers[effect.answer.request_id] = effect.answer
        self.held += appends
        while self.held and not self.holds_appends:
            self.commit_held()

    # What nodes say

    def beat(self, node_id: int, *resigned: Resigned, incarnation: int = 1) -> BrokerHeartbeatAnswered:
        """Let a node be heard; it has to be answered at once."""
        beat = BrokerHeartbeat(node_id, incarnation, self.now_ms, resigned)
        answer = self.ask(NodeBeat, beat)
        assert isinstance(answer, NodeBeatAnswered)
        return answer.answer

    def let_time_pass(self, elapsed_ms: int, *beating: int) -> None:
        """Tick on, while these nodes go on being heard."""
        until_ms = self.now_ms + elapsed_ms
        while self.now_ms < until_ms:
            for node_id in beating:
                assert self.beat(node_id).error_code is ErrorCode.NONE
            self.tick(min(500, until_ms - self.now_ms))

    def propose(self, partition: TopicPartition, *isr: int) -> Answer | None:
        """Let the leader of a partition propose an in-sync set, of nodes as they are registered."""
        state = self.image.find(partition)
        replicas = (InSyncReplica(node_id, self.image.incarnations[node_id]) for node_id in isr)
        proposal = ProposeIsr(partition, state.leader, state.leader_epoch, state.partition_epoch, tuple(replicas))
        return self.ask(ChangeIsr, proposal)

    # What most tests begin with

    def plan(self, nodes: tuple[PlannedNode, ...] = PLAN) -> Answer | None:
        return self.ask(PlanNodes, nodes)

    def register(
        self,
        node: PlannedNode,
        incarnation: int = 1,
        *,
        loss: Loss = NO_LOSS,
        position: MetadataPosition = NO_POSITION,
    ) -> Answer | None:
        return self.ask(RegisterNode, registration(node, incarnation), loss, position)

    def create(self, name: str, partitions: int = -1, replication_factor: int = -1, **configs: str) -> TopicResult:
        """Create one topic; settings are given with underscores for dots."""
        settings = {key.replace("_", "."): text for key, text in configs.items()}
        answer = self.ask(CreateTopics, (NewTopic(name, partitions, replication_factor, settings),))
        return answer.results[0]


def replicated_driver(config: ControllerConfig = SMALL, leaders: int = 2) -> ControllerDriver:
    """A driver whose cluster has three machines, and all of their nodes."""
    driver = ControllerDriver(config)
    assert driver.plan(plan_of(leaders=leaders)).error_code is ErrorCode.NONE
    for node in driver.image.plan.values():
        assert driver.register(node).error_code is ErrorCode.NONE
    return driver


def planned_driver(config: ControllerConfig = SMALL) -> ControllerDriver:
    """A driver whose cluster has its plan."""
    driver = ControllerDriver(config)
    assert driver.plan().error_code is ErrorCode.NONE
    return driver
