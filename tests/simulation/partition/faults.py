"""What goes wrong in a simulated world: each seed has its own choice of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log import Flush
from tests.simulation.network import NetworkFaults
from tests.simulation.schedule import Schedule
from tests.support.faults import Fault, Outcome

if TYPE_CHECKING:
    from tests.simulation.partition.harness import PartitionHarness
    from tests.simulation.partition.node import SimulatedNode


class PartitionFaultPlan(msgspec.Struct, frozen=True):
    """Which faults a seed has, and how often one strikes. A world with few of them goes deeper into each."""

    network_faults: NetworkFaults
    kinds: tuple[str, ...]
    interval_ms: int
    nodes: int
    replication_factor: int
    least_in_sync: int
    is_skewed: bool
    flush: Flush
    longest_pause_ms: int
    """How long producers think between two batches."""

    @classmethod
    def draw(cls, schedule: Schedule) -> "PartitionFaultPlan":
        chance = schedule.chance
        network_faults = NetworkFaults(
            loss=chance.choice([0, 0, 0.02, 0.1]),
            duplication=chance.choice([0, 0, 0.05, 0.2]),
            delay=chance.choice([0, 0, 0.03, 0.15]),
        )
        kinds = tuple(chance.sample(list(FAULTS), chance.choice([2, 4, 6, 8])))
        factor = chance.choice([1, 2, 3, 3, 3, 3])
        return cls(
            network_faults,
            kinds,
            chance.choice([150, 400, 900]),
            max(factor, chance.choice([3, 3, 4])),
            factor,
            min(factor, chance.choice([1, 2, 2])),
            chance.random() < 0.5,
            chance.choice([Flush.OS, Flush.OS, Flush.COMMIT]),
            chance.choice([20, 150, 400]),
        )


class Faults:
    """Strikes a world now and then, until it is healed."""

    def __init__(self, harness: "PartitionHarness", fault_plan: PartitionFaultPlan) -> None:
        self._harness = harness
        self._fault_plan = fault_plan
        self._schedule = harness.schedule
        self.is_over = False
        self._plan()

    def _plan(self) -> None:
        self._schedule.after(self._schedule.chance.randint(10, 2 * self._fault_plan.interval_ms), self._strike)

    def _strike(self) -> None:
        if not self.is_over:
            FAULTS[self._schedule.chance.choice(self._fault_plan.kinds)](self)
            self._plan()

    def _fired(self, fault: str, node: "SimulatedNode | None" = None) -> None:
        part = ""
        if node is not None:
            part = " of a leader" if node.leader is not None else " of a follower"
        self._schedule.fired[fault + part] += 1

    def _pick(self) -> "SimulatedNode":
        """Choose a node, rather the leader."""
        nodes = self._harness.nodes
        leader = self._harness.controller.state.leader
        if leader in nodes and self._schedule.happens(0.5):
            return nodes[leader]
        return nodes[self._schedule.chance.choice(list(nodes))]

    def crash(self, *, loses_power: bool = False) -> None:
        node = self._pick()
        if node.is_up:
            self._fired("loss of power" if loses_power else "crash", node)
            node.crash(loses_power=loses_power)
            self._schedule.after(self._schedule.chance.choice([5, 100, 500, 1500, 3000]), lambda: self._restart(node))

    def _restart(self, node: "SimulatedNode") -> None:
        if not node.is_up:
            node.start()

    def lose_power(self) -> None:
        """Without flushes only where what one machine loses is elsewhere; with them anywhere."""
        if self._fault_plan.flush is Flush.COMMIT or self._can_lose_one():
            self.crash(loses_power=True)

    def replace_machine(self) -> None:
        node = self._pick()
        if node.is_up and self._can_lose_one():
            self._fired("loss of a machine", node)
            node.crash(loses_power=True)
            node.replace_disk()
            self._schedule.after(self._schedule.chance.choice([5, 500, 3000]), lambda: self._restart(node))

    def _can_lose_one(self) -> bool:
        """Whether another is in sync, and none is still about to tell what it has lost."""
        has_spare = self._fault_plan.least_in_sync >= 2 and len(self._harness.controller.state.isr) >= 2
        return has_spare and not any(node.loss for node in self._harness.nodes.values())

    def stop_all(self) -> None:
        """The whole cluster goes down, and comes back in any order."""
        self._schedule.fired["crash of all nodes"] += 1
        loses_power = self._fault_plan.flush is Flush.COMMIT and self._schedule.happens(0.5)
        self._schedule.fired["loss of power everywhere"] += loses_power
        self._harness.controller.crash()
        for node in self._harness.nodes.values():
            if node.is_up:
                node.crash(loses_power=loses_power)
            self._schedule.after(self._schedule.chance.randint(1, 2500), self._restarting(node))
        self._schedule.after(self._schedule.chance.randint(1, 2500), self._harness.controller.start_unless_up)

    def _restarting(self, node: "SimulatedNode") -> Callable[[], None]:
        return lambda: self._restart(node)

    def pause(self) -> None:
        node = self._pick()
        if node.is_up:
            self._fired("pause", node)
            node.pause()
            self._schedule.after(self._schedule.chance.choice([50, 400, 900, 2500]), node.wake)

    def part_one_way(self) -> None:
        source, target = self._schedule.chance.sample(self._places(), 2)
        self._fired("partition one way")
        self._harness.network.cut(source, target)
        self._heal_later()

    def part_both_ways(self) -> None:
        """Part some places from all others."""
        places = self._places()
        apart = set(self._schedule.chance.sample(places, self._schedule.chance.randint(1, len(places) - 1)))
        self._fired("partition both ways")
        for source in places:
            for target in places:
                if (source in apart) != (target in apart):
                    self._harness.network.cut(source, target)
        self._heal_later()

    def _heal_later(self) -> None:
        self._schedule.after(self._schedule.chance.choice([100, 600, 1500, 3000]), self._harness.network.heal)

    def _places(self) -> list[object]:
        return ["controller", *self._harness.nodes]

    def crash_controller(self) -> None:
        controller = self._harness.controller
        if controller.is_up:
            self._fired("crash of the controller")
            controller.crash()
            self._schedule.after(self._schedule.chance.choice([5, 300, 1200]), controller.start_unless_up)

    def delete_records(self) -> None:
        """A client deletes the beginning of the log, which a follower that is away may still need."""
        for node in self._harness.nodes.values():
            if node.leader is not None and node.log is not None:
                self._fired("records deleted")
                node.delete_records(max(node.log.high_watermark - self._schedule.chance.randint(0, 5), 0))

    def break_disk(self) -> None:
        """Have one of a disk's next changes fail, or kill the process with a part of it done."""
        chance = self._schedule.chance
        outcome = chance.choice([Outcome.FAIL, Outcome.KILL])
        fault = Fault(outcome, skip=chance.randint(0, 10), done_bytes=chance.choice([0, 1, 50]))
        self._pick().disk.break_once(fault)

    def elect_preferred(self) -> None:
        self._harness.controller.elect_preferred()

    def move(self) -> None:
        nodes = list(self._harness.nodes)
        target = self._schedule.chance.sample(nodes, self._fault_plan.replication_factor)
        self._harness.controller.reassign(target)


FAULTS: dict[str, Callable[[Faults], None]] = {
    "crash": Faults.crash,
    "lose power": Faults.lose_power,
    "replace machine": Faults.replace_machine,
    "stop all": Faults.stop_all,
    "pause": Faults.pause,
    "part one way": Faults.part_one_way,
    "part both ways": Faults.part_both_ways,
    "crash controller": Faults.crash_controller,
    "delete records": Faults.delete_records,
    "break disk": Faults.break_disk,
    "elect preferred": Faults.elect_preferred,
    "move": Faults.move,
}
