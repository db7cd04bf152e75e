"""The partition leader: the logs of the partitions that a node leads, behind produce, fetch and markers."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from eagleray.actors.logs import Logs, PartitionLocked
from eagleray.actors.shell import Host, Shell
from eagleray.actors.verifying import Verifier
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import Role
from eagleray.broker.controller.topics import TopicImage
from eagleray.broker.filesystem import sync_file_system
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogError, PartitionLog
from eagleray.broker.partitions.events import PartitionFailed, Tick, VerifyTransaction
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import Resigned
from eagleray.broker.replication.in_sync import NO_INCARNATION
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease

_log = logging.getLogger(__name__)


class PartitionLeaderShell(Shell):
    """Leads the partitions that the metadata gives to its node.

    Owns: their logs. After a restart it leads them again, at new epochs, from what the logs hold. A partition whose
    directory another process still has, or whose log cannot be opened, is tried again with every tick; its clients are
    told meanwhile that it is not led here.
    """

    role: ClassVar = Role.LEADER

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._leaders = PartitionLeaders(before_flushes=lambda: sync_file_system(host.spec.data_dir))
        self._logs = Logs(host.spec.data_dir, host.spec.settings)
        self._verifier = Verifier(host, self.post)
        self._epochs: dict[TopicPartition, int] = {}
        self._waiting: set[TopicPartition] = set()

    def handle(self, events: list[Any]) -> None:
        """Let the leaders take the events of a turn together."""
        self._carry_out(self._leaders.handle(events, self.host.now_ms(), self._steady_ms()))

    def _steady_ms(self) -> int:
        return int(self.host.loop.time() * 1000)

    def _carry_out(self, effects: list[Any]) -> None:
        answer = self.host.answer
        for effect in effects:
            kind = type(effect)
            if kind is VerifyTransaction:
                self._verifier.verify(effect)
            elif kind is PartitionFailed:
                self._failed(effect)
            elif kind is not Resigned:
                # Of the only replica of a partition, nobody has to be told that it has resigned.
                answer(effect)

    def _failed(self, effect: PartitionFailed) -> None:
        """Open a log anew whose disk did not do what was asked."""
        _log.error("%s failed: %s", effect.partition, effect.message)
        self._resign(effect.partition)
        self._waiting.add(effect.partition)

    # Which partitions it leads

    def metadata_changed(self, previous: MetadataImage) -> None:
        """Begin to lead what this node is to lead, and stop with the rest."""
        image, node_id = self.host.image, self.host.spec.node_id
        wanted = {partition for partition in image.led_by(node_id) if not image.topics[partition.topic].is_internal}
        for partition in [*self._logs]:
            was = previous.topics.get(partition.topic)
            if partition not in wanted:
                self._resign(partition, is_deleted=_is_deleted(was, image))
            elif was is not None and _is_deleted(was, image):
                self._resign(partition, is_deleted=True)
            else:
                self._logs.reconfigure(partition, image.topics[partition.topic].configs)
        self._waiting = {partition for partition in wanted if self._epochs.get(partition) != self._epoch_of(partition)}
        self._lead_waiting()

    def _epoch_of(self, partition: TopicPartition) -> int:
        return self.host.image.leader_epoch_of(partition)

    def _lead_waiting(self) -> None:
        for partition in sorted(self._waiting):
            if self._lead(partition):
                self._waiting.discard(partition)

    def _lead(self, partition: TopicPartition) -> bool:
        topic, epoch = self.host.image.topics[partition.topic], self._epoch_of(partition)
        try:
            log = self._logs.open(partition, topic.configs, topic.topic_id, now_ms=self.host.now_ms())
        except (PartitionLocked, LogError, OSError) as error:
            _log.warning("%s cannot be led yet: %s", partition, error)
            return False
        if partition in self._leaders:
            self._carry_out(self._leaders.resign(partition)[1])
        self._leaders.lead(partition, self._replicate(partition, log))
        self._epochs[partition] = epoch
        return True

    def _replicate(self, partition: TopicPartition, log: PartitionLog) -> ReplicationLeader:
        """Replicate a log to nobody: this node is the only one that has it, and so needs no lease."""
        state = self.host.image.find(partition)
        assert state is not None, f"{partition} is led here, and does not exist"
        config, node_id = ReplicationConfig(), self.host.spec.node_id
        return ReplicationLeader(partition, node_id, NO_INCARNATION, log, state, lease=Lease(config), config=config)

    def _resign(self, partition: TopicPartition, *, is_deleted: bool = False) -> None:
        if partition in self._leaders:
            self._carry_out(self._leaders.resign(partition)[1])
        self._epochs.pop(partition, None)
        if is_deleted:
            self._logs.remove(partition)
        else:
            self._logs.close(partition)

    def tick(self) -> None:
        """Let waiting fetches expire, try again what could not be led, and keep the logs in order."""
        self._carry_out(self._leaders.handle([Tick()], self.host.now_ms(), self._steady_ms()))
        if self._waiting:
            self._lead_waiting()
        self._logs.housekeep(self.host.now_ms())

    def close(self) -> None:
        """Close the logs."""
        for partition in [*self._logs]:
            self._resign(partition)


def _is_deleted(topic: TopicImage | None, image: MetadataImage) -> bool:
    """Whether a topic exists no more, be it that another has its name by now."""
    if topic is None:
        return False
    return image.topic_id(topic.name) != topic.topic_id
