"""A whole cluster in one process: nodes, controller, clients, network and what goes wrong, from one seed."""

from collections import Counter

from tests.simulation.network import Network, NetworkFaults
from tests.simulation.partition.checks import Checks
from tests.simulation.partition.clients import SimulatedConsumer, SimulatedProducer, TransactionalProducer
from tests.simulation.partition.control import SimulatedController
from tests.simulation.partition.faults import Faults, PartitionFaultPlan
from tests.simulation.partition.node import SimulatedNode
from tests.simulation.partition.parts import Parts
from tests.simulation.schedule import Schedule, Violation

PRODUCERS = 2
REQUESTS_EACH = 25
TROUBLED_MS = 12_000
HEALED_MS = 60_000


class PartitionHarness:
    """One simulated cluster with one replicated partition."""

    def __init__(self, seed: int, parts: Parts | None = None) -> None:
        self.parts = parts or Parts()
        self.schedule = Schedule(seed)
        self.fault_plan = PartitionFaultPlan.draw(self.schedule)
        self.network = Network(self.schedule, self.fault_plan.network_faults)
        self.checks = Checks(self)
        self.nodes: dict[int, SimulatedNode] = {}
        node_ids = list(range(1, self.fault_plan.nodes + 1))
        self.controller = SimulatedController(
            self, node_ids, self.fault_plan.replication_factor, self.fault_plan.least_in_sync
        )
        for node_id in node_ids:
            self.nodes[node_id] = self._node(node_id)
        for node in self.nodes.values():
            node.start()
        self._producers = [SimulatedProducer(self, 100 + number, REQUESTS_EACH) for number in range(PRODUCERS)]
        self._producers.append(TransactionalProducer(self, 200, REQUESTS_EACH))
        self._consumer = SimulatedConsumer(self)
        self._faults = Faults(self, self.fault_plan)

    def _node(self, node_id: int) -> SimulatedNode:
        chance = self.schedule.chance
        if not self.fault_plan.is_skewed:
            return SimulatedNode(self, node_id, 1.0, 0)
        self.schedule.fired["clock skewed"] += 1
        return SimulatedNode(self, node_id, chance.uniform(0.92, 1.08), chance.randint(0, 10**6))

    def keepers(self) -> list[SimulatedNode]:
        """The nodes that keep the partition."""
        return [self.nodes[node_id] for node_id in self.controller.state.replicas]

    def run(self) -> Counter[str]:
        """Run in trouble, heal, and run until all is well; return what happened how often."""
        while self.schedule.now_ms < TROUBLED_MS and not self._is_done():
            self._step()
        self._heal()
        self.checks.step()
        until_ms = self.schedule.now_ms + HEALED_MS
        while not self._is_well():
            if self.schedule.now_ms > until_ms:
                raise Violation(f"a healed world did not become well: {self.controller.state}, {self._where()}")
            self._step()
        self.checks.finish()
        return self.schedule.fired

    def _step(self) -> None:
        self.schedule.step()
        self.checks.step()

    def _is_done(self) -> bool:
        return all(producer.is_done for producer in self._producers) and self.schedule.now_ms > TROUBLED_MS // 3

    def _heal(self) -> None:
        self._faults.is_over = True
        self.network.network_faults = NetworkFaults()
        self.network.heal()
        self.controller.start_unless_up()
        for node in self.nodes.values():
            node.disk.mend()
            node.wake()
            if not node.is_up:
                node.start()

    def _is_well(self) -> bool:
        state = self.controller.state
        if state.removing or set(state.isr) != set(state.replicas) or not all(each.is_done for each in self._producers):
            return False
        ends = {(each.log.log_end_offset, each.log.high_watermark) for each in self.keepers() if each.log is not None}
        is_read = self._consumer.offset == self.checks.committed_end
        return len(ends) == 1 and ends == {(self.checks.committed_end,) * 2} and is_read

    def _where(self) -> list[tuple[int, int, int, bool]]:
        return [
            (node.node_id, node.log.high_watermark, node.log.log_end_offset, node.leader is not None)
            for node in self.nodes.values()
            if node.log is not None
        ]


def simulate(seed: int, parts: Parts | None = None) -> Counter[str]:
    """Run the world of a seed; whatever is wrong raises, with the seed."""
    parts = parts or Parts()
    try:
        with parts.during():
            return PartitionHarness(seed, parts).run()
    except Exception as error:
        raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error
