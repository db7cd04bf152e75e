"""What a node is at the moment when something goes wrong with it: the table of faults by states."""

from typing import TYPE_CHECKING

from eagleray.actors.roles.controller import ControllerRole
from tests.simulation.cluster.places import OFFSETS, TRANSACTIONS, USER_PARTITIONS

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness
    from tests.simulation.cluster.machine import SimulatedMachine

LEADER = "leader"
IN_SYNC = "follower in sync"
OUT_OF_SYNC = "follower out of sync"
CONTROLLER = "controller"
COORDINATOR = "coordinator"
GROUP_COORDINATOR = "group coordinator"
STATES = (LEADER, IN_SYNC, OUT_OF_SYNC, CONTROLLER, COORDINATOR, GROUP_COORDINATOR)


def cell(fault: str, state: str) -> str:
    """How a cell of the table is counted."""
    return f"{fault} | {state}"


class States:
    """Tells what nodes are, and counts what strikes them by that."""

    def __init__(self, harness: "Harness") -> None:
        self._harness = harness

    def of(self, machine: "SimulatedMachine") -> list[str]:
        """Everything that a node is now; a node that is down is nothing."""
        node = machine.node
        if node is None:
            return []
        found = []
        states = [watch.state for watch in self._harness.watch.partitions.values() if watch.state is not None]
        kept = [state for state in states if machine.node_id in state.replicas]
        if any(node.replica_manager.leader(partition) is not None for partition in USER_PARTITIONS):
            found.append(LEADER)
        if any(machine.node_id in state.isr and state.leader != machine.node_id for state in kept):
            found.append(IN_SYNC)
        if any(machine.node_id not in state.isr for state in kept):
            found.append(OUT_OF_SYNC)
        role = machine.role(ControllerRole)
        if role is not None and role._state_machine is not None:
            found.append(CONTROLLER)
        if node.replica_manager.leader(TRANSACTIONS) is not None:
            found.append(COORDINATOR)
        if node.replica_manager.leader(OFFSETS) is not None:
            found.append(GROUP_COORDINATOR)
        return found

    def struck(self, fault: str, machine: "SimulatedMachine") -> None:
        """Count a fault that strikes a node."""
        fired = self._harness.schedule.fired
        fired[fault] += 1
        for state in self.of(machine):
            fired[cell(fault, state)] += 1

    def struck_sender(self, fault: str, source: object) -> None:
        """Count what goes wrong with a message of a node; the network has counted the fault itself."""
        machine = self._harness.machines.get(source)  # type: ignore[call-overload]
        if machine is not None:
            for state in self.of(machine):
                self._harness.schedule.fired[cell(fault, state)] += 1
