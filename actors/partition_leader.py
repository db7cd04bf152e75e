"""The partition leader: the partitions that a node leads, behind produce, fetch and markers."""

from __future__ import annotations

from typing import Any, ClassVar

from eagleray.actors.shell import Host, Shell
from eagleray.actors.verifying import Verifier
from eagleray.broker.controller.nodes import Role
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.acknowledging import Unacknowledged, acknowledge
from eagleray.broker.partitions.events import PartitionAdvanced, PartitionFailed, Tick, VerifyTransaction
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.events import ProposeIsr, Replicated, Resigned, SendPush
from eagleray.broker.replication.leader import ReplicationLeader


class PartitionLeaderShell(Shell):
    """Leads the users' partitions of which its node has the leading replica.

    Owns: the fetches that wait; the logs are those of the node's replicas. After a restart it leads them again, at new
    epochs, from what the logs hold, as soon as the replicas have opened them; clients are told meanwhile that they are
    not led here.
    """

    role: ClassVar = Role.LEADER

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._leaders = PartitionLeaders(before_flushes=lambda: host.disk.sync(host.spec.data_dir))
        self._verifier = Verifier(host, self.post)
        host.replicas.serve(self)

    def handle(self, events: list[Any]) -> None:
        """Let the leaders take the events of a turn together."""
        host = self.host
        self._carry_out(self._leaders.handle(events, host.now_ms(), host.steady_ms()))

    def _carry_out(self, effects: list[Any]) -> None:
        answer = self.host.answer
        for effect in effects:
            kind = type(effect)
            if kind is VerifyTransaction:
                self._verifier.verify(effect)
            elif kind is SendPush or kind is ProposeIsr:
                self.host.replicas.carry_out((effect,))
            elif kind is PartitionFailed:
                self.host.replicas.failed(effect.partition)
            elif kind is Resigned:
                # The partition has failed, which its replica is told by PartitionFailed.
                pass
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
            self.host.answer(answer)

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
        """Answer whoever waits."""
        for partition in [*self._leaders]:
            self._carry_out(self._leaders.resign(partition)[1])
