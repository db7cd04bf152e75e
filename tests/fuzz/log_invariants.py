"""What must be so of every log of a cluster, whatever strangers have sent."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from eagleray.actors.roles.transaction_coordinator import TransactionCoordinatorRole
from eagleray.actors.roles.transaction_coordinator import _replay as replay_transactions
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.metadata.topics import TRANSACTION_STATE
from tests.fuzz.violation import Violation
from tests.simulation.cluster.partition_watch import PartitionWatch
from tests.simulation.schedule import Violation as WatchViolation
from tests.support.log_checks import aborted_in, describe_producers, epochs_of

if TYPE_CHECKING:
    from tests.fuzz.cluster import FuzzedCluster


class _Fired:
    """What a watch of the simulator counts in; nothing is planned here."""

    def __init__(self) -> None:
        self.fired: Counter[str] = Counter()


class LogInvariants:
    """The simulator's watch of each partition, and what is known of logs and coordinators of one process.

    What has once been below a high watermark stays as it was; the offsets are in order; each open transaction in a
    partition is one that its coordinator knows; and what a coordinator knows is what its log says.
    """

    def __init__(self, cluster: "FuzzedCluster") -> None:
        self._cluster = cluster
        self._watches: dict[tuple[TopicPartition, bytes], PartitionWatch] = {}
        self._fired: Any = _Fired()

    def look(self) -> None:
        known = self._look_at_coordinators()
        for node in self._cluster.nodes.values():
            manager = node.replica_manager
            for partition in manager.logs:
                log = manager.logs[partition]
                if not log.is_online:
                    raise Violation(f"{partition} has gone offline")
                replica = manager._replicas.get(partition)
                watch = self._watch(partition, manager.logs.topic_id_of(partition))
                try:
                    watch.look_at(node.spec.node_id, node.incarnation, log, replica, is_rotten=False)
                except WatchViolation as violation:
                    raise Violation(str(violation)) from violation
                self._look_at_producers(partition, log, known)
            if manager.offline:
                raise Violation(f"offline on node {node.spec.node_id}: {[str(each) for each in manager.offline]}")

    def _watch(self, partition: TopicPartition, topic_id: bytes) -> PartitionWatch:
        key = partition, topic_id
        if key not in self._watches:
            self._watches[key] = PartitionWatch(partition, self._fired)
        return self._watches[key]

    def _look_at_producers(self, partition: TopicPartition, log: PartitionLog, known: dict[int, set[Any]]) -> None:
        most = log.config.max_producer_ids
        # A replay takes more, and forgets it when it may.
        if len(log.producers) > most and not log.recovery.scanned_bytes + log.recovery.known_bytes:
            raise Violation(f"{partition} remembers {len(log.producers)} producers, and may {most}")
        for entry in log.producers:
            if entry.is_open and partition not in known.get(entry.producer_id, ()):
                raise Violation(f"{partition} has a transaction of producer {entry.producer_id} that none will end")

    def _look_at_coordinators(self) -> dict[int, set[Any]]:
        """The partitions of every transaction that is not over, by its producer, as its coordinator knows it."""
        known: dict[int, set[Any]] = {}
        for node in self._cluster.nodes.values():
            for role in node._roles:
                if isinstance(role, TransactionCoordinatorRole):
                    self._look_at_coordinator(node, role, known)
        return known

    def _look_at_coordinator(self, node: Any, role: TransactionCoordinatorRole, known: dict[int, set[Any]]) -> None:
        written = {}
        for partition in node.replica_manager.logs:
            if partition.topic == TRANSACTION_STATE:
                written |= replay_transactions(node.replica_manager.logs[partition].batches())
        for transaction in role._state_machine:
            name, current = transaction.transactional_id, transaction.current
            if not transaction.is_ahead and transaction.shard.is_loaded and written.get(name) != current:
                raise Violation(f"{name!r} is {current}, and its log says {written.get(name)}")
            for producer_id in (current.producer_id, current.next_producer_id):
                known.setdefault(producer_id, set()).update(current.partitions)
            branches = {} if current.branching is None else current.branching.branches
            for producer_id, branch in branches.items():
                known.setdefault(producer_id, set()).update(branch.partitions)

    def check_recovery(self) -> None:
        """Open a copy of every log as after the death of the process: it knows what the log knows."""
        disk = self._cluster.disk.copy()
        disk.crash_process()
        for node in self._cluster.nodes.values():
            logs = node.replica_manager.logs
            for partition in logs:
                log = logs[partition]
                again = PartitionLog.open(disk, logs.directory_of(partition), log.config, now_ms=self._cluster.now_ms)
                found, expected = _state_of(again), _state_of(log)
                if found != expected or not _are_recovered(log, again):
                    told = expected, describe_producers(log), found, describe_producers(again)
                    raise Violation(f"{partition} is otherwise after a recovery: {told}")
                if again.high_watermark > log.high_watermark:
                    raise Violation(f"{partition} was recovered with more below its high watermark")


def _state_of(log: PartitionLog) -> tuple[Any, ...]:
    return log.log_start_offset, log.log_end_offset, epochs_of(log), aborted_in(log)


def _are_recovered(log: PartitionLog, again: PartitionLog) -> bool:
    """Whether a recovery knows the producers that the log knows; of a full log also those that had to make room."""
    known, found = describe_producers(log), describe_producers(again)
    others = found.keys() - known.keys()
    is_full = len(known) >= log.config.max_producer_ids
    return all(found.get(each) == state for each, state in known.items()) and (
        not others or (is_full and not any(again.producers.get(each).is_open for each in others))
    )
