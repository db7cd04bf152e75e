"""A controller with the world around it: a log in memory, supervision, answers, and a clock that one sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.controller import Controller
from eagleray.broker.controller.events import (
    Answer,
    ChangeIsr,
    ChangesLogged,
    ChangesLost,
    CreateTopics,
    Effect,
    Event,
    LogChanges,
    NewTopic,
    NodeBeat,
    NodeBeatAnswered,
    NodeRegistration,
    PlannedNode,
    PlanNodes,
    RegisterNode,
    StartNodes,
    StopNodes,
    Tick,
    TopicResult,
)
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.log_records import encode_changes, replay
from eagleray.broker.controller.losses import NO_LOSS, Loss
from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.events import (
    BrokerHeartbeat,
    BrokerHeartbeatAnswered,
    InSyncReplica,
    ProposeIsr,
    Resigned,
)
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
    """Feeds a controller; keeps its log and its answers, and logs what it is given unless told to hold it."""

    def __init__(self, config: ControllerConfig = SMALL) -> None:
        self.config = config
        self.batches: list[list[bytes]] = []
        self.answers: dict[int, Answer] = {}
        self.supervision: list[StartNodes | StopNodes] = []
        self.now_ms = 0
        self.holds_appends = False
        self.held: LogChanges | None = None
        self.next_request_id = 1
        self._new_topic_id = topic_ids()
        self.controller = Controller(config, self.replayed(), self._new_topic_id, now_ms=self.now_ms)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def replayed(self) -> MetadataImage:
        return replay(record for batch in self.batches for record in batch)

    def restart(self, config: ControllerConfig | None = None) -> None:
        """End the controller, with whatever it had under way, and begin another from the log."""
        self.held = None
        self.config = config or self.config
        self.controller = Controller(self.config, self.replayed(), self._new_topic_id, now_ms=self.now_ms)

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

    def log_held(self) -> None:
        """Put on the log what was held."""
        append, self.held = self.held, None
        self.batches.append(encode_changes(append.changes))
        self.tell(ChangesLogged(append.token))

    def lose_held(self, error_code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        append, self.held = self.held, None
        self.tell(ChangesLost(append.token, error_code))

    def _perform(self, effects: Iterable[Effect]) -> None:
        appends = []
        for effect in effects:
            if isinstance(effect, LogChanges):
                appends.append(effect)
            elif isinstance(effect, StartNodes | StopNodes):
                self.supervision.append(effect)
            else:
                assert effect.request_id not in self.answers, "answered twice"
                self.answers[effect.request_id] = effect
        for append in appends:
            assert self.held is None, "one append at a time"
            assert append.changes, "an append of nothing"
            self.held = append
            if not self.holds_appends:
                self.log_held()

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

    def register(self, node: PlannedNode, incarnation: int = 1, *, loss: Loss = NO_LOSS) -> Answer | None:
        return self.ask(RegisterNode, registration(node, incarnation), loss)

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
