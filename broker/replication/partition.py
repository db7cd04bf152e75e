"""A partition as one node has it (Kafka's Partition): a leader at one epoch, a follower at another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, PartitionLog
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import NO_LEADER_EPOCH, LeaderEffect, Push, PushAnswered, Resigned
from eagleray.broker.replication.follower import ReplicationFollower
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.broker.runtime.deadlines import Deadlines


class Partition:
    """Keeps one replica of a partition, in one of its node's incarnations, as the leader or follower that metadata
    makes it.

    Owns: its leader or follower, and the largest leader epoch that it has heard of, which never falls. The log is its
    node's; what roles write to it, they write through `leader`, which is another one at each epoch: what was begun at
    one epoch cannot go on at the next. A leader that hears of a newer epoch resigns, and follows. One that has resigned
    never leads again at that epoch, and keeps telling the controller until there is a newer one. After a restart: a new
    incarnation of the node makes a new one of these, once it has registered and knows the metadata as of then.
    """

    leader_type = ReplicationLeader
    follower_type = ReplicationFollower

    def __init__(
        self,
        partition: TopicPartition,
        node_id: int,
        incarnation: int,
        log: PartitionLog,
        *,
        lease: Lease,
        config: ReplicationConfig,
        deadlines: Deadlines[TopicPartition] | None = None,
    ) -> None:
        self.partition = partition
        self.log = log
        self.leader: ReplicationLeader | None = None
        self.resigned: Resigned | None = None
        self._node_id = node_id
        self._incarnation = incarnation
        self._lease = lease
        self._config = config
        self._deadlines = deadlines
        self._follower = self.follower_type(partition, node_id, incarnation, log)
        # The leader or follower that wrote this log knew its epochs, and so the replica does.
        self._follower.follow(log.epochs.latest_epoch)

    @property
    def leader_epoch(self) -> int:
        """The largest leader epoch that is known here."""
        return max(self._follower.leader_epoch, NO_LEADER_EPOCH if self.leader is None else self.leader.leader_epoch)

    def learn(
        self, state: PartitionImage, incarnations: Mapping[int, int], min_insync_replicas: int, now_ms: int
    ) -> list[LeaderEffect]:
        """Take the partition's state from metadata: start leading, keep leading, or follow."""
        if state.leader_epoch < self.leader_epoch:
            return []
        effects: list[LeaderEffect] = []
        if self.leader is not None:
            self.leader.min_insync_replicas = min_insync_replicas
            effects += self._noted(self.leader.learn(state, incarnations, now_ms))
        if state.leader == self._node_id and self._may_begin(state.leader_epoch):
            leader = self._begin(state, min_insync_replicas)
            effects += self._noted(leader.learn(state, incarnations, now_ms))
        elif state.leader != self._node_id:
            self._follow(state.leader_epoch)
        return effects

    def push(self, push: Push, now_ms: int, *, takes_records: bool = True) -> tuple[PushAnswered, list[LeaderEffect]]:
        """Take a push. It may be the first word of a newer leader: then a leader here resigns."""
        effects: list[LeaderEffect] = []
        if self.leader is not None and push.leader_epoch > self.leader.leader_epoch:
            effects = self.resign()
        self._follow(self.leader_epoch)
        return self._follower.push(push, now_ms, takes_records=takes_records), effects

    def push_answered(self, event: PushAnswered, now_ms: int) -> list[LeaderEffect]:
        """Take a follower's answer, if this replica leads."""
        return [] if self.leader is None else self._noted(self.leader.push_answered(event, now_ms))

    def resign(self) -> list[LeaderEffect]:
        """Stop leading, if this replica leads."""
        return [] if self.leader is None else self._noted(self.leader.resign())

    def tell_leader(self, call: Callable[[ReplicationLeader], list[LeaderEffect]]) -> list[LeaderEffect]:
        """Pass something to the leader, if this replica leads."""
        return [] if self.leader is None else self._noted(call(self.leader))

    def _noted(self, effects: list[LeaderEffect]) -> list[LeaderEffect]:
        for effect in effects:
            if isinstance(effect, Resigned):
                self._follow(effect.leader_epoch)
                self.leader, self.resigned = None, effect
        return effects

    def _may_begin(self, leader_epoch: int) -> bool:
        return self.leader is None and leader_epoch > self._follower.leader_epoch

    def _begin(self, state: PartitionImage, min_insync_replicas: int) -> ReplicationLeader:
        self.resigned = None
        if self.log.config.flush is Flush.COMMIT:
            # What the last incarnation wrote and did not flush does not count until it is flushed.
            self.log.flush()
        self.leader = self.leader_type(
            self.partition,
            self._node_id,
            self._incarnation,
            self.log,
            state,
            lease=self._lease,
            config=self._config,
            min_insync_replicas=min_insync_replicas,
            deadlines=self._deadlines,
        )
        return self.leader

    def _follow(self, leader_epoch: int) -> None:
        if self.resigned is not None and leader_epoch > self.resigned.leader_epoch:
            self.resigned = None
        self._follower.follow(leader_epoch)
