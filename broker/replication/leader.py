"""The leader of a partition at one epoch: what is written to it, how that is replicated, and what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Appended, Flush, LogError, Origin, PartitionLog, Rejection
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.events import (
    IsrAnswered,
    LeaderEffect,
    PartitionFailed,
    ProposeIsr,
    PushAnswered,
    Replicated,
    Resigned,
)
from eagleray.broker.replication.in_sync import InSyncSet, in_their_incarnations, is_follower_in_sync, without_lagging
from eagleray.broker.replication.lease import Lease
from eagleray.broker.replication.pushing import Pushes
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.broker.runtime.waiters import Waiters
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch

_RESIGNED: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_LOOK_MS: Final = 50
"""How soon time is checked again, as long as a follower lacks something, or a producer waits."""


FLUSHED_ONE_BY_ONE: Final = 2
"""Up to so many logs are flushed one by one; beyond that it pays to flush their file system first."""


class ReplicationLeader:
    """Writes to one partition at one leader epoch, replicates it, and tells when what was written is replicated.

    A turn of a role goes the same way whatever its topic: `check_append`, `append`, then for all partitions of the turn
    `flush_all`, and for each `replicate` and `when_replicated`. Whatever a method returns is for the replica manager
    to carry out, in one place.
    Owns: the progress of the followers; the confirmed ISR, with at most one proposal for another; and what waits for
    the high watermark. The log is its node's.
    Persists: what it appends, as the log's settings say. The high watermark is the least log end of all replicas that
    the controller might elect. It stands still while these are fewer than `min.insync.replicas`. What waits is given
    back with NONE only while the lease holds. On a newer epoch, or when the controller asks for it: it resigns, gives
    back everything that waits with an error, because the outcome is unknown, and never acknowledges again.
    On failure of the log: an append may be tried again as long as the log serves; where it does not, `failed` resigns.
    After a restart: there is no leader at this epoch. As long as time can change something it has a deadline, by which
    `tick` is to be called.
    """

    def __init__(
        self,
        partition: TopicPartition,
        node_id: int,
        incarnation: int,
        log: PartitionLog,
        state: PartitionImage,
        *,
        lease: Lease,
        config: ReplicationConfig,
        min_insync_replicas: int = 1,
        deadlines: Deadlines[TopicPartition] | None = None,
    ) -> None:
        self.partition = partition
        self.log = log
        self.leader_epoch = state.leader_epoch
        self.epoch_start_offset = log.log_end_offset
        """A new leader does not know how far the high watermark had come, only that it was not beyond its log's end."""
        self.is_leading = True
        self.has_failed = False
        """Whether it has resigned because its log cannot go on."""
        self.min_insync_replicas = min_insync_replicas
        self._node_id = node_id
        self._incarnation = incarnation
        self._lease = lease
        self._config = config
        self._in_sync = InSyncSet(state)
        self.is_alone = state.replicas == (node_id,)
        """Whether there is no other replica, so that everything in the log counts as replicated."""
        self._pushes = Pushes(partition, node_id, state.leader_epoch, log, config)
        self._deadlines: Deadlines[TopicPartition] = Deadlines() if deadlines is None else deadlines
        self._waiters: Waiters[object] = Waiters()
        self._start_waiters: Waiters[object] = Waiters()

    @property
    def state(self) -> PartitionImage:
        """The state of the partition as the controller confirmed it."""
        return self._in_sync.state

    @property
    def knows_high_watermark(self) -> bool:
        """Whether the high watermark is as far as any earlier leader may have shown it; until then, ask again."""
        return self.log.high_watermark >= self.epoch_start_offset

    # What a role writes

    def check_append(self, now_ms: int, *, waits_for_all: bool) -> ErrorCode:
        """Tell whether something may be appended now, before it is."""
        if self.is_alone and self.is_leading:
            return ErrorCode.NONE
        if self.has_failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self.may_acknowledge(now_ms):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if waits_for_all and not self._has_enough(now_ms):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def append(
        self, batches: Sequence[RecordBatch], now_ms: int, *, origin: Origin = Origin.CLIENT
    ) -> Sequence[Appended | Rejection]:
        """Append batches with one write, as `PartitionLog.append` does, at this epoch."""
        return self.log.append(batches, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)

    def append_records(self, records: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> Appended | Rejection:
        """Append one batch of a coordinator's records, as `PartitionLog.append_records` does, at this epoch."""
        return self.log.append_records(records, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def append_markers(self, markers: Sequence[Marker], now_ms: int) -> Sequence[Appended | Rejection]:
        """Append markers with one write, as `PartitionLog.append_markers` does, at this epoch."""
        return self.log.append_markers(markers, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def replicate(self, now_ms: int) -> Sequence[LeaderEffect]:
        """Replicate what was appended and is as durable here as the log's settings say, or a new log start offset."""
        if not self.is_leading:
            return []
        advanced = self._advance(now_ms)
        if self.is_alone:
            # There is no other replica to push to.
            return advanced
        self._look_by(now_ms + _LOOK_MS)
        return [*advanced, *self._pushes.due(now_ms, tells_high_watermark=False)]

    def when_replicated(self, payload: object, end_offset: int, deadline_ms: int, now_ms: int) -> bool:
        """Whether everything before an offset is replicated, and may be told to be; if not, the payload waits."""
        if self.is_replicated(end_offset, now_ms):
            return True
        self.wait(payload, end_offset, deadline_ms)
        return False

    def is_replicated(self, end_offset: int, now_ms: int) -> bool:
        """Whether everything before an offset is replicated, and may be told to be."""
        if self.log.high_watermark < end_offset:
            return False
        return self.is_leading if self.is_alone else self._is_in_sync and self.may_acknowledge(now_ms)

    def wait(self, payload: object, end_offset: int, deadline_ms: int) -> None:
        """Let a payload wait until everything before `end_offset` is replicated; `Replicated` gives it back."""
        assert self.is_leading, f"{self.partition}: nothing can wait for a leader that has resigned"
        self._waiters.add(payload, end_offset, deadline_ms)

    def when_start_replicated(self, payload: object, start_offset: int, deadline_ms: int, now_ms: int) -> bool:
        """Whether no replica that may be elected has anything before an offset; if not, the payload waits for that."""
        if self.is_start_replicated(start_offset, now_ms):
            return True
        assert self.is_leading, f"{self.partition}: nothing can wait for a leader that has resigned"
        self._start_waiters.add(payload, start_offset, deadline_ms)
        return False

    def is_start_replicated(self, start_offset: int, now_ms: int) -> bool:
        """Whether the logs of all replicas that may be elected start no earlier, and that may be acknowledged."""
        followers = (node_id for node_id in self._in_sync.maximal if node_id != self._node_id)
        have_it = all(self._pushes.acknowledged_start_offset(node_id) >= start_offset for node_id in followers)
        return have_it and self.may_acknowledge(now_ms)

    def failed(self, error: LogError) -> Sequence[LeaderEffect]:
        """Take note that the log did not do what was asked; where it cannot go on, say so once, and resign."""
        if self.log.is_online or self.has_failed:
            return ()
        self.has_failed = True
        return [PartitionFailed(self.partition, str(error)), *self.resign()]

    # What followers answer

    def push_answered(self, event: PushAnswered, now_ms: int) -> list[LeaderEffect]:
        """Take a follower's answer."""
        if not self.is_leading:
            return []
        if event.leader_epoch != self.leader_epoch:
            return self.resign() if event.leader_epoch > self.leader_epoch else []
        self._look_by(now_ms + _LOOK_MS)
        effects: list[LeaderEffect] = []
        if self._pushes.answered(event, now_ms):
            effects += self._advance(now_ms)
            effects += self._propose_joining(now_ms)
        if self._start_waiters:
            effects += self._started(now_ms)
        effects += self._pushes.due(now_ms, tells_high_watermark=False)
        return effects

    # What the controller says

    def learn(self, state: PartitionImage, incarnations: Mapping[int, int], now_ms: int) -> list[LeaderEffect]:
        """Take the partition's state, and the incarnations of the registered nodes, from the metadata."""
        if not self.is_leading:
            return []
        if state.leader_epoch > self.leader_epoch:
            return self.resign()
        self._learn(state)
        self._look_by(now_ms + _LOOK_MS)
        self._pushes.push_to(self.state.replicas, incarnations, now_ms)
        return [*self._advance(now_ms), *self._pushes.due(now_ms, tells_high_watermark=False)]

    def isr_answered(self, event: IsrAnswered, now_ms: int) -> list[LeaderEffect]:
        """Take the controller's answer to a proposal."""
        if not self.is_leading:
            return []
        if event.leader_epoch > self.leader_epoch:
            return self.resign()
        state = msgspec.structs.replace(
            self.state, isr=event.isr, replicas=event.replicas, partition_epoch=event.partition_epoch
        )
        if event.leader_epoch == self.leader_epoch and not self._learn(state):
            self._in_sync.refused(event, now_ms)
        self._look_by(now_ms + _LOOK_MS)
        return [*self._advance(now_ms), *self._pushes.due(now_ms, tells_high_watermark=False)]

    def resign(self) -> list[LeaderEffect]:
        """Stop leading, for good at this epoch."""
        if not self.is_leading:
            return []
        self.is_leading = False
        self._deadlines.cancel(self.partition)
        self._pushes.end()
        waiting = [*self._waiters.end(), *self._start_waiters.end()]
        return [*self._given_back(waiting, _RESIGNED), Resigned(self.partition, self.leader_epoch)]

    # Time

    def tick(self, now_ms: int) -> list[LeaderEffect]:
        """Repeat lost pushes, propose to remove replicas that lag, and give back what has waited long enough."""
        if not self.is_leading:
            return []
        self._pushes.let_go()
        if self._is_settled:
            self._deadlines.cancel(self.partition)
            return []
        self._deadlines.set(self.partition, now_ms + _LOOK_MS)
        self._pushes.take_for_lost(now_ms)
        effects: list[LeaderEffect] = [*self._advance(now_ms)]
        if self._waiters and not self.is_alone and not self._has_enough(now_ms):
            effects += self._given_back(self._waiters.end(), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        effects += self._started(now_ms)
        expired = [*self._waiters.expired(now_ms), *self._start_waiters.expired(now_ms)]
        effects += self._given_back(expired, ErrorCode.REQUEST_TIMED_OUT)
        effects += self._propose_again(now_ms) or self._propose_leaving(now_ms) or self._propose_joining(now_ms)
        return [*effects, *self._pushes.due(now_ms)]

    def _look_by(self, due_ms: int) -> None:
        if not self.is_alone:
            self._deadlines.set_by(self.partition, due_ms)

    # How it does it

    def _learn(self, state: PartitionImage) -> bool:
        is_news = self._in_sync.learn(state)
        self.is_alone = self.state.replicas == (self._node_id,)
        return is_news

    @property
    def _least_in_sync(self) -> int:
        return min(self.min_insync_replicas, len(self.state.replicas))

    @property
    def _is_in_sync(self) -> bool:
        return len(self.state.isr) >= self._least_in_sync

    @property
    def _is_settled(self) -> bool:
        """Whether time changes nothing: all replicas are in sync, have everything and know it, and nothing waits."""
        return (
            not self._waiters
            and not self._start_waiters
            and self._in_sync.proposal is None
            and len(self.state.isr) == len(self.state.replicas)
            and self.log.high_watermark == self.log.log_end_offset
            and len(self._pushes) == len(self.state.replicas) - 1
            and self._pushes.is_level
        )

    def may_acknowledge(self, now_ms: int) -> bool:
        """Whether no other node can lead: the lease holds, or there is no other replica to elect."""
        return self.is_leading and (self.is_alone or self._lease.holds(now_ms))

    def _has_enough(self, now_ms: int) -> bool:
        """Whether enough replicas are in sync and do not lag; a set that may not shrink keeps some that do."""
        missing = self._least_in_sync - 1
        for node_id in self.state.isr:
            if missing <= 0:
                break
            if node_id != self._node_id and not self._pushes.lag_ms(node_id, now_ms):
                missing -= 1
        return missing <= 0

    def _replicated_offset(self) -> int:
        least = self.log.recovery_point if self.log.config.flush is Flush.COMMIT else self.log.log_end_offset
        for node_id in () if self.is_alone else self._in_sync.maximal:
            if node_id != self._node_id:
                least = min(least, self._pushes.agreed_offset(node_id))
        return least

    def _advance(self, now_ms: int) -> Sequence[Replicated[object]]:
        if not self.is_alone and not self._is_in_sync:
            return ()
        log = self.log
        log.advance_high_watermark(self._replicated_offset())
        least_offset = self._waiters.least_offset
        if least_offset is None or least_offset > log.high_watermark or not self.may_acknowledge(now_ms):
            return ()
        return self._given_back(self._waiters.reached(log.high_watermark), ErrorCode.NONE)

    def _started(self, now_ms: int) -> Sequence[Replicated[object]]:
        start_offset = self._start_waiters.least_offset
        if start_offset is None or not self.is_start_replicated(start_offset, now_ms):
            return ()
        return self._given_back(self._start_waiters.reached(start_offset), ErrorCode.NONE)

    def _given_back(self, payloads: Iterable[object], error_code: ErrorCode) -> list[Replicated[object]]:
        return [Replicated(self.partition, payload, error_code) for payload in payloads]

    def _propose_again(self, now_ms: int) -> list[ProposeIsr]:
        proposal = self._in_sync.proposal
        if proposal is None:
            return []
        is_late = now_ms - self._in_sync.proposed_ms >= self._config.replica_push_timeout_ms
        return [self._in_sync.propose(proposal, now_ms)] if is_late else []

    def _propose_leaving(self, now_ms: int) -> list[ProposeIsr]:
        lags = {node_id: self._pushes.lag_ms(node_id, now_ms) for node_id in self.state.isr if node_id != self._node_id}
        lagging = sorted((node_id for node_id, lag in lags.items() if lag), key=lags.__getitem__, reverse=True)
        isr = without_lagging(self.state.isr, lagging, self._least_in_sync)
        return self._propose(isr, now_ms)

    def _propose_joining(self, now_ms: int) -> list[ProposeIsr]:
        state = self._in_sync.state
        if len(state.isr) == len(state.replicas):
            return []
        reached = self.log.high_watermark, self.epoch_start_offset
        joining = [
            node_id
            for node_id in self.state.replicas
            if node_id not in self.state.isr
            and is_follower_in_sync(self._pushes.agreed_offset(node_id), *reached)
            and not self._pushes.lag_ms(node_id, now_ms)
        ]
        return self._propose((*self.state.isr, *joining), now_ms)

    def _propose(self, isr: tuple[int, ...], now_ms: int) -> list[ProposeIsr]:
        is_too_soon = now_ms < self._in_sync.refused_ms + self._config.replica_push_timeout_ms
        if self._in_sync.proposal is not None or isr == self.state.isr or is_too_soon:
            return []
        incarnations = {self._node_id: self._incarnation, **self._pushes.incarnations}
        replicas = in_their_incarnations(isr, incarnations)
        proposal = ProposeIsr(self.partition, self._node_id, self.leader_epoch, self.state.partition_epoch, replicas)
        return [self._in_sync.propose(proposal, now_ms)]


def flush_all(leaders: Iterable[ReplicationLeader], sync: Callable[[], None]) -> dict[TopicPartition, LogError]:
    """Flush the logs that have to be on stable storage before what was appended counts; return which of them failed.

    For many of them `sync` flushes the whole file system first, which costs about as much as two files cost one by one;
    then they have nothing left to do. Each log still flushes, and notices an error.
    """
    flushed = [
        leader
        for leader in leaders
        # A log that cannot go on says so when it is flushed.
        if leader.has_failed
        or (leader.log.config.flush is Flush.COMMIT and leader.log.recovery_point < leader.log.log_end_offset)
    ]
    if len(flushed) > FLUSHED_ONE_BY_ONE:
        sync()
    failed: dict[TopicPartition, LogError] = {}
    for leader in flushed:
        try:
            leader.log.flush()
        except LogError as error:
            failed[leader.partition] = error
    return failed
