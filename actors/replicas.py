"""The replicas that a node keeps: their logs, who leads them, and what goes between them and the controller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from eagleray.actors.disk import PartitionLocked
from eagleray.actors.failures import Failures
from eagleray.actors.heartbeats import Heartbeats
from eagleray.actors.logs import Logs
from eagleray.actors.replica_chores import ReplicaChores
from eagleray.actors.replica_post import ReplicaPost
from eagleray.actors.settings import replication_config
from eagleray.actors.shell import Host
from eagleray.broker.controller.events import ChangeIsr
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.losses import Loss
from eagleray.broker.controller.machines import has_several_machines
from eagleray.broker.controller.replica_events import IsrChanged
from eagleray.broker.controller.topics import PartitionImage, TopicImage
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, LogError
from eagleray.broker.replication.electing import Rules
from eagleray.broker.replication.events import (
    LeaderEffect,
    ProposeIsr,
    Push,
    PushAnswered,
    Replicated,
    Resigned,
    SendPush,
)
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.broker.replication.replica import PartitionReplica

_log = logging.getLogger(__name__)


class LeadingRole(Protocol):
    """A role that leads partitions, as its replicas see it."""

    def led(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Begin to lead a partition, at the leader's epoch."""

    def resigned(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Stop to lead a partition; its log may be about to be closed."""

    def replicated(self, replicated: Replicated[Any]) -> None:
        """Take back what the role has let wait, and act."""

    def advanced(self, partition: TopicPartition) -> None:
        """Take note that the high watermark has moved."""


class Replicas:
    """Keeps the replicas that the metadata gives to its node, and tells the roles which of them they lead.

    Owns: the logs, a `PartitionReplica` for each in this life of the node, and the heartbeats that let its leaders
    acknowledge. A log of a user's partition is opened when the node is to keep it. One of an internal topic, of which
    there are many that are never used, is opened when it has files, somebody writes to it, a leader pushes to it, or a
    replica of it has to catch up; the last is done little by little, as there may be hundreds. What cannot be opened is
    tried again soon.
    A log that fails gives up this life of the node, and so does one that its disk has damaged; the next life tells what
    that costs (`Failures`), and the other partitions have lost nothing by it. What is damaged is dropped as soon as
    nobody counts on it any more, and copied anew from the leader.
    """

    def __init__(self, host: Host, is_lazy: Callable[[str], bool]) -> None:
        self._host = host
        self._is_lazy = is_lazy
        self._config = replication_config(host.spec.settings)
        self._heartbeats = Heartbeats(host, self._config, self._hand_over)
        self.chores = ReplicaChores(host, self, self._heartbeats)
        self.logs = Logs(host.spec.data_dir, host.spec.settings, host.disk, on_due=self.chores.logs_are_due)
        self._roles: dict[str, LeadingRole] = {}
        self._role_of_others: LeadingRole | None = None
        self._replicas: dict[TopicPartition, PartitionReplica] = {}
        self._led: dict[TopicPartition, ReplicationLeader] = {}
        self._post = ReplicaPost(host, self._config.replica_push_max_bytes)
        self._rules: dict[str, tuple[dict[str, str], int]] = {}
        self.failures = Failures(self.logs)
        self.loading: set[TopicPartition] = set()
        """Partitions that are read off the loop, whose logs nobody may touch meanwhile."""

    @property
    def lease(self) -> Lease:
        """What lets the leaders of this node acknowledge, in this life."""
        return self._heartbeats.lease

    def serve(self, role: LeadingRole, topic: str | None = None) -> None:
        """Have a role told of the partitions of a topic, or of all topics that no other role has."""
        if topic is None:
            self._role_of_others = role
        else:
            self._roles[topic] = role

    def _role_of(self, partition: TopicPartition) -> LeadingRole | None:
        return self._roles.get(partition.topic, self._role_of_others)

    # What metadata says

    def begin_life(self) -> Loss:
        """Forget who leads and follows: in another life of the node all of that begins anew.

        Says what others can count on no longer.
        """
        for partition in [*self._led]:
            self._resign(partition)
        self._replicas.clear()
        self.chores.take_early()
        self._heartbeats.begin_life()
        self.chores.set_heartbeat()
        return self.failures.lost(self._host.image, self._host.now_ms())

    def metadata_changed(self, previous: MetadataImage) -> None:
        """Keep what this node is to keep, at the epochs that it is to keep it, and let go of the rest."""
        image = self._host.image
        self._heartbeats.are_needed = has_several_machines(image)
        self.chores.set_heartbeat()
        kept = {
            partition: state for partition in image.kept_by(self._host.spec.node_id) if (state := image.find(partition))
        }
        for partition in [*self.logs]:
            was, now = previous.topics.get(partition.topic), image.topics.get(partition.topic)
            if now is None or (was is not None and was.topic_id != now.topic_id):
                self._drop(partition, is_on_machine=False)
            elif partition not in kept:
                self._drop(partition, is_on_machine=self._is_on_machine(partition, image))
            elif was is None or was.configs != now.configs:
                self._reconfigure(partition, now)
        self.chores.open_only(kept)
        same_nodes = previous.nodes == image.nodes
        for partition, state in kept.items():
            if partition not in self._replicas:
                self._begin_if_due(partition, state)
            elif not same_nodes or previous.find(partition) != state:
                self._learn(partition, state)
        self.lease.knows(image.version)
        self._take_pushes(self.chores.take_early())

    def _reconfigure(self, partition: TopicPartition, topic: TopicImage) -> None:
        try:
            self.logs.reconfigure(partition, topic.configs)
        except LogError as error:
            _log.error("%s", error)
            self.failed(partition)

    def _begin_if_due(self, partition: TopicPartition, state: PartitionImage) -> None:
        if not self._is_lazy(partition.topic) or self.logs.has_files(partition):
            if not self.open(partition):
                self.chores.open_later(partition)
        elif state.leader == self._host.spec.node_id and self._has_to_catch_up(state):
            # Making a log takes as long as a hundred writes to it, and there is no hurry.
            self.chores.open_later(partition)

    def _has_to_catch_up(self, state: PartitionImage) -> bool:
        """Whether somebody is there who is not in sync: also with an empty log, it has to be told so to be."""
        return any(node_id in self._host.image.nodes for node_id in state.replicas if node_id not in state.isr)

    def open(self, partition: TopicPartition) -> bool:
        """Open a replica, and let it take the part that the metadata give it; whether that was possible."""
        try:
            self._begin(partition)
        except LogDamaged as error:
            _log.error("%s", error)
            self.damaged(partition)
            return False
        except (PartitionLocked, LogError, OSError) as error:
            _log.warning("%s cannot be opened yet: %s", partition, error)
            return False
        return True

    def _begin(self, partition: TopicPartition) -> PartitionReplica:
        """Open a replica, and let it take the part that the metadata give it."""
        host, topic = self._host, self._host.image.topics[partition.topic]
        if partition in self.failures.damaged and host.spec.node_id not in topic.partitions[partition.partition].isr:
            self.logs.discard(partition)
            self.failures.forget(partition)
        log = self.logs.open(partition, topic.configs, topic.topic_id, now_ms=host.now_ms())
        replica = PartitionReplica(
            partition,
            host.spec.node_id,
            host.incarnation,
            log,
            lease=self.lease,
            config=self._config,
            deadlines=self.chores.leaders,
        )
        self._replicas[partition] = replica
        self.chores.opened(partition)
        self._learn(partition, topic.partitions[partition.partition])
        return replica

    def _learn(self, partition: TopicPartition, state: PartitionImage) -> None:
        image, replica = self._host.image, self._replicas[partition]
        least = self._least_in_sync(image.topics[partition.topic])
        self._do(partition, lambda: replica.learn(state, image.lives, least, self._host.steady_ms()))

    def _least_in_sync(self, topic: TopicImage) -> int:
        """What the topic's settings say, which are read once for all of its partitions."""
        known = self._rules.get(topic.name)
        if known is None or known[0] is not topic.configs:
            known = self._rules[topic.name] = topic.configs, Rules.of(topic).min_insync_replicas
        return known[1]

    def _drop(self, partition: TopicPartition, *, is_on_machine: bool) -> None:
        """Let go of a replica, and remove its files unless another node of this machine keeps them."""
        self._resign(partition)
        self.failures.forget(partition)
        self._replicas.pop(partition, None)
        if is_on_machine:
            self.logs.close(partition)
        else:
            self.logs.remove(partition)

    def _is_on_machine(self, partition: TopicPartition, image: MetadataImage) -> bool:
        state = image.find(partition)
        keepers = () if state is None else (image.plan.get(node_id) for node_id in state.replicas)
        return any(node is not None and node.machine == self._host.spec.machine for node in keepers)

    # What roles ask

    def leader(self, partition: TopicPartition) -> ReplicationLeader | None:
        """The leader of a partition, where it is this node and its log is open."""
        return self._led.get(partition)

    def lead(self, partition: TopicPartition) -> ReplicationLeader | None:
        """Open a partition that the metadata give to this node; None where it may not lead it any more.

        Raises PartitionLocked, and what the opening of a log raises.
        """
        if partition not in self._replicas:
            self._begin(partition)
        return self._led.get(partition)

    def size_of(self, partition: TopicPartition) -> int | None:
        """How much a replica takes on the disk; None where its log is not open, or nobody may look into it now."""
        is_readable = partition in self.logs and partition not in self.loading
        return self.logs[partition].size_bytes if is_readable else None

    def carry_out(self, effects: Iterable[Any]) -> None:
        """Do what a partition's leader wants: push to followers, and propose to the controller."""
        for effect in effects:
            if type(effect) is SendPush:
                self._post.push(effect.node_id, effect.push)
            elif type(effect) is ProposeIsr:
                self._propose(effect)

    def failed(self, partition: TopicPartition) -> None:
        """Give this life up: what others count on this log to have may be gone, which the next one looks at."""
        _log.error("the log of %s has failed", partition)
        self.failures.failed(partition)
        self._host.begin_life()

    def damaged(self, partition: TopicPartition) -> None:
        """Give this life up, and with it the log, where others have what it has lost; where none has, go on with it."""
        state = self._host.image.find(partition)
        if state is None or all(node_id == self._host.spec.node_id for node_id in state.isr):
            _log.critical("the log of %s is damaged, and no other replica is in sync to repair it from", partition)
            return
        self.failures.damaged.add(partition)
        self._host.begin_life()

    # What followers and leaders tell each other

    def receive(self, message: Any) -> None:  # noqa: ANN401 - ReplicasTold
        """Take what followers answer and leaders push, at once or when the metadata say what it is about."""
        steady_ms = self._host.steady_ms()
        if message.pushes:
            until_ms = self.chores.early_until_ms()
            self._take_pushes([(until_ms, push) for push in message.pushes])
        for answer in message.answers:
            replica = self._replicas.get(answer.partition)
            if replica is not None:
                self._do(answer.partition, partial(replica.push_answered, answer, steady_ms))

    def _take_pushes(self, pushes: list[tuple[int, Push]]) -> None:
        """Take pushes and answer them; what cannot be taken yet waits until its time is up."""
        now_ms = self._host.now_ms()
        for until_ms, push in pushes:
            answer = self._take_push(push, now_ms)
            if answer is not None:
                self._post.answer(push.leader, answer)
            else:
                self.chores.keep_early(push, until_ms)

    def _take_push(self, push: Push, now_ms: int) -> PushAnswered | None:
        replica = self._replicas.get(push.partition)
        if replica is None:
            state = self._host.image.find(push.partition)
            is_kept = state is not None and self._host.spec.node_id in state.replicas
            if not self._host.is_registered or not is_kept or not self.open(push.partition):
                return None
            replica = self._replicas[push.partition]
        answer, effects = replica.push(push, now_ms)
        if effects:
            self._do(push.partition, lambda: effects)
        if not replica.log.is_online:
            self.failed(push.partition)
        return answer

    def _propose(self, effect: ProposeIsr) -> None:
        self._host.controller.ask(partial(self._on_judged, effect.partition), ChangeIsr, effect)

    def _on_judged(self, partition: TopicPartition, reply: IsrChanged | None) -> None:
        if reply is not None:
            self._tell(partition, lambda leader: leader.isr_answered(reply.answer, self._host.steady_ms()))

    def _tell(self, partition: TopicPartition, call: Callable[[ReplicationLeader], list[LeaderEffect]]) -> None:
        replica = self._replicas.get(partition)
        if replica is not None:
            self._do(partition, lambda: replica.tell_leader(call))

    def _do(self, partition: TopicPartition, act: Callable[[], list[LeaderEffect]]) -> None:
        """Have a replica take something; carry out what follows, and tell its role what it has to know."""
        replica = self._replicas[partition]
        high_watermark = replica.log.high_watermark
        try:
            effects = act()
        except LogDamaged as error:
            _log.error("%s", error)
            self.damaged(partition)
            return
        except LogError as error:
            _log.error("%s", error)
            self.failed(partition)
            return
        leader, led = replica.leader, self._led.get(partition)
        has_advanced = replica.log.high_watermark > high_watermark
        if led is leader and not effects and not has_advanced:
            return
        self.carry_out(effects)
        role = self._role_of(partition)
        if role is None:
            return
        for effect in effects:
            if type(effect) is Replicated:
                role.replicated(effect)
        if led is not leader:
            self._stop_leading(partition)
            if leader is not None:
                self._led[partition] = leader
                role.led(partition, leader)
        elif leader is not None and has_advanced:
            role.advanced(partition)

    def _resign(self, partition: TopicPartition) -> None:
        """Stop to lead a partition, if it is led here; whoever waits for it is told."""
        if partition in self._led:
            self._do(partition, self._replicas[partition].resign)

    def _stop_leading(self, partition: TopicPartition) -> None:
        leader, role = self._led.pop(partition, None), self._role_of(partition)
        if leader is not None and role is not None:
            role.resigned(partition, leader)

    # Time

    def look_after_leader(self, partition: TopicPartition, steady_ms: int) -> None:
        """Let the leader of a partition, if it is led here, see what time it is."""
        leader = self._led.get(partition)
        if leader is not None and not leader.is_alone:
            self._tell(partition, lambda leader: leader.tick(steady_ms))

    def resigned(self) -> list[Resigned]:
        """What this node has stopped leading without having been told of another leader."""
        return [replica.resigned for replica in self._replicas.values() if replica.resigned is not None]

    def _hand_over(self, asked: Resigned) -> None:
        leader = self._led.get(asked.partition)
        if leader is not None and leader.leader_epoch == asked.leader_epoch:
            self._resign(asked.partition)
            self._heartbeats.hurry()
            self.chores.set_heartbeat()

    def close(self) -> None:
        """Close the logs."""
        for partition in [*self._led]:
            self._resign(partition)
        self._replicas.clear()
        self.logs.close_all()
