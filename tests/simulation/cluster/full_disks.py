"""Watches that nodes write nothing of clients while their disk is full, and counts that it was."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eagleray.broker.log import PartitionLog
from eagleray.broker.runtime.disk_watch import DiskState
from tests.simulation.schedule import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import SimulatedNode

_TAKING = (DiskState.OK, DiskState.LOW)


def watch_disk_of(node: "SimulatedNode") -> None:
    """Watch what a node makes of its disk, and what it appends meanwhile; markers and metadata go on."""
    DiskOfNode(node)


class DiskOfNode:
    """What a node knew of its disk, and since when. What it finds out in a turn need not count for all of the turn."""

    def __init__(self, node: "SimulatedNode") -> None:
        self._node = node
        self._guard = node.disk_guard
        self._since_ms = 0
        self._guard._say = self._changed  # type: ignore[method-assign]
        adopt = node.replica_manager.logs.adopt

        def adopted(opening: Any, log: PartitionLog) -> PartitionLog:
            log.append = self._watched(log.append)  # type: ignore[method-assign]
            log.append_records = self._watched(log.append_records)  # type: ignore[method-assign]
            return adopt(opening, log)

        node.replica_manager.logs.adopt = adopted  # type: ignore[method-assign]

    def _changed(self) -> None:
        self._since_ms = self._node.steady_ms()
        machine = self._node.simulated
        if self._guard.watch.state is DiskState.FULL and machine.disk.free_bytes is not None:
            machine.harness.states.struck("disk without room", machine)

    def _watched(self, append: Callable[..., Any]) -> Callable[..., Any]:
        def appended(*args: Any, **named: Any) -> Any:
            if self._guard.watch.state not in _TAKING and self._node.steady_ms() > self._since_ms:
                raise Violation(f"node {self._node.spec.node_id} writes for clients on a disk without room")
            return append(*args, **named)

        return appended
