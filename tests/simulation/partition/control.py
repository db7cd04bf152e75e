"""The simulated controller: decides, appends to a metadata log, applies, tells."""

from typing import TYPE_CHECKING, Any

from eagleray.broker.controller.changes import Change, NodesPlanned, TopicCreated
from eagleray.broker.controller.log_records import encode_changes, replay
from eagleray.broker.controller.nodes import PlannedNode
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.replication.controlling import Decided, NodeCame
from eagleray.broker.replication.events import BrokerHeartbeat, ProposeIsr
from eagleray.broker.replication.placing import ReplicaPlacement, Site
from eagleray.broker.replication.reassigning import reassign
from eagleray.protocol.errors import ErrorCode
from tests.simulation.partition.parts import CONFIG, CONTROLLER, PARTITION

if TYPE_CHECKING:
    from tests.simulation.partition.harness import PartitionHarness

TICK_MS = 50


class SimulatedController:
    """The one controller of a world. Its log survives everything; what it has in memory dies with it."""

    def __init__(
        self, harness: "PartitionHarness", node_ids: list[int], replication_factor: int, least_in_sync: int
    ) -> None:
        self._harness = harness
        self.records: list[bytes] = []
        self.is_up = True
        self._life = 0
        placement = ReplicaPlacement([Site(node_id, f"rack {node_id}") for node_id in node_ids])
        replicas = placement.place(replication_factor)
        configs = {"min.insync.replicas": str(least_in_sync)}
        state = PartitionImage(replicas[0], 0, replicas, replicas)
        plan = NodesPlanned(tuple(PlannedNode(node_id, ("leader",)) for node_id in node_ids))
        self.records += encode_changes([plan, TopicCreated(PARTITION.topic, bytes(16), configs, (state,))])
        harness.network.connect(CONTROLLER, self.receive)
        self.start()

    def start(self) -> None:
        self._life += 1
        self.is_up = True
        self.image = replay(self.records)
        self._machine = self._harness.parts.controller_type(CONFIG, self.image, self._harness.schedule.now_ms)
        self._tick_in(self._life)

    def start_unless_up(self) -> None:
        if not self.is_up:
            self.start()

    def crash(self) -> None:
        self.is_up = False

    @property
    def state(self) -> PartitionImage:
        state = self.image.find(PARTITION)
        assert state is not None
        return state

    def receive(self, source: object, message: Any) -> None:
        if not self.is_up:
            return
        now_ms = self._harness.schedule.now_ms
        match message:
            case NodeCame():
                self._conclude(source, self._machine.node_came(message, self.image, now_ms))
                self._tell(source)
            case BrokerHeartbeat():
                self._conclude(source, self._machine.heartbeat(message, self.image, now_ms))
                self._tell(source)
            case ProposeIsr():
                self._conclude(source, self._machine.propose_isr(message, self.image))

    def elect_preferred(self) -> None:
        if self.is_up and self._machine.elect_preferred(PARTITION, self.image) is ErrorCode.NONE:
            self._harness.schedule.fired["preferred leader asked for"] += 1

    def reassign(self, target: list[int]) -> None:
        if self.is_up:
            error_code, changes = reassign(PARTITION, target, self.image)
            assert error_code is ErrorCode.NONE
            self._harness.schedule.fired["move begun"] += bool(changes)
            self._apply(changes)

    def _tick_in(self, life: int) -> None:
        def tick() -> None:
            if self.is_up and self._life == life:
                self._conclude(None, self._machine.tick(self.image, self._harness.schedule.now_ms))
                self._harness.schedule.after(TICK_MS, tick)

        self._harness.schedule.after(TICK_MS, tick)

    def _conclude(self, source: object, decided: Decided) -> None:
        self._apply(decided.changes)
        if decided.answer is not None:
            self._harness.network.send(CONTROLLER, source, decided.answer)

    def _apply(self, changes: tuple[Change, ...]) -> None:
        if not changes:
            return
        before = self.state
        self.records += encode_changes(changes)
        self.image = self.image.apply(changes)
        self._machine.logged(changes, self._harness.schedule.now_ms)
        self._harness.checks.state_changed(before, self.state)
        for node_id in self._harness.nodes:
            self._tell(node_id)

    def _tell(self, node_id: object) -> None:
        self._harness.network.send(CONTROLLER, node_id, self.image)
