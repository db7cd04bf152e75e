"""The replicas that a node keeps, as leader or follower (Kafka's ReplicaManager)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from eagleray.actors.common.settings import config_of
from eagleray.actors.lanes.messages import ReplicationBatch
from eagleray.actors.storage.context import StorageContext
from eagleray.actors.storage.failures import Failures
from eagleray.actors.storage.heartbeats import Heartbeats
from eagleray.actors.storage.leading_role import LeadingRole
from eagleray.actors.storage.log_directories import StrayLog
from eagleray.actors.storage.log_manager import LogManager
from eagleray.actors.storage.partition_effects import PartitionEffects
from eagleray.actors.storage.replica_chores import ReplicaChores
from eagleray.actors.storage.replica_opening import ReplicaOpening
from eagleray.actors.storage.replication_batcher import ReplicationBatcher
from eagleray.broker.controller.elections import Rules
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, LogError
from eagleray.broker.messages import Message
from eagleray.broker.metadata.directories import DirectoryFate, fate_of
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.losses import Loss
from eagleray.broker.metadata.machines import has_several_machines
from eagleray.broker.metadata.topics import PartitionImage, TopicImage
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import Push, PushAnswered, Resigned
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.broker.replication.partition import Partition

_log = logging.getLogger(__name__)


class ReplicaManager:
    """Keeps the replicas that the metadata gives to its node, and tells the roles which of them they lead.

    Owns: the logs, a `Partition` for each in this incarnation of the node, and the heartbeats that let its
    leaders acknowledge. `ReplicaOpening` opens them.
    On failure of a log, or damage by its disk: this incarnation of the node ends, and the next one reports what is lost
    (`Failures`); the other partitions have lost nothing by it. As soon as the controller no longer counts on a damaged
    log, it is put aside and copied anew from the leader; what was put aside goes when the replica is in sync again.
    Where no other replica has what it had, the partition is offline: nothing is changed, and it is tried again.
    """

    def __init__(self, context: StorageContext, is_lazy: Callable[[str], bool]) -> None:
        self._context = context
        self._is_lazy = is_lazy
        self._config = config_of(ReplicationConfig, context.spec.settings)
        self._heartbeats = Heartbeats(context, self._config, self._hand_over)
        self.chores = ReplicaChores(context, self, self._heartbeats)
        self.logs = LogManager(
            context.spec.data_dir,
            context.spec.settings,
            context.disk,
            on_due=self.chores.logs_are_due,
            on_refused=context.disk_guard.refused,
        )
        self.opening = ReplicaOpening(context, self, is_lazy)
        self._replicas: dict[TopicPartition, Partition] = {}
        self._batcher = ReplicationBatcher(context.peers, self._config.replica_push_max_bytes)
        self._effects = PartitionEffects(
            self._replicas,
            self._batcher,
            context.controller,
            steady_ms=context.steady_ms,
            topic_id_of=self.logs.topic_id_of,
            failed=self.failed,
            damaged=self.damaged,
        )
        self.carry_out = self._effects.carry_out
        self.leader = self._effects.leader
        self._rules: dict[str, tuple[dict[str, str], int]] = {}
        self.failures = Failures(self.logs)
        self.offline = self.chores.offline
        self.loading: set[TopicPartition] = set()
        """Partitions that are read off the loop, whose logs nothing else may touch meanwhile."""

    @property
    def lease(self) -> Lease:
        """The lease that lets the leaders of this node acknowledge, in this incarnation."""
        return self._heartbeats.lease

    def serve(self, role: LeadingRole, topic: str | None = None) -> None:
        """Report the partitions of a topic to a role, or those of all topics that no other role has."""
        self._effects.serve(role, topic)

    # What the metadata says

    def start_incarnation(self) -> Loss:
        """Forget the leaders and followers: in another incarnation of the node they all start anew.

        Returns what can no longer be counted on.
        """
        for partition in self._effects.led:
            self._effects.resign(partition)
        self._replicas.clear()
        self.chores.take_early()
        self._heartbeats.start_incarnation()
        self.chores.set_heartbeat()
        return self.failures.lost(self._context.image, self._context.now_ms())

    def metadata_changed(self, previous: MetadataImage, *, has_jumped: bool = False) -> None:
        """Keep what this node is to keep, at the given epochs, and drop the rest.

        Where the image came as a whole, and not by its changes, no replica's files go because of it: `StrayLogs` looks
        at them again.
        """
        image = self._context.image
        self._heartbeats.are_needed = has_several_machines(image)
        self.chores.set_heartbeat()
        kept = {
            partition: state
            for partition in image.kept_by(self._context.spec.node_id)
            if (state := image.find(partition))
        }
        for partition in [*self.logs]:
            was, now = previous.topics.get(partition.topic), image.topics.get(partition.topic)
            fate = fate_of(str(partition), self.logs.topic_id_of(partition), image, self._context.spec.machine)
            if fate is not DirectoryFate.KEPT or partition not in kept:
                self._drop(partition, fate, has_jumped=has_jumped)
            elif now is not None and (was is None or was.configs != now.configs):
                self._reconfigure(partition, now)
        self.chores.open_only(kept)
        self.opening.keep_only(kept)
        same_nodes = previous.nodes == image.nodes
        missing = {partition: state for partition, state in kept.items() if partition not in self._replicas}
        self.opening.begin_all(previous, missing)
        for partition, state in kept.items():
            if partition not in missing and (not same_nodes or previous.find(partition) != state):
                self._learn(partition, state)
        self.logs.put_aside.purge_in_sync(kept, self._context.spec.node_id, self._replicas)
        self.logs.put_aside.purge_deleted(image.deleted_topics)
        self.lease.knows(image.version)
        self._take_pushes(self.chores.take_early())

    def _reconfigure(self, partition: TopicPartition, topic: TopicImage) -> None:
        try:
            self.logs.reconfigure(partition, topic.configs)
        except LogError as error:
            _log.error("%s", error)
            self.failed(partition)

    def __contains__(self, partition: object) -> bool:
        """Whether this incarnation of the node has a replica of the partition."""
        return partition in self._replicas

    def begin(self, partition: TopicPartition) -> None:
        """Begin with a replica whose log is open."""
        context, topic = self._context, self._context.image.topics[partition.topic]
        state = topic.partitions[partition.partition]
        self.failures.strays.discard(partition)
        replica = Partition(
            partition,
            context.spec.node_id,
            context.incarnation,
            self.logs[partition],
            lease=self.lease,
            config=self._config,
            deadlines=self.chores.leaders,
        )
        self._replicas[partition] = replica
        self.chores.opened(partition)
        self._learn(partition, state)

    def _learn(self, partition: TopicPartition, state: PartitionImage) -> None:
        image, replica = self._context.image, self._replicas[partition]
        least = self._least_in_sync(image.topics[partition.topic])
        self._effects.act(
            partition, lambda: replica.learn(state, image.registered_incarnations, least, self._context.steady_ms())
        )

    def _least_in_sync(self, topic: TopicImage) -> int:
        """Return `min.insync.replicas` of the topic, which is read once for all of its partitions."""
        known = self._rules.get(topic.name)
        if known is None or known[0] is not topic.configs:
            known = self._rules[topic.name] = topic.configs, Rules.of(topic).min_insync_replicas
        return known[1]

    def _drop(self, partition: TopicPartition, fate: DirectoryFate, *, has_jumped: bool) -> None:
        """Keep a log open no longer; its files go only where the metadata say that they were deleted or have moved."""
        self._effects.resign(partition)
        self.failures.forget(partition)
        self._replicas.pop(partition, None)
        if fate is DirectoryFate.DELETED or (fate is DirectoryFate.MOVED_AWAY and not has_jumped):
            self.logs.remove(partition)
            self.logs.put_aside.purge(partition)
            return
        if fate is DirectoryFate.STRAY:
            _log.error("the metadata know no %s any more, and no deletion of it: its files are kept", partition)
        self.logs.close(partition)

    # What roles ask

    def lead(self, partition: TopicPartition) -> ReplicationLeader | None:
        """Open a partition that the metadata gives to this node, before others.

        None where this node may no longer lead it, and as long as its log is not open: it is being opened, or is
        offline and tried again. The role is told when it is led.
        """
        if partition not in self._replicas:
            self.opening.open(partition, is_asked_for=True)
        return self.leader(partition)

    def size_of(self, partition: TopicPartition) -> int | None:
        """How much a replica takes on the disk; None where its log is not open, or is read off the loop."""
        is_readable = partition in self.logs and partition not in self.loading
        return self.logs[partition].size_bytes if is_readable else None

    def failed(self, partition: TopicPartition) -> None:
        """End this incarnation: acknowledged records of this log may be lost, which the next incarnation finds out."""
        _log.error("the log of %s has failed", partition)
        self.failures.failed(partition)
        self._context.start_incarnation()

    def damaged(self, partition: TopicPartition, error: LogDamaged) -> None:
        """End this incarnation, so that the log is copied anew, where another replica is in sync.

        Where none is, a log that is open goes on serving; one that cannot be opened is offline.
        """
        state = self._context.image.find(partition)
        if state is None or all(node_id == self._context.spec.node_id for node_id in state.isr):
            if partition in self._replicas:
                self.failures.served[partition] = str(error)
                _log.critical("%s goes on serving, and no other replica is in sync to repair it: %s", partition, error)
            elif self.offline.found(partition, str(error), self._context.steady_ms()):
                _log.critical("no other replica of %s is in sync to repair it from: %s", partition, error)
            return
        _log.error("%s is damaged, and is copied anew from the replicas in sync: %s", partition, error)
        self.offline.forget(partition)
        self.failures.damaged.add(partition)
        self._context.start_incarnation()

    def strayed(self, partition: TopicPartition, error: StrayLog) -> None:
        """Take a replica offline whose directory is not its own, and report it as lost where others are in sync."""
        context = self._context
        self.offline.found(partition, str(error), context.steady_ms())
        if self.failures.strayed(partition, str(error), context.image.find(partition), context.spec.node_id):
            context.start_incarnation()

    # What followers and leaders tell each other

    def receive(self, message: Message) -> None:
        """Take what followers answer and leaders push, at once or when the metadata say what it is about."""
        assert isinstance(message, ReplicationBatch), "nothing else is for replicas"
        steady_ms = self._context.steady_ms()
        if message.pushes:
            until_ms = self.chores.early_until_ms()
            self._take_pushes([(until_ms, push) for push in message.pushes])
        for answer in message.answers:
            replica = self._replicas.get(answer.partition)
            if replica is not None:
                self._effects.act(answer.partition, partial(replica.push_answered, answer, steady_ms))

    def take_early_pushes(self, partition: TopicPartition) -> None:
        """Apply the pushes that have waited for the replica to be open."""
        self._take_pushes(self.chores.take_early(partition))

    def _take_pushes(self, pushes: list[tuple[int, Push]]) -> None:
        """Apply pushes and answer them; what cannot be applied yet waits until its time is up."""
        now_ms = self._context.now_ms()
        for until_ms, push in pushes:
            answer = self._take_push(push, now_ms)
            if answer is not None:
                self._batcher.answer(push.leader, answer)
            else:
                self.chores.keep_early(push, until_ms)

    def _take_push(self, push: Push, now_ms: int) -> PushAnswered | None:
        if push.topic_id not in (b"", self._context.image.topic_id(push.partition.topic)):
            # Its leader has not heard that the topic was deleted, or this node has not.
            return None
        state = self._context.image.find(push.partition)
        if state is not None and push.leader_epoch > state.leader_epoch:
            # The replica may have moved away and back since, and its log is to go.
            return None
        replica = self._replicas.get(push.partition)
        if replica is None:
            is_kept = state is not None and self._context.spec.node_id in state.replicas
            if not self._context.is_registered or not is_kept or not self.opening.open(push.partition):
                return None
            replica = self._replicas[push.partition]
        # Producers are refused by their leaders; the broker's own topics have the room that this leaves.
        takes_records = not self._context.disk_guard.watch.refusal or self._is_lazy(push.partition.topic)
        answer, effects = replica.push(push, now_ms, takes_records=takes_records)
        if effects:
            self._effects.act(push.partition, lambda: effects)
        if not replica.log.is_online:
            self.failed(push.partition)
        return answer

    # Time

    def look_after_leader(self, partition: TopicPartition, steady_ms: int) -> None:
        """Let the leader of a partition, if it is led here, act on the time."""
        leader = self.leader(partition)
        if leader is not None and not leader.is_alone:
            self._effects.tell(partition, lambda leader: leader.tick(steady_ms))

    def resigned(self) -> list[Resigned]:
        """The leaderships that this node has resigned without having learned of another leader."""
        return [replica.resigned for replica in self._replicas.values() if replica.resigned is not None]

    def _hand_over(self, asked: Resigned) -> None:
        leader = self.leader(asked.partition)
        if leader is not None and leader.leader_epoch == asked.leader_epoch:
            self._effects.resign(asked.partition)
            self._heartbeats.hurry()
            self.chores.set_heartbeat()

    def stop(self) -> None:
        """Change no files any more, as the process ends; nothing is put away."""
        self.opening.stop()

    def close(self) -> None:
        """Close the logs."""
        self.opening.close()
        for partition in self._effects.led:
            self._effects.resign(partition)
        self._replicas.clear()
        self.logs.close_all()
