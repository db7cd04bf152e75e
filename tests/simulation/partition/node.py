"""A simulated node: the shell round a replica, on a disk and with a clock of its own."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from eagleray.broker.controller.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.controller.losses import EVERYTHING, NO_LOSS, Loss
from eagleray.broker.controller.nodes import NodeRegistration
from eagleray.broker.log import Appended, Flush, Isolation, LogConfig, LogError, PartitionLog, Rejection
from eagleray.broker.replication.controlling import NodeCame
from eagleray.broker.replication.electing import Rules
from eagleray.broker.replication.events import (
    BrokerHeartbeat,
    BrokerHeartbeatAnswered,
    IsrAnswered,
    LeaderEffect,
    ProposeIsr,
    Push,
    PushAnswered,
    Replicated,
    Resigned,
    SendPush,
)
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.replica import PartitionReplica
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import split_batches
from tests.simulation.partition.parts import (
    CONFIG,
    CONTROLLER,
    PARTITION,
    MarkerRequest,
    ProduceAnswer,
    ProduceRequest,
    ReadAnswer,
    ReadRequest,
)
from tests.support.faults import ProcessKilled
from tests.support.simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from tests.simulation.partition.harness import PartitionHarness

PRODUCE_TIMEOUT_MS = 600
TICK_MS = 40
_BOOT_MS = 1_700_000_000_000


class SimulatedNode:
    """One node, through all its lives and deaths.

    Its clock has its own beginning and its own speed. What it sends leaves at once; what comes while it is paused waits
    until it wakes, and what comes while it is down is gone.
    """

    def __init__(self, harness: "PartitionHarness", node_id: int, speed: float, offset_ms: int) -> None:
        self.harness = harness
        self.node_id = node_id
        self.disk = SimulatedDisk()
        self.is_up = False
        self.process = 0
        self.incarnation = 0
        self.loss = NO_LOSS
        """What it has lost, and the controller has not been told yet."""
        self.is_registered = False
        self.log: PartitionLog | None = None
        self.replica: PartitionReplica | None = None
        self.image: MetadataImage = EMPTY_IMAGE
        self._speed = speed
        self._offset_ms = offset_ms
        self._is_paused = False
        self._missed: list[Callable[[], None]] = []
        self._last_heartbeat_ms = -1
        self._waiting: dict[int, tuple[object, int, int, int]] = {}
        self._wait_ids = count()
        harness.network.connect(node_id, self.receive)

    @property
    def now_ms(self) -> int:
        """The time by this node's clock."""
        return _BOOT_MS + self._offset_ms + int(self.harness.schedule.now_ms * self._speed)

    @property
    def leader(self) -> ReplicationLeader | None:
        return None if self.replica is None else self.replica.leader

    # Life and death

    def start(self) -> None:
        self.is_up = True
        self._is_paused = False
        self.process += 1
        self._guarded(self._open)

    def _open(self) -> None:
        config = LogConfig(segment_bytes=2048, index_interval_bytes=200, flush=self.harness.fault_plan.flush)
        self.log = PartitionLog.open(self.disk, "/log", config, now_ms=self.now_ms)
        self._begin_life()
        self._tick_of(self.process)()

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something that the disk may not survive: what a log cannot go on after, a new process has to."""
        try:
            action()
        except ProcessKilled:
            self.harness.schedule.fired["death in the middle of a write"] += 1
            self._die_and_restart()
        except LogError:
            self.harness.schedule.fired["error of a disk"] += 1
            if self.log is None:
                self._die_and_restart()
        if self.log is not None and not self.log.is_online:
            self.harness.schedule.fired["log offline"] += 1
            self._die_and_restart()

    def _die_and_restart(self) -> None:
        self.crash(loses_power=False)
        self.harness.schedule.after(self.harness.schedule.chance.randint(1, 300), lambda: self.is_up or self.start())

    def delete_records(self, before_offset: int) -> None:
        log = self.log
        if log is not None:
            self._guarded(lambda: log.delete_records(before_offset) and None)

    def _begin_life(self) -> None:
        """Begin unknown to all others: nothing is led or followed until the controller has answered."""
        self.incarnation += 1
        self.is_registered = False
        self.replica = None
        self.image = EMPTY_IMAGE
        self.lease = self.harness.parts.lease_type(CONFIG)
        self._waiting.clear()
        self._register()

    def crash(self, *, loses_power: bool) -> None:
        self.is_up = False
        self._missed.clear()
        self.log = self.replica = None
        self.is_registered = False
        if loses_power:
            chance = self.harness.schedule.chance
            kept = chance.choice([0.0, 0.5, 0.95])
            self.disk.lose_power(lambda: chance.random() < kept)
            # What is flushed before it is acknowledged cannot be lost by this, but a node cannot know that for sure.
            flushes = self.harness.fault_plan.flush is Flush.COMMIT
            self.loss |= Loss((), (PARTITION,), is_everything=True) if flushes else EVERYTHING
        else:
            self.disk.crash_process()

    def replace_disk(self) -> None:
        """Come back with an empty disk, as a new machine in place of one that is gone."""
        self.disk = SimulatedDisk()
        self.loss = EVERYTHING

    def pause(self) -> None:
        self._is_paused = True

    def wake(self) -> None:
        if self._is_paused:
            self._is_paused = False
            missed, self._missed = self._missed, []
            for action in missed:
                if self.is_up:
                    self._guarded(action)

    # What comes

    def receive(self, source: object, message: Any) -> None:
        if self.is_up:
            self._when_awake(lambda: self._handle(source, message))

    def _when_awake(self, action: Callable[[], None]) -> None:
        if self._is_paused:
            self._missed.append(action)
        else:
            self._guarded(action)

    def _handle(self, source: object, message: Any) -> None:
        match message:
            case MetadataImage():
                self._learn(message)
            case BrokerHeartbeatAnswered():
                self._on_heartbeat(message)
            case ProduceRequest() | MarkerRequest():
                self._on_produce(source, message)
            case ReadRequest():
                self._on_read(source, message)
            case Push() if self.replica is not None:
                answer, effects = self.replica.push(message, self.now_ms)
                self._send(message.leader, answer)
                self._perform(effects)
            case PushAnswered():
                self._tell(lambda leader: leader.push_answered(message, self.now_ms))
            case IsrAnswered():
                self._tell(lambda leader: leader.isr_answered(message, self.now_ms))

    def _tell(self, call: Callable[[ReplicationLeader], list[LeaderEffect]]) -> None:
        if self.replica is not None:
            self._perform(self.replica.tell_leader(call))

    def _perform(self, effects: list[LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case SendPush():
                    self._send(effect.node_id, effect.push)
                case ProposeIsr():
                    self.harness.schedule.fired["in-sync set proposed"] += 1
                    self._send(CONTROLLER, effect)
                case Replicated():
                    self._acknowledge(effect)

    # The controller

    def _register(self) -> None:
        registration = NodeRegistration(self.node_id, self.incarnation, "", 0, ("leader",))
        self._send(CONTROLLER, NodeCame(registration, self.loss))

    def _learn(self, image: MetadataImage) -> None:
        known = image.nodes.get(self.node_id)
        if image.version <= self.image.version:
            return
        if known is None or known.incarnation != self.incarnation:
            # A life that is over, be it replaced or given up, is not taken again.
            if self.is_registered or image.incarnations.get(self.node_id, 0) >= self.incarnation:
                self._begin_life()
            return
        self.image = image
        self.is_registered, self.loss = True, NO_LOSS
        if self.replica is None:
            assert self.log is not None
            self.replica = self.harness.parts.replica_type(
                PARTITION, self.node_id, self.incarnation, self.log, lease=self.lease, config=CONFIG
            )
        state = image.find(PARTITION)
        assert state is not None
        least = Rules.of(image.topics[PARTITION.topic]).min_insync_replicas
        self._perform(self.replica.learn(state, image.lives, least, self.now_ms))
        self.lease.knows(image.version)

    def _on_heartbeat(self, event: BrokerHeartbeatAnswered) -> None:
        if event.incarnation != self.incarnation or not self.is_registered:
            return
        self.lease.answered(event)
        if self.lease.is_over:
            self.harness.schedule.fired["node given up by the controller"] += 1
            self._begin_life()
            return
        if self.replica is not None and self.leader is not None and event.resign == (self._own_resignation(),):
            self.harness.schedule.fired["leader handed over"] += 1
            self._perform(self.replica.resign())

    def _own_resignation(self) -> Resigned | None:
        return None if self.leader is None else Resigned(PARTITION, self.leader.leader_epoch)

    def _tick_of(self, process: int) -> Callable[[], None]:
        """The ticks of one process end with it."""

        def tick() -> None:
            if self.is_up and self.process == process:
                self._when_awake(self._on_tick)
                self.harness.schedule.after(TICK_MS, tick)

        return tick

    def _on_tick(self) -> None:
        if self.now_ms - self._last_heartbeat_ms >= CONFIG.broker_heartbeat_interval_ms:
            self._last_heartbeat_ms = self.now_ms
            if self.is_registered and self.replica is not None:
                resigned = () if self.replica.resigned is None else (self.replica.resigned,)
                self._send(CONTROLLER, BrokerHeartbeat(self.node_id, self.incarnation, self.now_ms, resigned))
            else:
                self._register()
        self._tell(lambda leader: leader.tick(self.now_ms))

    # Clients

    def _on_produce(self, client: object, request: ProduceRequest | MarkerRequest) -> None:
        leader = self.leader
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader is not None:
            code = leader.check_append(self.now_ms, waits_for_all=True)
        if leader is None or code is not ErrorCode.NONE:
            self.harness.schedule.fired[f"produce refused: {code.name}"] += 1
            self._send(client, ProduceAnswer(request.request_id, code))
            return
        try:
            result = self._append(request, leader.leader_epoch)
        except LogError:
            self._send(client, ProduceAnswer(request.request_id, ErrorCode.KAFKA_STORAGE_ERROR))
            raise
        if isinstance(result, Rejection):
            self._send(client, ProduceAnswer(request.request_id, result.error_code))
            return
        wait_id = next(self._wait_ids)
        self._waiting[wait_id] = (client, request.request_id, result.base_offset, leader.leader_epoch)
        leader.wait(wait_id, result.last_offset + 1, self.now_ms + PRODUCE_TIMEOUT_MS)
        self._tell(lambda leader: leader.appended(self.now_ms))

    def _append(self, request: ProduceRequest | MarkerRequest, leader_epoch: int) -> Appended | Rejection:
        assert self.log is not None
        if isinstance(request, MarkerRequest):
            results = self.log.append_markers([request.marker], leader_epoch=leader_epoch, now_ms=self.now_ms)
        else:
            batches = split_batches(request.records)
            results = self.log.append(batches, leader_epoch=leader_epoch, now_ms=self.now_ms)
        if self.harness.fault_plan.flush is Flush.COMMIT:
            self.log.flush()
        return results[0]

    def _acknowledge(self, effect: Replicated) -> None:
        client, request_id, base_offset, leader_epoch = self._waiting.pop(effect.request_id)
        self.harness.schedule.fired[f"produce answered: {effect.error_code.name}"] += 1
        if effect.error_code is ErrorCode.NONE:
            self.harness.checks.acknowledged(self.node_id, leader_epoch, base_offset)
        self._send(client, ProduceAnswer(request_id, effect.error_code, base_offset))

    def _on_read(self, client: object, request: ReadRequest) -> None:
        log = self.log
        if self.leader is None or log is None:
            self._send(client, ReadAnswer(request.request_id, False))
            return
        offset = max(request.offset, log.log_start_offset)
        answer = ReadAnswer(request.request_id, True, b"", log.log_start_offset)
        if offset < log.last_stable_offset:
            found = log.read(offset, max_bytes=1000, isolation=Isolation.READ_COMMITTED)
            aborted = tuple(found.aborted_transactions)
            answer = ReadAnswer(request.request_id, True, found.records, log.log_start_offset, aborted)
        self._send(client, answer)

    def _send(self, target: object, message: object) -> None:
        self.harness.network.send(self.node_id, target, message)
