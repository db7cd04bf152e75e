"""What must always be so in a simulated cluster, looked at after every step, and what must be so in the end."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.actors.not_controller import says_not_controller
from eagleray.actors.transaction_coordinator import TransactionCoordinatorShell
from eagleray.broker.controller.events import ChangeIsr, NodeBeat, RegisterNode
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.topics import TRANSACTION_STATE
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import AbortedTransaction, PartitionLog
from eagleray.broker.messages import last_epoch_ended_by
from eagleray.broker.partitions.events import Produce, WriteMarkers
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, InitProducerId
from eagleray.broker.transactions.log_records import replay
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch
from tests.simulation.cluster.metadata_watch import MetadataWatch
from tests.simulation.cluster.partition_watch import PartitionWatch
from tests.simulation.schedule import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import SimulatedMachine, SimulatedNode
    from tests.simulation.cluster.world import World

TRANSACTIONS = TopicPartition(TRANSACTION_STATE, 0)


class Watch:
    """All invariants of one world."""

    WATCHED: ClassVar = frozenset(
        {Produce, WriteMarkers, InitProducerId, AddPartitions, EndTransaction, NodeBeat, ChangeIsr, RegisterNode}
    )
    """Questions whose answers are looked at."""

    def __init__(self, world: "World", partitions: Iterable[TopicPartition]) -> None:
        self._world = world
        self.quorum = MetadataWatch(world)
        self.partitions = {each: PartitionWatch(each, world.schedule) for each in (*partitions, TRANSACTIONS)}
        self.decided: dict[tuple[int, int], bool] = {}
        """By a producer's id and epoch: whether the coordinator has decided to commit its transaction."""
        self._identities: dict[str, set[ProducerIdentity]] = {}
        self._coordinator_epoch = -1

    @property
    def image(self) -> MetadataImage:
        return self.quorum.image

    # What the cluster says

    def metadata_changed(self, before: MetadataImage, after: MetadataImage) -> None:
        for partition, watch in self.partitions.items():
            state = after.find(partition)
            if state is not None and state != before.find(partition):
                watch.changed(state)
                self._check_all_in_sync(partition)
        for node_id, node in after.nodes.items():
            machine = self._world.machines[node_id]
            if machine.node is not None and machine.node.incarnation == node.incarnation:
                machine.may_have_lost = False

    def answers(self, node: "SimulatedNode", question: Any, reply: Any) -> None:
        """A node is about to answer."""
        if isinstance(question, NodeBeat | ChangeIsr | RegisterNode):
            if not says_not_controller(reply):
                self.quorum.decides(node.simulated)
            return
        if reply.error_codes if isinstance(question, WriteMarkers) else reply.error_code:
            if isinstance(question, Produce):
                self._world.schedule.fired[f"produce answered: {ErrorCode(reply.error_code).name}"] += 1
            return
        self._look_at(node.simulated)
        match question:
            case Produce():
                self._produced(node, question, reply)
            case WriteMarkers():
                self._marked(question)
            case AddPartitions() if not any(reply.partition_errors):
                self._coordinates(node)
            case InitProducerId(transactional_id=str() as name):
                self._coordinates(node)
                if reply.producer not in self._identities.get(name, ()):
                    raise Violation(f"{name} was told to be {reply.producer}, which the log does not have for good")
            case EndTransaction():
                self._coordinates(node)
                producer = question.producer
                if self.decided.get((producer.producer_id, producer.epoch)) is not question.commit:
                    raise Violation(f"{question} was answered, which the log does not have for good")

    def _produced(self, node: "SimulatedNode", question: Produce, reply: Any) -> None:
        self._world.schedule.fired["produce answered: NONE"] += 1
        leader = node.replicas.leader(question.partition)
        if leader is None:
            raise Violation(f"node {node.spec.node_id} acknowledges for {question.partition}, which it does not lead")
        self.partitions[question.partition].acknowledged(node.spec.node_id, leader.leader_epoch, reply.base_offset)

    def _marked(self, question: WriteMarkers) -> None:
        for marker in question.markers:
            key = marker.producer.producer_id, marker.producer.epoch, marker.commit
            for partition in marker.partitions:
                if key not in self.partitions[partition].markers:
                    raise Violation(f"{marker} is said to be written to {partition}, where it is not for good")

    def _coordinates(self, node: "SimulatedNode") -> None:
        """A coordinator says that something is so; no earlier one may do that after it."""
        coordinator = node.simulated.shell(TransactionCoordinatorShell)
        assert coordinator is not None
        topic = coordinator._topic
        epoch = topic._epochs.get(0, topic._ended_epochs.get(0, -1))
        if epoch < self._coordinator_epoch:
            raise Violation(f"a coordinator of epoch {epoch} answers, after one of {self._coordinator_epoch} did")
        self._coordinator_epoch = epoch

    def was_read(self, partition: TopicPartition, batch: RecordBatch, aborted: Iterable[AbortedTransaction]) -> None:
        """A consumer that reads committed records was given a batch, and whose records to leave out."""
        found, base_offset = self.partitions[partition].found(batch), batch.header.base_offset
        if found.commits is not None or not found.is_transactional:
            return
        commits = self.decided.get((found.producer_id, found.producer_epoch))
        is_left_out = any(
            each.producer_id == found.producer_id and each.first_offset <= base_offset <= each.last_offset
            for each in aborted
        )
        if commits is None or commits is is_left_out:
            raise Violation(f"a consumer was shown {found}, decided: {commits}, to be left out: {is_left_out}")

    # After every step

    def step(self) -> None:
        touched, self._world.touched = self._world.touched, set()
        for node_id in sorted(touched):
            machine = self._world.machines[node_id]
            if machine.node is not None:
                self._look_at(machine)

    def _look_at(self, machine: "SimulatedMachine") -> None:
        node = machine.node
        assert node is not None
        self.quorum.look_at(machine)
        for partition, watch in self.partitions.items():
            log = machine.log_of(partition)
            if log is None:
                continue
            replica = node.replicas._replicas.get(partition)
            watch.look_at(machine.node_id, node.incarnation, log, replica, is_rotten=machine.disk.is_rotten)
            if watch.new:
                self._committed(watch)
                self._check_all_in_sync(partition)
            else:
                self._check_in_sync(machine, partition, log)

    def _committed(self, watch: PartitionWatch) -> None:
        new, watch.new = watch.new, []
        if watch.partition != TRANSACTIONS:
            return
        for base_offset in new:
            for record in watch.records[base_offset]:
                for name, snapshot in replay([(record.key or b"", record.value)]).items():
                    self._transition(name, snapshot)

    def _transition(self, name: str, snapshot: Snapshot) -> None:
        identities = self._identities.setdefault(name, set())
        identities.add(ProducerIdentity(snapshot.producer_id, snapshot.producer_epoch))
        identities.add(ProducerIdentity(snapshot.next_producer_id, snapshot.next_producer_epoch))
        if not snapshot.is_decided:
            return
        commits = snapshot.state is TransactionState.PREPARE_COMMIT
        ended = snapshot.producer_id, last_epoch_ended_by(snapshot.producer_epoch, snapshot.client_version)
        self._world.schedule.fired["transaction committed" if commits else "transaction aborted"] += 1
        if self.decided.setdefault(ended, commits) is not commits:
            raise Violation(f"the transaction of {ended} was decided twice, one way and the other")

    def _check_all_in_sync(self, partition: TopicPartition) -> None:
        for machine in self._world.machines.values():
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
            logs = [machine.log_of(partition) for machine in self._world.keepers(partition)]
            watch.finish(log for log in logs if log is not None)
