"""The nodes of a small cluster, each a few machines of the broker with the shell that actors will give them."""

from collections import deque
from collections.abc import Callable
from typing import Any

from eagleray.broker.controller import events as controller_events
from eagleray.broker.controller.controller import Controller
from eagleray.broker.groups import events as group_events
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.consumer.events import TopicsKnown
from eagleray.broker.groups.coordinator import GroupCoordinator
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation, LogConfig, NewMarker, Origin, PartitionLog, Rejection
from eagleray.broker.messages import Message
from eagleray.broker.partitions import events as leader_events
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.events import BrokerHeartbeat
from eagleray.broker.transactions import events, log_records, marker_events
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.markers import MarkerChannelManager, MarkerConfig
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, RecordBatch, build_batch, split_batches
from tests.support.batches import whole_batches
from tests.support.groups import new_ids
from tests.support.leading import alone

STATE_TOPIC = "__transaction_state"
OFFSETS_TOPIC = "__consumer_offsets"


class Node:
    """One life of a node: it is thrown away when it dies, and what it knew with it."""

    def __init__(self, world: Any, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.is_alive = True

    def handle(self, message: Message) -> None:
        raise NotImplementedError

    def tick(self) -> None:
        """Let time pass."""

    def follow(self) -> None:
        """Do what the metadata says."""

    def reply(self, message: Any) -> None:
        self.world.reply(message)

    def ask(self, node_id: int, on_reply: Callable[[Any], None], kind: type, *fields: object) -> None:
        """Ask another node; an answer to a dead one is dropped."""
        self.world.ask_node(node_id, lambda reply: on_reply(reply) if self.is_alive else None, kind, *fields)

    def open(self, partition: TopicPartition) -> PartitionLog:
        return PartitionLog.open(self.world.disk, f"/{partition}", LogConfig(), now_ms=self.world.now_ms)

    def led(self, topic: str | None = None) -> dict[TopicPartition, int]:
        """What this node leads by the metadata, with the epoch of each."""
        image = self.world.image
        partitions = image.led_by(self.node_id)
        return {
            partition: image.leader_epoch_of(partition)
            for partition in partitions
            if (not partition.topic.startswith("__") if topic is None else partition.topic == topic)
        }

    def verify(self, question: leader_events.VerifyTransaction) -> None:
        """Ask the transaction's coordinator about a partition, for a leader or a group."""
        name = TopicPartition(STATE_TOPIC, self.world.state_partition(question.transactional_id))
        node_id = self.world.image.leader_of(name)

        def on_reply(reply: events.Reply | None) -> None:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if reply is not None:
                (error,) = reply.partition_errors or (reply.error_code,)
            producer_id = question.producer.producer_id
            self.verified(
                leader_events.TransactionVerified(question.partition, producer_id, question.verification_id, error)
            )

        version = 2 if question.adds_partition else 1
        fields = (question.transactional_id, question.producer, (question.partition,), version)
        self.ask(node_id, on_reply, events.AddPartitions, *fields, not question.adds_partition)

    def verified(self, event: leader_events.TransactionVerified) -> None:
        self.handle(event)


class LeaderNode(Node):
    def __init__(self, world: Any, node_id: int) -> None:
        super().__init__(world, node_id)
        self.leaders = PartitionLeaders()
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._epochs: dict[TopicPartition, int] = {}

    def handle(self, message: Any) -> None:
        for effect in self.leaders.handle([message], self.world.now_ms, self.world.now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: Any) -> None:
        if isinstance(effect, leader_events.VerifyTransaction):
            self.verify(effect)
        else:
            self.reply(effect)

    def tick(self) -> None:
        self.handle(leader_events.Tick())

    def follow(self) -> None:
        led = self.led()
        for partition in [partition for partition, epoch in self._epochs.items() if led.get(partition) != epoch]:
            del self._epochs[partition], self.logs[partition]
            for effect in self.leaders.resign(partition)[1]:
                self._carry_out(effect)
        for partition in led.keys() - self._epochs.keys():
            self._epochs[partition] = led[partition]
            log = self.logs[partition] = self.open(partition)
            self.leaders.lead(partition, alone(log, led[partition], partition, node_id=self.node_id))


class CoordinatorNode(Node):
    def __init__(self, world: Any, node_id: int) -> None:
        super().__init__(world, node_id)
        config = CoordinatorConfig(transaction_state_log_num_partitions=world.state_partitions)
        self.coordinator = TransactionCoordinator(config)
        self._logs: dict[int, PartitionLog] = {}

    def handle(self, message: Any) -> None:
        pending = deque([message])
        while pending:
            for effect in self.coordinator.handle(pending.popleft(), self.world.now_ms):
                match effect:
                    case events.AppendTransitions():
                        self._write(effect)
                        pending.append(
                            events.Committed(effect.log_partition, effect.coordinator_epoch, effect.position)
                        )
                    case events.RequestProducerIds():
                        pending.append(events.ProducerIdsReceived(self.world.take_producer_ids(), 1000))
                    case events.SendMarkers():
                        self.world.markers(effect)
                    case _:
                        self.reply(effect)

    def tick(self) -> None:
        self.handle(events.Tick())

    def follow(self) -> None:
        for partition, epoch in self.led(STATE_TOPIC).items():
            if partition.partition not in self._logs:
                self._load(partition, epoch)

    def _load(self, partition: TopicPartition, epoch: int) -> None:
        log = self._logs[partition.partition] = self.open(partition)
        records = [record for batch in read_all(log) for record in batch.records()]
        loaded = log_records.replay((record.key, record.value) for record in records)
        self.handle(events.PartitionAssigned(partition.partition, epoch))
        self.handle(events.PartitionLoaded(partition.partition, epoch, loaded))

    def _write(self, effect: events.AppendTransitions) -> None:
        records = [
            (log_records.encode_key(name), None if snapshot is None else log_records.encode_value(snapshot))
            for name, snapshot in effect.transitions
        ]
        self._logs[effect.log_partition].append_records(
            records, leader_epoch=effect.coordinator_epoch, now_ms=self.world.now_ms
        )


class GroupsNode(Node):
    def __init__(self, world: Any, node_id: int) -> None:
        super().__init__(world, node_id)
        self.groups = GroupCoordinator(GroupConfig(offsets_topic_num_partitions=world.offsets_partitions), new_ids())
        self._logs: dict[int, PartitionLog] = {}

    def handle(self, message: Any) -> None:
        pending = deque([message])
        while pending:
            for effect in self.groups.handle(pending.popleft(), self.world.now_ms):
                match effect:
                    case group_events.LogOffsets():
                        self._write(effect)
                        pending.append(group_events.OffsetsLogged(effect.token))
                    case group_events.LogMarkers():
                        pending.append(group_events.MarkersLogged(effect.token, self._mark(effect)))
                    case leader_events.VerifyTransaction():
                        self.verify(effect)
                    case _:
                        self.reply(effect)

    def tick(self) -> None:
        self.handle(leader_events.Tick())

    def follow(self) -> None:
        image = self.world.image
        topics = {
            name: (topic.topic_id, len(topic.partitions))
            for name, topic in image.topics.items()
            if not topic.is_internal
        }
        self.handle(TopicsKnown(topics, image.version))
        for partition, epoch in self.led(OFFSETS_TOPIC).items():
            if partition.partition not in self._logs:
                log = self._logs[partition.partition] = self.open(partition)
                self.handle(group_events.OffsetsAssigned(partition.partition, epoch))
                loaded = self.groups.replay(read_all(log))
                self.handle(group_events.OffsetsLoaded(partition.partition, epoch, loaded))

    def _write(self, effect: group_events.LogOffsets) -> None:
        now_ms, producer = self.world.now_ms, effect.producer
        records = [NewRecord(value, key, now_ms) for key, value in effect.records]
        identity = {} if producer is None else {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        batch = build_batch(records, transactional=producer is not None, **identity)
        log = self._logs[effect.offsets_partition]
        log.append(split_batches(batch), leader_epoch=effect.epoch, now_ms=now_ms, origin=Origin.COORDINATOR)

    def _mark(self, effect: group_events.LogMarkers) -> tuple[ErrorCode, ...]:
        markers = [
            NewMarker(
                marker.producer.producer_id,
                marker.producer.epoch,
                marker.commit,
                marker.coordinator_epoch,
                marker.transaction_version,
            )
            for marker in effect.markers
        ]
        log = self._logs[effect.offsets_partition]
        results = log.append_markers(markers, leader_epoch=effect.epoch, now_ms=self.world.now_ms)
        return tuple(result.error_code if isinstance(result, Rejection) else ErrorCode.NONE for result in results)


class ControllerNode(Node):
    """The controller and the marker channel manager."""

    def __init__(self, world: Any, node_id: int) -> None:
        super().__init__(world, node_id)
        ids = iter(range(1, 10**6))
        self.controller = Controller(
            world.controller_config, world.image, lambda: next(ids).to_bytes(16, "big"), now_ms=world.now_ms
        )
        self.channel = MarkerChannelManager(MarkerConfig())

    def handle(self, message: Any) -> None:
        for effect in self.controller.handle(message, self.world.now_ms):
            match effect:
                case controller_events.LogChanges():
                    self.handle(controller_events.ChangesLogged(effect.token))
                case controller_events.StartNodes() | controller_events.StopNodes():
                    pass
                case _:
                    self.world.image_changed(self.controller.image)
                    self.reply(effect)

    def tick(self) -> None:
        self._hear_the_living()
        self.handle(controller_events.Tick())
        self.mark(events.Tick())

    def _hear_the_living(self) -> None:
        """Take every node that lives for heard."""
        for node_id, known in self.controller.image.nodes.items():
            if self.world.nodes[node_id].is_alive:
                beat = BrokerHeartbeat(node_id, known.incarnation, self.world.now_ms)
                self.controller.handle(controller_events.NodeBeat(0, beat), self.world.now_ms)

    def mark(self, event: Any) -> None:
        for effect in self.channel.handle(event, self.world.now_ms):
            match effect:
                case marker_events.ResolveLeaders():
                    self._resolve(effect.partitions)
                case marker_events.MarkerCall():
                    self._call(effect)
                case events.MarkersWritten():
                    self.world.tell_coordinator(effect)

    def _resolve(self, partitions: tuple[TopicPartition, ...]) -> None:
        known = {name: self.world.image.leader_of(name) for name in partitions if self.world.image.find(name)}
        gone = tuple(name for name in partitions if name not in known)
        if known:
            self.mark(marker_events.LeadersLearned(known))
        if gone:
            self.mark(marker_events.PartitionsDeleted(gone))

    def _call(self, call: marker_events.MarkerCall) -> None:
        def on_reply(reply: Any) -> None:
            if reply is None:
                self.mark(marker_events.MarkerCallUnanswered(call.leader, call.call_id))
            else:
                self.mark(marker_events.MarkerCallAnswered(call.leader, call.call_id, reply.error_codes))

        self.ask(call.leader, on_reply, leader_events.WriteMarkers, call.markers)


def read_all(log: PartitionLog) -> list[RecordBatch]:
    """Everything that a log has, for one who begins to lead it."""
    log.advance_high_watermark(log.log_end_offset)
    return whole_batches(log.read(0, max_bytes=2**30, isolation=Isolation.READ_UNCOMMITTED).records)
