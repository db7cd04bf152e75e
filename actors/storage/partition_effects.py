"""What the partitions of a node want, carried out in one place; and which of them the roles lead."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.storage.leading_role import LeadingRole
from eagleray.actors.storage.replication_batcher import ReplicationBatcher
from eagleray.broker.controller.replica_events import ChangeIsr, IsrChanged
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, LogError
from eagleray.broker.replication.events import LeaderEffect, PartitionFailed, ProposeIsr, Replicated, SendPush
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.partition import Partition

_log = logging.getLogger(__name__)


class PartitionEffects:
    """Lets partitions act, and carries out what they want, whether a role asked them, a follower or the controller.

    Owns: which role leads the partitions of which topic, and what each was told to lead. A role hears at once of a
    leader that is gone, before it hears of the next one.
    On failure of a log: `failed` or `damaged` is told.
    """

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        batcher: ReplicationBatcher,
        controller: ControllerChannel,
        *,
        steady_ms: Callable[[], int],
        topic_id_of: Callable[[TopicPartition], bytes],
        failed: Callable[[TopicPartition], None],
        damaged: Callable[[TopicPartition, LogDamaged], None],
    ) -> None:
        self._partitions = partitions
        self._batcher = batcher
        self._controller = controller
        self._steady_ms = steady_ms
        self._topic_id_of = topic_id_of
        self._failed = failed
        self._damaged = damaged
        self._roles: dict[str, LeadingRole] = {}
        self._role_of_others: LeadingRole | None = None
        self._led: dict[TopicPartition, ReplicationLeader] = {}

    def serve(self, role: LeadingRole, topic: str | None) -> None:
        """Report the partitions of a topic to a role, or those of all topics that no other role has."""
        if topic is None:
            self._role_of_others = role
        else:
            self._roles[topic] = role

    def _role_of(self, partition: TopicPartition) -> LeadingRole | None:
        return self._roles.get(partition.topic, self._role_of_others)

    # Who leads

    def leader(self, partition: TopicPartition) -> ReplicationLeader | None:
        """The leader of a partition, where its role was told of it."""
        return self._led.get(partition)

    @property
    def led(self) -> Iterator[TopicPartition]:
        """The partitions that roles were told to lead."""
        return iter([*self._led])

    def resign(self, partition: TopicPartition) -> None:
        """Let a partition lead no longer, if it does."""
        if partition in self._led:
            self.act(partition, self._partitions[partition].resign)

    # What they do

    def tell(self, partition: TopicPartition, call: Callable[[ReplicationLeader], list[LeaderEffect]]) -> None:
        """Tell the leader of a partition something, if it is led here."""
        replica = self._partitions.get(partition)
        if replica is not None:
            self.act(partition, partial(replica.tell_leader, call))

    def act(self, partition: TopicPartition, act: Callable[[], Sequence[LeaderEffect]]) -> None:
        """Let a partition act, carry out what it wants, and tell its role what has changed."""
        replica = self._partitions[partition]
        high_watermark = replica.log.high_watermark
        try:
            effects = act()
        except LogDamaged as error:
            self._damaged(partition, error)
            return
        except LogError as error:
            _log.error("%s", error)
            self._failed(partition)
            return
        leader, led = replica.leader, self._led.get(partition)
        has_advanced = replica.log.high_watermark > high_watermark
        if led is leader and not effects and not has_advanced:
            return
        self.carry_out(effects)
        role = self._role_of(partition)
        if role is None:
            return
        if led is not leader:
            self._stop_leading(partition, role)
            if leader is not None:
                self._led[partition] = leader
                role.led(partition, leader)
        elif leader is not None and has_advanced:
            role.advanced(partition)

    def _stop_leading(self, partition: TopicPartition, role: LeadingRole) -> None:
        leader = self._led.pop(partition, None)
        if leader is not None:
            role.resigned(partition, leader)

    def carry_out(self, effects: Sequence[LeaderEffect]) -> None:
        """Push to followers, propose to the controller, and give back to roles what they have let wait."""
        for effect in effects:
            if type(effect) is SendPush:
                topic_id = self._topic_id_of(effect.push.partition)
                self._batcher.push(effect.node_id, msgspec.structs.replace(effect.push, topic_id=topic_id))
            elif type(effect) is ProposeIsr:
                self._propose(effect)
            elif type(effect) is PartitionFailed:
                self._failed(effect.partition)
        # What goes to other nodes comes first, for it takes longer.
        for effect in effects:
            if type(effect) is Replicated:
                role = self._role_of(effect.partition)
                if role is not None:
                    role.replicated(effect)

    def _propose(self, effect: ProposeIsr) -> None:
        self._controller.ask(partial(self._on_judged, effect.partition), ChangeIsr, effect)

    def _on_judged(self, partition: TopicPartition, reply: IsrChanged | None) -> None:
        if reply is not None:
            self.tell(partition, lambda leader: leader.isr_answered(reply.answer, self._steady_ms()))
