"""The partition leader: the partitions that a node leads, behind produce, fetch and markers."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.roles.role import Role, RoleContext
from eagleray.actors.roles.verification import Verifier, VerifierContext
from eagleray.actors.storage.disk import Disk
from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.partitions.acknowledging import Unacknowledged, acknowledge
from eagleray.broker.partitions.coordinator_epochs import newest_coordinator_epoch
from eagleray.broker.partitions.events import AskLastDecision, Effect, Event, PartitionAdvanced, VerifyTransaction
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.events import LEADER_EFFECTS, Replicated
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import RequestFailed


class PartitionLeaderContext(RoleContext, VerifierContext, Protocol):
    """What else the partition leader uses of its node: the replicas, and the disk below them."""

    spec: NodeSpec
    replica_manager: ReplicaManager
    disk: Disk
    disk_guard: DiskGuard


class PartitionLeaderRole(Role):
    """Leads the users' partitions of which its node has the leading replica.

    Owns: the fetches that wait; the logs are those of the node's replicas. After a restart it leads them again, at new
    epochs, from what the logs hold, as soon as the replicas have opened them; clients are told meanwhile that they are
    not led here.
    """

    process_role: ClassVar = ProcessRole.LEADER

    context: PartitionLeaderContext

    def __init__(self, context: PartitionLeaderContext) -> None:
        super().__init__(context)
        self._leaders = PartitionLeaders(
            sync=lambda: context.disk.sync(context.spec.data_dir),
            offline=context.replica_manager.offline,
            newest_coordinator_epoch=lambda: newest_coordinator_epoch(context.image),
            disk=context.disk_guard.watch,
            on_asked_for=context.replica_manager.opening.asked_for,
        )
        self._verifier = Verifier(context, self.post)
        context.replica_manager.serve(self)

    def handle(self, events: list[Event]) -> None:
        """Let the leaders take the events of a turn together."""
        context = self.context
        self._carry_out(self._leaders.handle(events, context.now_ms(), context.steady_ms()))

    def _carry_out(self, effects: list[Effect]) -> None:
        answer = self.context.answer
        effect: Any
        for effect in effects:
            kind = type(effect)
            if kind is VerifyTransaction:
                self._verifier.verify(effect)
            elif kind is AskLastDecision:
                self._verifier.ask_last_decision(effect)
            elif kind in LEADER_EFFECTS:
                self.context.replica_manager.carry_out((effect,))
            elif kind is RequestFailed:
                host = self.context.peer_host(effect.request.request_id)
                self.context.request_failed(host, type(effect.request).__name__, effect.error)
            else:
                answer(effect)

    # What the replicas tell

    def led(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Serve a partition, from the next turn on."""
        self._leaders.lead(partition, leader)
        self.post(PartitionAdvanced(partition))

    def resigned(self, partition: TopicPartition, leader: ReplicationLeader) -> None:  # noqa: ARG002 - there is one
        """Serve a partition no longer."""
        if partition in self._leaders:
            self._carry_out(self._leaders.resign(partition)[1])

    def replicated(self, replicated: Replicated[Unacknowledged]) -> None:
        """Answer what has waited, while the lease under which it was given back holds."""
        for answer in acknowledge(replicated):
            self.context.answer(answer)

    def advanced(self, partition: TopicPartition) -> None:
        """Look again at fetches that wait."""
        self.post(PartitionAdvanced(partition))

    def next_due_ms(self) -> int:
        """When a fetch has waited long enough."""
        return self._leaders.next_due_ms

    def on_due(self) -> None:
        """Answer the fetches that have waited long enough."""
        self.handle([Tick()])

    def close(self) -> None:
        """Answer all that wait."""
        for partition in [*self._leaders]:
            self._carry_out(self._leaders.resign(partition)[1])
