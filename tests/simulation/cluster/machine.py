"""A simulated machine: a disk, a clock, and the process of one real node on it, through all its lives and deaths."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from eagleray.actors.group_coordinator import GroupCoordinatorShell
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.metadata_quorum import METADATA_PARTITION
from eagleray.actors.node import Node
from eagleray.actors.shell import Shell
from eagleray.actors.spec import NodeSpec
from eagleray.actors.transaction_coordinator import TransactionCoordinatorShell
from eagleray.broker.controller.losses import NO_LOSS
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogError, PartitionLog
from eagleray.broker.log.names import TRANSACTION_INDEX_SUFFIX
from eagleray.broker.messages import Message
from eagleray.broker.quorum.election_state import read_election_state
from tests.simulation.cluster.lanes import Endpoint, SimulatedPeers
from tests.simulation.cluster.loop import Clock, SimulatedLoop
from tests.simulation.cluster.places import OFFSETS, TRANSACTIONS
from tests.simulation.cluster.ports import MachineDisk, NoSupervisor
from tests.support.faults import ProcessKilled

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

_Shell = TypeVar("_Shell", bound=Shell)

DATA = "/data"
_BOOT_MS = 1_700_000_000_000


class ProcessEnded(BaseException):
    """The node has ended its own process."""


class SimulatedNode(Node):
    """The real node, but for its disk, its clock, its chance and its lanes."""

    def __init__(self, machine: "SimulatedMachine", endpoint: Endpoint) -> None:
        self.simulated = machine
        self.endpoint = endpoint
        self._asked: dict[int, Message] = {}
        super().__init__(machine.spec, NoSupervisor(), machine.disk)
        endpoint.sessions = self.sessions

    def _make_peers(self) -> SimulatedPeers:
        return SimulatedPeers(self.endpoint)

    def _receivers(self) -> dict[type, Callable[[Any], None]]:
        watched = self.simulated.harness.watch.WATCHED

        def watching(receive: Callable[[Any], None]) -> Callable[[Any], None]:
            def take(message: Any) -> None:
                self._asked[message.request_id] = message
                receive(message)

            return take

        receivers = super()._receivers()
        return {kind: watching(receive) if kind in watched else receive for kind, receive in receivers.items()}

    def answer(self, reply: Any) -> None:
        question = self._asked.pop(reply.request_id, None)
        if question is not None:
            self.simulated.harness.watch.answers(self, question, reply)
        super().answer(reply)

    def steady_ms(self) -> int:
        return self.simulated.clock.now_ms()

    def _now_us(self) -> int:
        return (_BOOT_MS + self.simulated.clock.now_ms()) * 1000

    def chance(self) -> float:
        return self.simulated.harness.schedule.chance.random()

    async def _listen(self) -> None:
        self.port = 1

    async def _register(self) -> None:
        if self.simulated.disk_lies and not self.simulated.is_among_others():
            raise Unanswered("alone it would be taken at its disk's word")
        await super()._register()

    def fail(self, error: BaseException) -> None:
        self.simulated.note(error)
        self.simulated.has_ended = True
        raise ProcessEnded


class SimulatedMachine:
    """One machine. What its node sends leaves at once; what comes waits while it is paused, and is lost while down.

    A process that ends by itself is started again soon, as Ray does it.
    """

    def __init__(self, harness: "Harness", spec: NodeSpec, clock: Clock) -> None:
        self.harness = harness
        self.spec = spec
        self.node_id = spec.node_id
        self.clock = clock
        self.disk = MachineDisk()
        self.process = 0
        self.loop: SimulatedLoop | None = None
        self.node: SimulatedNode | None = None
        self.endpoint: Endpoint | None = None
        self.has_ended = False
        self._never_finished: list[object] = []
        self._has_lost_lies = False
        self.may_have_lost = False
        """Whether it has lost something and has told the controller nothing of it yet."""
        harness.network.connect(self.node_id, self.receive)

    @property
    def is_up(self) -> bool:
        return self.loop is not None

    @property
    def is_serving(self) -> bool:
        """Whether its node is registered, and not paused."""
        return self.loop is not None and not self.loop.is_paused and self.node is not None and self.node.is_registered

    @property
    def has_doubts(self) -> bool:
        """Whether others have to have what it has: it may be gone already, or go with the next loss of power."""
        return self.may_have_lost or self.is_unsound or self._has_failed

    @property
    def is_unsound(self) -> bool:
        """Whether its disk has not what it was given, and its node does not know it."""
        return self.disk.has_lied or self.disk.is_rotten or self.disk_lies

    @property
    def disk_lies(self) -> bool:
        """Whether power was lost after a lie, and its node has not come back among others since."""
        return self.may_have_lost and self._has_lost_lies

    def is_among_others(self) -> bool:
        """Whether others live with whom it is in sync, wherever there are some."""
        machines = [machine for machine in self.harness.machines.values() if machine is not self and machine.is_serving]
        living = {machine.node_id for machine in machines}
        states = [watch.state for watch in self.harness.watch.partitions.values() if watch.state is not None]
        others = [{*state.isr} - {self.node_id} for state in states if self.node_id in state.isr]
        return all(living & each for each in others if each)

    @property
    def _has_failed(self) -> bool:
        """Whether logs have failed, or been found damaged, of which the controller has not been told."""
        if self.node is None:
            return False
        told = NO_LOSS if self.node.is_registered else self.node._life.loss
        return bool(told) or self.node.replicas.failures.are_more_than(told)

    @property
    def is_whole(self) -> bool:
        """Whether the disk has everything that this voter has said."""
        return read_election_state(self.disk, f"{DATA}/logs/{METADATA_PARTITION}/quorum-state").is_whole

    def lies_about(self, path: str) -> bool:
        """What a lying disk may lie about.

        A quorum rests on what its voters have flushed, and on nothing else. And nothing tells that the list of a closed
        segment's aborted transactions has lost some of them: it has no checksum, as in Kafka.
        """
        return str(METADATA_PARTITION) not in path and TRANSACTION_INDEX_SUFFIX not in path

    def log_of(self, partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition, where it is open."""
        if self.node is None or partition not in self.node.replicas.logs:
            return None
        return self.node.replicas.logs[partition]

    def shell(self, kind: type[_Shell]) -> _Shell | None:
        """A role of the node, where it has it."""
        shells = () if self.node is None else self.node._shells
        return next((shell for shell in shells if isinstance(shell, kind)), None)

    def coordinates_at(self, partition: TopicPartition) -> int | None:
        """The epoch at which a coordinator here believes to lead a partition, -1 while it loads it; None for none."""
        groups, transactions = self.shell(GroupCoordinatorShell), self.shell(TransactionCoordinatorShell)
        shard: Any = None
        if partition == OFFSETS and groups is not None:
            shard = groups._machine._shards.by_partition.get(partition.partition)
        elif partition == TRANSACTIONS and transactions is not None:
            shard = transactions._machine._runtime.shards.get(partition.partition)
        if shard is None:
            return None
        epoch: int = shard.epoch
        return epoch if shard.is_loaded else -1

    # Life and death

    def start(self) -> None:
        if self.is_up:
            return
        self.process += 1
        self.has_ended = False
        loop = self.loop = SimulatedLoop(self.harness.schedule, self.clock, self._guard)
        self.endpoint = Endpoint(self.harness.network, self.node_id, self.process, loop)
        loop.run(self._boot)

    def _boot(self) -> None:
        assert self.loop is not None
        assert self.endpoint is not None
        self.node = SimulatedNode(self, self.endpoint)
        self.loop.create_task(self._start_node(self.node))

    async def _start_node(self, node: SimulatedNode) -> None:
        try:
            await node.start()
        except Exception as error:  # noqa: BLE001 - Ray would start the process again
            node.fail(error)

    def _guard(self, error: BaseException | None) -> None:
        """See whether the process has survived what it has just done; a task keeps to itself what it has died of."""
        self.harness.touched.add(self.node_id)
        if self.loop is None:
            return
        if self.disk.is_process_dead or isinstance(error, ProcessKilled):
            self.harness.schedule.fired["death in the middle of a write"] += 1
            self._end_and_restart()
        elif self.has_ended:
            self._end_and_restart()
        elif error is not None:
            self.note(error)
            self._end_and_restart()

    def note(self, error: BaseException) -> None:
        """Look at what a process ends of: disks fail, and nothing else may."""
        if not isinstance(error, LogError | OSError):
            self.harness.violate(error)
        self.harness.schedule.fired["process ended by its disk"] += 1

    def _end_and_restart(self) -> None:
        self.crash()
        self.harness.schedule.after(self.harness.schedule.chance.randint(1, 300), self.start)

    def crash(self) -> None:
        """End the process as kill -9 does; the operating system tells those who are connected."""
        endpoint = self.endpoint
        with self.disk.outlived():
            self.harness.watch.last_look(self)
        self._stop()
        self.disk.crash_process()
        if endpoint is not None:
            endpoint.hang_up()

    def lose_power(self) -> None:
        """Go dark: what was not flushed may be gone, and no other machine is told."""
        self._stop()
        self._has_lost_lies = self.disk.has_lied or self.disk_lies
        chance = self.harness.schedule.chance
        kept = chance.choice([0.0, 0.5, 0.95])
        self.disk.lose_power(lambda: chance.random() < kept)
        self.may_have_lost = True

    def replace_disk(self) -> None:
        """Come back with an empty disk, as a new machine in place of one that is gone."""
        self.disk = MachineDisk()
        self._has_lost_lies = False
        self.may_have_lost = True
        self.harness.watch.quorum.replaced(self.node_id)

    def _stop(self) -> None:
        if self.loop is not None:
            self.loop.kill()
        if self.node is not None:
            # A compaction that no process holds any more would clean up after itself, on the disk of the next process.
            self._never_finished += self.node.replicas.logs._compactions.values()
        self.loop = self.node = self.endpoint = None

    def pause(self) -> None:
        if self.loop is not None:
            self.loop.is_paused = True

    def wake(self) -> None:
        if self.loop is not None and self.loop.is_paused:
            self.loop.is_paused = False
            self.loop.drain()

    # What comes

    def receive(self, source: object, frame: Any) -> None:
        if self.loop is None or self.endpoint is None:
            self.harness.network.dropped(source, self.node_id, frame)
        else:
            self.loop.run(self.endpoint.arrive, source, frame)
