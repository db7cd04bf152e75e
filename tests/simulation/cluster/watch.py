"""What must always be so in a simulated cluster, looked at after every step, and what must be so in the end."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.actors.lanes.messages import WriteGroupMarkers
from eagleray.actors.roles.group_coordinator import GroupCoordinatorRole
from eagleray.actors.roles.transaction_coordinator import TransactionCoordinatorRole
from eagleray.actors.roles.transaction_coordinator import _replay as replay_transactions
from eagleray.actors.storage.coordinator_log import CoordinatorLog
from eagleray.broker.controller.events import RegisterNode
from eagleray.broker.controller.replica_events import ChangeIsr, NodeBeat
from eagleray.broker.groups.events import CommitOffsets, CommitTransactionOffsets, FetchOffsets
from eagleray.broker.groups.log_records import replay as replay_offsets
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import AbortedTransaction, PartitionLog
from eagleray.broker.messages import IMPLICIT_VERSION, last_epoch_ended_by
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.partitions.events import Produce, WriteMarkers
from eagleray.broker.replication.partition import Partition
from eagleray.broker.transactions.branches.branching import BRANCH_EPOCH
from eagleray.broker.transactions.events import (
    AddPartitions,
    CompleteTransaction,
    EndTransaction,
    InitProducerId,
    PrepareTransaction,
    TakePoolOver,
)
from eagleray.broker.transactions.log_records import replay
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch
from tests.simulation.cluster.compacted_watch import CompactedWatch
from tests.simulation.cluster.metadata_watch import MetadataWatch
from tests.simulation.cluster.offsets_watch import LogEnd, OffsetsWatch
from tests.simulation.cluster.partition_watch import PartitionWatch
from tests.simulation.cluster.passing_watch import PassingWatch
from tests.simulation.cluster.places import COORDINATED, OFFSETS, PASSING, TRANSACTIONS
from tests.simulation.schedule import Violation
from tests.support.pool_model import check_slot, pool_of
from tests.support.prepared_model import PreparedModel

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness
    from tests.simulation.cluster.machine import SimulatedMachine, SimulatedNode

_GROUP_QUESTIONS = CommitOffsets | CommitTransactionOffsets | FetchOffsets

LATE = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CONCURRENT_TRANSACTIONS})
"""What is said of a marker of version 1 that is late, or may be."""


class Watch:
    """All invariants of one world."""

    WATCHED: ClassVar = frozenset(
        {
            Produce,
            WriteMarkers,
            InitProducerId,
            AddPartitions,
            EndTransaction,
            PrepareTransaction,
            CompleteTransaction,
            NodeBeat,
            ChangeIsr,
            RegisterNode,
        }
        | {
            TakePoolOver,
            WriteGroupMarkers,
            CommitOffsets,
            CommitTransactionOffsets,
            FetchOffsets,
        }
    )
    """Questions whose answers are looked at."""

    def __init__(self, harness: "Harness", partitions: Iterable[TopicPartition]) -> None:
        self._harness = harness
        self.quorum = MetadataWatch(harness)
        self.fired = harness.schedule.fired
        self.transaction_log = CompactedWatch(TRANSACTIONS, harness.schedule, replay_transactions)
        self.offsets_log = CompactedWatch(OFFSETS, harness.schedule, replay_offsets)
        users = {each: PartitionWatch(each, harness.schedule) for each in partitions}
        self.partitions = users | {TRANSACTIONS: self.transaction_log, OFFSETS: self.offsets_log}
        self.passing = PassingWatch(harness, self.partitions)
        self.offsets = OffsetsWatch(self)
        self.decided: dict[tuple[int, int], bool] = {}
        """By a producer's id and epoch: whether the coordinator has decided to commit its transaction.

        In version 1, whose epoch stays, its last one; `decisions` has all of them.
        """
        self.decisions: dict[tuple[int, int], list[bool]] = {}
        self.version_1: set[int] = set()
        """The producers whose transactions are of version 1."""
        self._identities: dict[str, set[ProducerIdentity]] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self.prepared = PreparedModel()
        self._seen: dict[tuple[int, TopicPartition], tuple[object, ...]] = {}
        self._coordinator_epochs = dict.fromkeys(COORDINATED, -1)

    @property
    def image(self) -> MetadataImage:
        return self.quorum.image

    @property
    def now_ms(self) -> int:
        return self._harness.schedule.now_ms

    # What the cluster says

    def metadata_changed(self, before: MetadataImage, after: MetadataImage) -> None:
        self.passing.changed(after)
        for partition, watch in self.partitions.items():
            state = after.find(partition)
            if state is not None and state != watch.state:
                watch.changed(state)
                self._check_all_in_sync(partition)
        for node_id, node in after.nodes.items():
            machine = self._harness.machines[node_id]
            if machine.node is not None and machine.node.incarnation == node.incarnation:
                machine.may_have_lost = False

    def offsets_end(self, node: "SimulatedNode") -> LogEnd:
        """Say where the offsets log ends, as a node is asked something."""
        committed, leader = self.offsets_log.committed_end, node.replica_manager.leader(OFFSETS)
        if leader is None:
            return LogEnd(committed, committed, -1)
        return LogEnd(committed, leader.log.log_end_offset, leader.leader_epoch)

    def answers(self, node: "SimulatedNode", question: Any, asked_at: LogEnd, reply: Any) -> None:
        """A node is about to answer."""
        if isinstance(question, NodeBeat | ChangeIsr | RegisterNode):
            # Neither says that anything was decided: the second is what one answers that may be replaced by now.
            if not any(map(reply.says, (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT))):
                self.quorum.decides(node.simulated)
            return
        if isinstance(question, WriteMarkers | WriteGroupMarkers):
            self._count_late(question, reply)
        if any(reply.error_codes) if isinstance(question, WriteMarkers | WriteGroupMarkers) else reply.error_code:
            if isinstance(question, Produce):
                self._harness.schedule.fired[f"produce answered: {ErrorCode(reply.error_code).name}"] += 1
            return
        self._look_at(node.simulated)
        match question:
            case Produce():
                self._produced(node, question, reply)
            case WriteMarkers() | WriteGroupMarkers():
                self._marked(question)
            case CommitOffsets() | CommitTransactionOffsets() | FetchOffsets():
                self._answers_of_group(node, question, asked_at, reply)
            case AddPartitions() if not any(reply.partition_errors):
                self._coordinates(node)
            case InitProducerId(transactional_id=str() as name):
                self._coordinates(node)
                if not self._has_identity(name, reply.producer):
                    raise Violation(f"{name} was told to be {reply.producer}, which the log does not have for good")
            case TakePoolOver(transactional_id=name):
                self._coordinates(node)
                self._taken_over(name, reply)
            case PrepareTransaction(transactional_id=name, producer=token):
                self._coordinates(node)
                if not (self._snapshots[name].is_prepared or (name, token) in self.prepared.outcomes):
                    raise Violation(f"{question} was answered, which the log does not have for good")
            case CompleteTransaction(transactional_id=name, prepared=token):
                self._coordinates(node)
                if self.prepared.outcomes.get((name, token)) is not question.commit:
                    raise Violation(f"{question} was answered, which the log does not have for good")
            case EndTransaction():
                self._coordinates(node)
                producer = question.producer
                if self.decided.get((producer.producer_id, producer.epoch)) is not question.commit:
                    raise Violation(f"{question} was answered, which the log does not have for good")

    def _has_identity(self, name: str, told: ProducerIdentity) -> bool:
        """Whether the log has an identity, or a later one that fences it: of one turn it has the last alone."""
        known = self._identities.get(name, ())
        return any(each.producer_id == told.producer_id and each.epoch >= told.epoch for each in known)

    def _taken_over(self, pool: str, reply: Any) -> None:
        """A program is told that it has a pool: nothing of an earlier owner is open but what it is told of."""
        if reply.producer not in self._identities.get(pool, ()):
            raise Violation(f"{pool} was given to {reply.producer}, which the log does not have for good")
        told = {(each.transactional_id, each.producer) for each in reply.left}
        for name, slot in self._snapshots.items():
            if pool_of(name) != pool or slot.owner is None or slot.owner >= reply.producer:
                continue
            if slot.state is TransactionState.ONGOING and (name, slot.written_by) not in told:
                raise Violation(f"{reply.producer} has {pool}, but {name} is open since {slot.owner}: {told=}")
            if slot.is_decided and not all(self._is_marked(slot, partition) for partition in slot.partitions):
                raise Violation(f"{reply.producer} has {pool}, but {name} has not all of its markers")

    def _is_marked(self, decision: Snapshot, partition: TopicPartition) -> bool:
        markers = self.partitions[partition].markers
        return any(each[0] == decision.producer_id and each[1] >= decision.producer_epoch for each in markers)

    def _produced(self, node: "SimulatedNode", question: Produce, reply: Any) -> None:
        self._harness.schedule.fired["produce answered: NONE"] += 1
        if question.partition.topic.startswith(PASSING) and node.simulated.log_of(question.partition) is None:
            self.passing.misled(question.records)
            return
        leader = node.replica_manager.leader(question.partition)
        if leader is None:
            raise Violation(f"node {node.spec.node_id} acknowledges for {question.partition}, which it does not lead")
        self.partitions[question.partition].acknowledged(node.spec.node_id, leader.leader_epoch, reply.base_offset)

    def _count_late(self, question: WriteMarkers | WriteGroupMarkers, reply: Any) -> None:
        """Count the markers of version 1 that come late, or that have to wait until the leader has asked."""
        markers = [marker for marker in question.markers for _ in marker.partitions]
        for marker, error_code in zip(markers, reply.error_codes, strict=False):
            if marker.decision and error_code in LATE:
                place = "group coordinator" if isinstance(question, WriteGroupMarkers) else "leader"
                self.fired[f"{place} to a marker: {ErrorCode(error_code).name}"] += 1

    def _marked(self, question: WriteMarkers | WriteGroupMarkers) -> None:
        for marker in question.markers:
            key = marker.producer.producer_id, marker.producer.epoch, marker.commit
            for partition in marker.partitions:
                if key not in self.partitions[partition].markers:
                    raise Violation(f"{marker} is said to be written to {partition}, where it is not for good")
                if partition == OFFSETS:
                    self.offsets.answers_marker(*key[:2], commits=marker.commit)

    def _coordinates(self, node: "SimulatedNode") -> None:
        coordinator = node.simulated.role(TransactionCoordinatorRole)
        assert coordinator is not None
        self._coordinates_at(TRANSACTIONS, coordinator._topic)

    def _coordinates_at(self, partition: TopicPartition, topic: CoordinatorLog) -> None:
        """A coordinator says that something is so; no earlier one may do that after it."""
        epoch, newest = topic._epochs.get(0, topic._ended_epochs.get(0, -1)), self._coordinator_epochs[partition]
        if epoch < newest:
            raise Violation(f"a coordinator of {partition} at epoch {epoch} answers, after one of {newest} did")
        self._coordinator_epochs[partition] = epoch

    def _answers_of_group(
        self, node: "SimulatedNode", question: _GROUP_QUESTIONS, asked_at: LogEnd, reply: Any
    ) -> None:
        if getattr(reply, "partition_errors", ()):
            raise Violation(f"{question} was answered by {reply}")
        coordinator = node.simulated.role(GroupCoordinatorRole)
        assert coordinator is not None
        self._coordinates_at(OFFSETS, coordinator._topic)
        if isinstance(question, FetchOffsets):
            self.offsets.answers_fetch(question, reply, asked_at.seen_at(self._coordinator_epochs[OFFSETS]))
        else:
            self.offsets.answers_commit(question)

    def last_epoch_ended(self, producer_id: int, marker_epoch: int) -> int:
        """The last epoch of a producer whose transaction a marker of its may end."""
        return last_epoch_ended_by(marker_epoch, 1 if producer_id in self.version_1 else IMPLICIT_VERSION)

    def was_read(self, partition: TopicPartition, batch: RecordBatch, aborted: Iterable[AbortedTransaction]) -> None:
        """A consumer that reads committed records was given a batch, and whose records to leave out."""
        found, base_offset = self.partitions[partition].found(batch), batch.header.base_offset
        if found.commits is not None or not found.is_transactional:
            return
        commits = (
            self.partitions[partition].ended_by(base_offset)
            if found.producer_id in self.version_1
            else self.decided.get((found.producer_id, found.producer_epoch))
        )
        is_left_out = any(
            each.producer_id == found.producer_id and each.first_offset <= base_offset <= each.last_offset
            for each in aborted
        )
        if commits is None or commits is is_left_out:
            raise Violation(f"a consumer was shown {found}, decided: {commits}, to be left out: {is_left_out}")

    # After every step

    def step(self) -> None:
        touched, self._harness.touched = self._harness.touched, set()
        for node_id in sorted(touched):
            machine = self._harness.machines[node_id]
            if machine.node is not None:
                self._look_at(machine)
            machine.directories.look_at()

    def last_look(self, machine: "SimulatedMachine") -> None:
        """Note what a process has found committed in the step in which it dies: it may have said so to others."""
        node = machine.node
        for partition, watch in self.partitions.items() if node is not None else ():
            log, replica = machine.log_of(partition), node.replica_manager._replicas.get(partition)
            is_leader = replica is not None and replica.leader is not None
            if log is not None and is_leader and log.high_watermark > watch.committed_end:
                watch.look_at(machine.node_id, node.incarnation, log, replica, is_rotten=machine.disk.is_rotten)
                self._committed(watch)

    def _look_at(self, machine: "SimulatedMachine") -> None:
        node = machine.node
        assert node is not None
        self.quorum.look_at(machine)
        for partition, watch in self.partitions.items():
            log = machine.log_of(partition)
            if log is None:
                continue
            replica = node.replica_manager._replicas.get(partition)
            if not self._is_news(machine, partition, log, replica):
                continue
            watch.look_at(machine.node_id, node.incarnation, log, replica, is_rotten=machine.disk.is_rotten)
            if watch.new:
                self._committed(watch)
                self._check_all_in_sync(partition)
            else:
                self._check_in_sync(machine, partition, log)

    def _is_news(
        self,
        machine: "SimulatedMachine",
        partition: TopicPartition,
        log: PartitionLog,
        replica: Partition | None,
    ) -> bool:
        """Whether there is something about a replica that was not so when it was last looked at."""
        registered, node = self.image.nodes.get(machine.node_id), machine.node
        assert node is not None
        now = (
            log,
            log.segments[0],
            (log.log_start_offset, log.high_watermark, log.log_end_offset, log.cleaned_up_to),
            replica,
            None if replica is None else (replica.leader, replica.leader_epoch),
            (node.incarnation, None if registered is None else registered.incarnation),
        )
        place = machine.node_id, partition
        if self._seen.get(place) == now:
            return False
        self._seen[place] = now
        return True

    def _committed(self, watch: PartitionWatch) -> None:
        new, watch.new = watch.new, []
        if watch is self.offsets_log:
            for base_offset in new:
                self.offsets.committed(self.offsets_log.batches[base_offset])
        if watch is not self.transaction_log:
            return
        for base_offset in new:
            for record in watch.records[base_offset]:
                for name, snapshot in replay([(record.key or b"", record.value)]).items():
                    self._transition(name, snapshot)

    def _transition(self, name: str, snapshot: Snapshot) -> None:
        identities = self._identities.setdefault(name, set())
        identities.add(ProducerIdentity(snapshot.producer_id, snapshot.producer_epoch))
        identities.add(ProducerIdentity(snapshot.next_producer_id, snapshot.next_producer_epoch))
        before = self._snapshots.get(name)
        check_slot(name, before, snapshot, self._snapshots)
        self._snapshots[name] = snapshot
        self.prepared.see(name, before, snapshot, by_time=False)
        if snapshot.state is TransactionState.ONGOING and snapshot.client_version < IMPLICIT_VERSION:
            self.version_1.add(snapshot.producer_id)
        if not snapshot.is_decided:
            return
        commits = snapshot.state is TransactionState.PREPARE_COMMIT
        ended = snapshot.producer_id, last_epoch_ended_by(snapshot.producer_epoch, snapshot.client_version)
        self._harness.schedule.fired["transaction committed" if commits else "transaction aborted"] += 1
        self.decisions.setdefault(ended, []).append(commits)
        if snapshot.client_version < IMPLICIT_VERSION:
            self.decided[ended] = commits
        elif self.decided.setdefault(ended, commits) is not commits:
            raise Violation(f"the transaction of {ended} was decided twice, one way and the other")
        if before is not None and before.is_kept:
            # Its records have the identity that they were written under, and another producer has ended it.
            self.decided[before.producer_id, before.producer_epoch] = commits
        branches = {} if snapshot.branching is None else snapshot.branching.branches
        for producer_id, branch in branches.items():
            counts = commits and branch.is_committed
            self.decisions.setdefault((producer_id, BRANCH_EPOCH), []).append(counts)
            if self.decided.setdefault((producer_id, BRANCH_EPOCH), counts) is not counts:
                raise Violation(f"branch {producer_id} was decided twice, one way and the other")

    def _check_all_in_sync(self, partition: TopicPartition) -> None:
        for machine in self._harness.machines.values():
            log = machine.log_of(partition)
            if log is not None:
                self._check_in_sync(machine, partition, log)

    def _check_in_sync(self, machine: "SimulatedMachine", partition: TopicPartition, log: PartitionLog) -> None:
        state = self.partitions[partition].state
        registered = self.image.nodes.get(machine.node_id)
        if state is None or registered is None or machine.node is None or machine.node_id not in state.isr:
            return
        if registered.incarnation == machine.node.incarnation:
            self.partitions[partition].check_in_sync(machine.node_id, log)

    # In the end

    def finish(self) -> None:
        for partition, watch in self.partitions.items():
            logs = [machine.log_of(partition) for machine in self._harness.keepers(partition)]
            watch.finish(log for log in logs if log is not None)
