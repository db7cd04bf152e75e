"""A whole cluster in one process: real nodes on simulated machines, clients, and what goes wrong, from one seed."""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any
from unittest import mock

import msgspec

from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.storage import log_manager, stray_logs
from eagleray.actors.storage.data_directory import format_directory
from eagleray.broker.controller import planning
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Flush
from eagleray.broker.messages import IMPLICIT_VERSION
from tests.simulation.cluster.branched import BranchedProducer
from tests.simulation.cluster.clocks import CLOCK_FAULTS, CLOCK_SETTINGS, TIMEOUT_MS, quick_looks
from tests.simulation.cluster.coverage import kinds_that_bring
from tests.simulation.cluster.evidence import check_history
from tests.simulation.cluster.fault_plan import FaultPlan
from tests.simulation.cluster.faults import METADATA_FAULTS, TOPIC_FAULTS, Faults
from tests.simulation.cluster.lanes import Asked, Replied
from tests.simulation.cluster.liveness import Liveness
from tests.simulation.cluster.loop import Clock
from tests.simulation.cluster.machine import DATA, SimulatedMachine
from tests.simulation.cluster.passing_topics import TopicOwner
from tests.simulation.cluster.places import USER_PARTITIONS
from tests.simulation.cluster.pools import PoolOwner
from tests.simulation.cluster.prepared import Completer, PreparingProducer
from tests.simulation.cluster.producers import IdempotentProducer, Producer, TransactionalProducer
from tests.simulation.cluster.reader import Operator, Reader
from tests.simulation.cluster.resolved import ResolvedProducer
from tests.simulation.cluster.states import States
from tests.simulation.cluster.tagged import TaggedDriver
from tests.simulation.cluster.transformer import Transformer
from tests.simulation.cluster.version_1 import Version1Producer
from tests.simulation.cluster.watch import Watch
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.schedule import Schedule, Violation

TROUBLED_MS = 8000
HEALED_MS = 60_000
LOOK_INTERVAL_MS = 20
SCRUB_INTERVAL_MS = 400
COMPACTION_INTERVAL_MS = 500
SWEEP_INTERVAL_MS = 700
STEP_BYTES = 6000
INTERNAL_CONFIGS = {"min.cleanable.dirty.ratio": "0.2", "index.interval.bytes": "200"}
BEGINNING_MS = 60_000
ROLES = ("controller", "allocator", "coordinator", "groups", "markers", "leader")
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.segment.bytes": "1024",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "1024",
    "min.insync.replicas": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "resolver.answer.timeout.ms": "400",
    "leader.imbalance.check.interval.seconds": "3",
    "replica.lag.time.max.ms": "400",
    "replica.push.max.bytes": "600",
    "replica.push.timeout.ms": "120",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "150",
    "leader.lease.ms": "700",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.lease.ms": "320",
    "controller.quorum.heartbeat.interval.ms": "60",
    "controller.quorum.push.timeout.ms": "120",
    "controller.quorum.push.max.bytes": "1000",
}

ALONE_SETTINGS = {
    "min.insync.replicas": "1",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
}


PASSING_SETTINGS = {"file.delete.delay.ms": "700"}
LATE_FLUSH_MS = 400


class Harness:
    """One simulated cluster: three voters, three partitions of users', one of transactions and one of offsets."""

    def __init__(
        self,
        seed: int,
        *,
        prepares: bool = False,
        pools: bool = False,
        branches: bool = False,
        by_connections: bool = False,
        tags: bool = False,
        loses_metadata: bool = False,
        damages_files: bool = False,
        is_alone: bool = False,
        wanted: Collection[str] = (),
        jumps_clocks: bool = False,
        topics: bool = False,
    ) -> None:
        self.schedule = Schedule(seed)
        self.wanted = wanted
        """What has not happened in the worlds before this one, and is to happen here."""
        self.fault_plan = FaultPlan.draw(self.schedule, is_version_2=prepares or pools or branches or tags)
        self.fault_plan = self.fault_plan.bringing(kinds_that_bring(wanted))
        if by_connections:
            self.fault_plan = msgspec.structs.replace(self.fault_plan, transaction_version=1)
        if loses_metadata:
            kinds = (*self.fault_plan.kinds, *METADATA_FAULTS)
            self.fault_plan = msgspec.structs.replace(self.fault_plan, kinds=kinds)
        self._has_topics = topics
        if topics and not is_alone:
            self.fault_plan = self.fault_plan.moving(tuple(TOPIC_FAULTS))
        if damages_files:
            self.fault_plan = self.fault_plan.damaging()
        if is_alone:
            self.fault_plan = self.fault_plan.alone()
        if jumps_clocks:
            self.fault_plan = self.fault_plan.jumping(tuple(CLOCK_FAULTS), TIMEOUT_MS)
        self.jumps_clocks = jumps_clocks
        self.began_ms: dict[tuple[str, int], int] = {}
        """When the transaction of a producer began, where clocks jump."""
        self.network = Network(self.schedule, NetworkFaults())
        self.network.dropped = self._dropped
        self.touched: set[int] = set()
        self._violation: BaseException | None = None
        self.watch = Watch(self, USER_PARTITIONS)
        node_ids = [100 * number for number in range(self.fault_plan.nodes)]
        self.controllers = tuple(node_ids[:3])
        self.machines = {node_id: self._machine(node_id) for node_id in node_ids}
        self.states = States(self)
        self.network.struck = self.states.struck_sender
        self.operator = Operator(self)
        self.readers = [Reader(self, partition) for partition in USER_PARTITIONS]
        each = self.fault_plan.transactions
        self.producers: list[Producer] = [
            IdempotentProducer(self, "idempotent", 2 * each),
            TransactionalProducer(self, "transfer-1", each),
            TransactionalProducer(self, "transfer-2", each),
        ]
        # Either in a world of its own, so that each goes deeper.
        kind = ResolvedProducer if seed % 2 else PreparingProducer
        self.preparing = [kind(self, "prepared", 2 * each)] if prepares else []
        self.producers += self.preparing
        self.pool_ledger: dict[tuple[str, ProducerIdentity], bool] = {}
        """What the other system has decided about the slots of the pool, by their names and tokens."""
        self.producers += [PoolOwner(self, f"owner-{number}", each) for number in range(2) if pools]
        self.producers += [BranchedProducer(self, "branched", 2 * each)] if branches else []
        self.producers += [TaggedDriver(self, "tagged", 2 * each)] if tags else []
        self.by_connections = [
            Version1Producer(self, f"version-1-{number}", each) for number in range(2) if by_connections
        ]
        self.producers += self.by_connections
        self.completers = [Completer(self, f"completer-{number}") for number in range(2) if prepares]
        self.topic_owners = [TopicOwner(self, *each) for each in enumerate(self._passing_topics())]
        self.transformer = Transformer(self)
        if self.fault_plan.transaction_version < IMPLICIT_VERSION:
            self.network.spared = frozenset({each.name for each in (*self.producers, self.transformer)})
        self.faults = Faults(self)
        self._liveness = Liveness(self)

    def _passing_topics(self) -> list[dict[str, str]]:
        """The settings of the topics of each owner; a machine alone also has some that are flushed late."""
        if not self._has_topics:
            return []
        fault_plan = self.fault_plan
        configs = {"min.insync.replicas": str(fault_plan.least_in_sync), "flush": fault_plan.flush.value}
        late = {"flush": Flush.OS.value, "flush.ms": str(LATE_FLUSH_MS)}
        return [configs, configs | late] if fault_plan.nodes == 1 else [configs]

    def _machine(self, node_id: int) -> SimulatedMachine:
        chance = self.schedule.chance
        clock = Clock(self.schedule, 1.0, 1000)
        if self.fault_plan.is_skewed:
            self.schedule.fired["clock skewed"] += 1
            clock = Clock(self.schedule, chance.uniform(0.92, 1.08), chance.randint(1000, 10**6))
        roles = ROLES if node_id in self.controllers else ROLES[1:]
        settings = SETTINGS | {"flush": self.fault_plan.flush.value}
        if self.fault_plan.nodes == 1:
            settings |= ALONE_SETTINGS
        if self.jumps_clocks:
            settings |= CLOCK_SETTINGS
        if self._has_topics:
            settings |= PASSING_SETTINGS
        spec = NodeSpec(
            cluster="simulated",
            node_id=node_id,
            roles=roles,
            data_dir=DATA,
            host=f"machine-{node_id}",
            token=b"",
            settings=settings,
            machine=f"machine-{node_id}",
            controllers=self.controllers,
        )
        return SimulatedMachine(self, spec, clock)

    def keepers(self, partition: TopicPartition) -> list[SimulatedMachine]:
        """The machines that keep a partition."""
        state = self.watch.image.find(partition)
        return [] if state is None else [self.machines[node_id] for node_id in state.replicas]

    def violate(self, error: BaseException) -> None:
        """Note what must never be; whatever is in the way of raising it, the step ends with it."""
        self._violation = self._violation or error

    def _dropped(self, source: Any, target: Any, frame: Any) -> None:
        """Let the node that asks notice, after a while, that nothing comes through on a connection."""
        match frame:
            case Asked():
                asker, process = source, frame.from_process
            case Replied():
                asker, process = target, frame.to_process
            case _:
                return
        at = self.machines.get(asker) or next(client for client in self._clients() if client.name == asker)

        def notice() -> None:
            loop = at.loop if isinstance(at, SimulatedMachine) else at._loop
            if loop is not None and at.endpoint is not None:
                loop.run(at.endpoint.break_link, process, frame.link)

        self.schedule.after(self.schedule.chance.randint(20, 1200), notice)

    def _clients(self) -> list[Any]:
        return [
            self.operator,
            *self.readers,
            *self.producers,
            *self.completers,
            *self.topic_owners,
            self.transformer,
        ]

    # Running

    def run(self) -> Counter[str]:
        """Begin, run in trouble, heal, and run until all is well; return what happened how often."""
        try:
            self._run()
        finally:
            self._end()
        return self.schedule.fired

    def _end(self) -> None:
        for loop in [machine.loop for machine in self.machines.values()]:
            if loop is not None:
                loop.kill()
        for client in self._clients():
            client.crash()

    def _run(self) -> None:
        first = self.controllers[0]
        format_directory(self.machines[first].disk, DATA, first)
        for machine in self.machines.values():
            machine.start()
        self.operator.start()
        self._run_until(self._has_begun, BEGINNING_MS, "did not begin")
        for client in self._clients():
            client.start()
        self.network.network_faults = self.fault_plan.network_faults
        self.faults.begin()
        until_ms = self.schedule.now_ms + TROUBLED_MS
        while self.schedule.now_ms < until_ms and not self._is_idle(until_ms):
            self._step()
        self._heal()
        self._run_until(self._liveness.is_well, HEALED_MS, "was healed and did not become well")
        self.watch.finish()
        check_history(self)

    def _run_until(self, is_so: Any, longest_ms: int, failure: str) -> None:
        until_ms = self.schedule.now_ms + longest_ms
        while not is_so():
            if self.schedule.now_ms > until_ms:
                raise Violation(f"the world {failure}: {self._liveness.describe()}")
            next_look_ms = self.schedule.now_ms + LOOK_INTERVAL_MS
            while self.schedule.now_ms < next_look_ms:
                self._step()

    def _step(self) -> None:
        self.schedule.step()
        self.watch.step()
        if self._violation is not None:
            raise self._violation

    def _has_begun(self) -> bool:
        return self.operator.is_done and all(self.watch.image.find(each) for each in self.watch.partitions)

    def _is_idle(self, until_ms: int) -> bool:
        return (
            all(producer.is_done for producer in self.producers) and self.schedule.now_ms > until_ms - TROUBLED_MS // 2
        )

    def _heal(self) -> None:
        self.faults.is_over = True
        self.network.network_faults = NetworkFaults()
        self.network.heal()
        for machine in self.machines.values():
            machine.disk.heal()
            machine.mend_strays()
            machine.put_back()
            machine.wake()
            machine.start()
        for client in self._clients():
            client.start()


@contextlib.contextmanager
def quick_housekeeping(sweep_interval_ms: int = stray_logs.INTERVAL_MS) -> Iterator[None]:
    """Have logs looked after all the time: scrubbed, and compacted a few records at a time as soon as that can be."""
    intervals = {"SCRUB_INTERVAL_MS": SCRUB_INTERVAL_MS, "CHECKPOINT_INTERVAL_MS": COMPACTION_INTERVAL_MS}
    with (
        mock.patch.multiple(log_manager, STEP_BYTES=STEP_BYTES, **intervals),
        mock.patch.dict(planning._INTERNAL_CONFIGS, INTERNAL_CONFIGS),
        mock.patch.object(stray_logs, "INTERVAL_MS", sweep_interval_ms),
    ):
        yield


def simulate_prepared(seed: int) -> Counter[str]:
    """Run the world of a seed, with clients that commit in two phases."""
    return simulate_cluster(seed, prepares=True)


def simulate_pools(seed: int) -> Counter[str]:
    """Run the world of a seed, with two programs that take one pool from each other."""
    return simulate_cluster(seed, pools=True)


def simulate_branches(seed: int) -> Counter[str]:
    """Run the world of a seed, with a driver whose workers write into branches, some of them late."""
    return simulate_cluster(seed, branches=True)


def simulate_tags(seed: int) -> Counter[str]:
    """Run the world of a seed, with a driver that begins its tags again, and has branches written for each."""
    return simulate_cluster(seed, tags=True)


def simulate_version_1(seed: int) -> Counter[str]:
    """Run the world of a seed, with producers of version 1 whose connections are late."""
    return simulate_cluster(seed, by_connections=True)


def simulate_lost_metadata(seed: int) -> Counter[str]:
    """Run the world of a seed, with voters that lose metadata, and directories that lose what says whose they are."""
    return simulate_cluster(seed, loses_metadata=True)


def simulate_disks(seed: int) -> Counter[str]:
    """Run the world of a seed, with disks that give back something else than was written, in files of every kind."""
    return simulate_cluster(seed, damages_files=True, topics=True)


def simulate_alone(seed: int) -> Counter[str]:
    """Run the world of a seed, with one machine whose disk gives back something else than was written."""
    return simulate_cluster(seed, is_alone=True, topics=True)


def simulate_topics(seed: int) -> Counter[str]:
    """Run the world of a seed, with topics that come and go, and machines that are drained."""
    return simulate_cluster(seed, topics=True)


def simulate_clocks(seed: int) -> Counter[str]:
    """Run the world of a seed, with wall clocks that jump apart from the steady ones."""
    with quick_looks():
        return simulate_cluster(seed, jumps_clocks=True)


def simulate_cluster(seed: int, *, wanted: Collection[str] = (), **has: bool) -> Counter[str]:
    """Run the world of a seed, with what `Harness` may have besides; whatever is wrong raises, with the seed."""
    try:
        sweeps = {"sweep_interval_ms": SWEEP_INTERVAL_MS} if has.get("topics") else {}
        with quick_housekeeping(**sweeps):
            return Harness(seed, wanted=wanted, **has).run()
    except Exception as error:
        raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error
