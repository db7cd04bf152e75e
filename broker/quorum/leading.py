"""The leader of the quorum in one term: replication to the voters, commits, and the check of a majority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.quorum.events import SendTo
from eagleray.broker.replication.events import PushAnswered
from eagleray.broker.replication.pushing import Pushes
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode

UNKNOWN_INCARNATION = 0
"""Incarnations of voters are counted from one; a voter whose incarnation is unknown tells it when it answers a push."""

_NEVER = -(2**62)


class QuorumLeader:
    """Replicates the log to the other voters in one term, and knows what a majority has and which voters are in touch.

    Owns: the progress of the followers, and when each was last sent something that it answered. The log is the voter's,
    which alone appends to it. Persists: nothing. An entry is committed once a majority has it on stable storage, and
    only together with an entry of this very term: entries of older terms may be on a majority and be replaced all the
    same (Raft, 5.4.2). After a restart: there is no leader of this term.
    """

    def __init__(
        self,
        partition: TopicPartition,
        node_id: int,
        voters: Sequence[int],
        term: int,
        log: PartitionLog,
        *,
        incarnations: Mapping[int, int],
        config: QuorumConfig,
        now_ms: int,
    ) -> None:
        self.term = term
        self.first_offset = log.log_end_offset
        """Where the entries of this term begin."""
        self._followers = tuple(voter for voter in voters if voter != node_id)
        self._majority = len(voters) // 2 + 1
        self._log = log
        self._config = config
        self._elected_ms = now_ms
        self._pushes = Pushes(partition, node_id, term, log, config.replication)
        self._incarnations = {voter: incarnations.get(voter, UNKNOWN_INCARNATION) for voter in self._followers}
        self._pushes.push_to(self._followers, self._incarnations, now_ms)
        self._sent: dict[int, tuple[int, int]] = {}
        self._answered_ms = dict.fromkeys(self._followers, _NEVER)

    @property
    def is_settled(self) -> bool:
        """Whether an entry of this term is committed, and with it everything that any leader before has committed."""
        return self._log.high_watermark > self.first_offset

    def holds(self, now_ms: int) -> bool:
        """Whether it is certain that no other voter has been elected."""
        return now_ms < self._in_touch_ms(now_ms) + self._config.controller_quorum_lease_ms

    def is_alone(self, now_ms: int) -> bool:
        """Whether no majority has answered for a whole election timeout."""
        since_ms = max(self._in_touch_ms(now_ms), self._elected_ms)
        return now_ms - since_ms >= self._config.controller_quorum_election_timeout_ms

    def _in_touch_ms(self, now_ms: int) -> int:
        """When the leader sent the last message that a majority, itself included, has answered."""
        return sorted([now_ms, *self._answered_ms.values()], reverse=True)[self._majority - 1]

    def answered(self, event: PushAnswered, now_ms: int) -> None:
        """Take a follower's answer in this term."""
        if event.error_code is ErrorCode.FENCED_LEADER_EPOCH or event.follower not in self._incarnations:
            # It answers a push of an earlier leadership of this node, whose pushes were numbered in the same way.
            return
        push_id, sent_ms = self._sent.get(event.follower, (-1, _NEVER))
        if event.push_id == push_id:
            self._answered_ms[event.follower] = max(sent_ms, self._answered_ms[event.follower])
        if event.incarnation > self._incarnations[event.follower]:
            self._incarnations[event.follower] = event.incarnation
            self._pushes.push_to(self._followers, self._incarnations, now_ms)
        else:
            self._pushes.answered(event, now_ms)
        self.advance()

    def advance(self) -> None:
        """Commit what a majority has."""
        ends = [self._own_end(), *map(self._pushes.agreed_offset, self._followers)]
        self._commit(sorted(ends, reverse=True)[self._majority - 1])

    def _own_end(self) -> int:
        return self._log.recovery_point

    def _commit(self, offset: int) -> None:
        if offset > self.first_offset:
            self._log.advance_high_watermark(offset)

    def due(self, now_ms: int) -> list[SendTo]:
        """Push what followers are owed."""
        sent: list[SendTo] = []
        for owed in self._pushes.due(now_ms):
            self._sent[owed.node_id] = (owed.push.push_id, now_ms)
            sent.append(SendTo(owed.node_id, owed.push))
        return sent

    @property
    def next_due_ms(self) -> int:
        """When a push is lost, a follower has to hear something, or this leader is alone; never for a single voter."""
        if not self._followers:
            return NEVER_MS
        since_ms = max(self._in_touch_ms(NEVER_MS), self._elected_ms)
        alone_ms = since_ms + self._config.controller_quorum_election_timeout_ms
        return min(alone_ms, self._pushes.next_due_ms(self._config.controller_quorum_heartbeat_interval_ms))

    def tick(self, now_ms: int) -> None:
        """Give up pushes that were not answered, and let no follower wait for long without hearing something."""
        self._pushes.let_go()
        self._pushes.take_for_lost(now_ms)
        self._pushes.remind(now_ms, self._config.controller_quorum_heartbeat_interval_ms)
