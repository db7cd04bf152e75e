"""Whether a simulated world that was healed has become well."""

from typing import TYPE_CHECKING

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.runtime.clock_watch import SLACK_MS
from tests.simulation.cluster.partition_watch import is_damaged
from tests.simulation.cluster.places import COORDINATED, INPUTS, READING_GROUP, TRANSACTIONS, TRANSFORM_GROUP

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness
    from tests.simulation.cluster.machine import SimulatedMachine
    from tests.simulation.cluster.reader import Reader


class Liveness:
    """Looks at a whole world, which it never changes."""

    def __init__(self, harness: "Harness") -> None:
        self._harness = harness

    def is_well(self) -> bool:
        """Whether everything is done, replicated everywhere and known to each node that has to know it."""
        clients = [*self._harness.producers, *self._harness.completers, *self._harness.topic_owners]
        if not all(client.is_done for client in clients):
            return False
        if any(machine.directories.deleted() for machine in self._harness.machines.values()):
            return False
        if any(machine.disk.is_rotten and self._shows_rot(machine) for machine in self._harness.machines.values()):
            return False
        for partition, watch in self._harness.watch.partitions.items():
            state = watch.state
            if state is None or state.removing or set(state.isr) != set(state.replicas):
                return False
            logs = [machine.log_of(partition) for machine in self._harness.keepers(partition)]
            if not all(log is not None and self._is_at_end(partition, log) for log in logs):
                return False
        return (
            all(map(self._has_read_all, self._harness.readers))
            and self._has_transformed_all()
            and self._is_coordinated()
            and all(map(self._goes_by_its_clock, self._harness.machines.values()))
        )

    def _goes_by_its_clock(self, machine: "SimulatedMachine") -> bool:
        """Whether the node follows its wall clock, wherever that has come to rest."""
        node = machine.node
        return node is not None and node.clock.may_expire and abs(node.now_ms() - node._wall_ms()) <= SLACK_MS

    def _has_read_all(self, reader: "Reader") -> bool:
        end = self._harness.watch.partitions[reader.partition].committed_end
        return reader.offset == end == self._harness.watch.offsets.offset_of(READING_GROUP, reader.partition)

    def _has_transformed_all(self) -> bool:
        return all(
            self._harness.watch.offsets.offset_of(TRANSFORM_GROUP, each)
            == self._harness.watch.partitions[each].committed_end
            for each in INPUTS
        )

    def _is_coordinated(self) -> bool:
        """Whether the leader of each coordinator's partition has loaded it, and no other node believes to lead it."""
        for partition in COORDINATED:
            state = self._harness.watch.partitions[partition].state
            assert state is not None, "it was there when the world began"
            believed = {
                machine.node_id: epoch
                for machine in self._harness.machines.values()
                if (epoch := machine.coordinates_at(partition)) is not None
            }
            if believed != {state.leader: state.leader_epoch}:
                return False
        return True

    def _shows_rot(self, machine: "SimulatedMachine") -> bool:
        """Whether something has rotted that is still part of a log; what was deleted before may lie in its files."""
        logs = [log for each in self._harness.watch.partitions if (log := machine.log_of(each)) is not None]
        return any(is_damaged(log) for log in logs)

    def _is_at_end(self, partition: TopicPartition, log: PartitionLog) -> bool:
        end = self._harness.watch.partitions[partition].committed_end
        is_stable = partition == TRANSACTIONS or log.last_stable_offset == end
        return is_stable and (log.log_end_offset, log.high_watermark) == (end, end)

    def describe(self) -> str:
        """Where everything stands, for a reader who wonders why it is not well."""
        places = []
        for partition, watch in self._harness.watch.partitions.items():
            logs = {
                machine.node_id: (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
                for machine in self._harness.machines.values()
                if (log := machine.log_of(partition)) is not None
            }
            places.append(f"{partition}: {watch.state}, committed {watch.committed_end}, logs {logs}")
        done = {client.name: client.is_done for client in [*self._harness.producers, *self._harness.topic_owners]}
        deleted = {machine.node_id: machine.directories.deleted() for machine in self._harness.machines.values()}
        read = {reader.name: reader.offset for reader in self._harness.readers}
        offsets = {key: values[-1] for key, values in self._harness.watch.offsets.values.items()}
        believed = {
            machine.node_id: [machine.coordinates_at(partition) for partition in COORDINATED]
            for machine in self._harness.machines.values()
        }
        nodes = {
            machine.node_id: (machine.is_up, machine.node is not None and machine.node.is_registered)
            for machine in self._harness.machines.values()
        }
        return "; ".join(
            [
                *places,
                f"producers {done}",
                f"deleted topics {deleted}",
                f"readers {read}",
                f"offsets {offsets}",
                f"coordinators {believed}",
                f"nodes {nodes}",
            ]
        )
