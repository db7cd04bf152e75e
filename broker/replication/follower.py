"""The follower of one partition: it appends what the leader pushes, and truncates what the leader does not have."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Appended, Flush, LogError, PartitionLog
from eagleray.broker.replication.divergence import told_epochs
from eagleray.broker.replication.events import NO_LEADER_EPOCH, NO_OFFSET, Push, PushAnswered
from eagleray.protocol.errors import CorruptRecord, ErrorCode, ProtocolError
from eagleray.protocol.records import RecordBatch, check_counts, split_batches


class ReplicationFollower:
    """Keeps its log equal to the leader's, for one leader epoch after the other.

    Owns: which epoch it follows, and up to where its log is known to agree with that leader's; the log is its node's.
    Persists: every batch before it answers, as durably as the log's settings say.
    Promises: it takes nothing from leaders of older epochs, and nothing behind an entry that differs. It truncates only
    what the leader has shown that it does not have. Its high watermark is never beyond what agrees. Pushes may come
    late, twice and in any order; damaged ones are refused with CORRUPT_MESSAGE.
    On failure of the disk: KAFKA_STORAGE_ERROR, and it is unknown what the log has; where the log went offline, the
    node ends this incarnation of the replica.
    After a restart: it knows of no agreement, and takes nothing before the controller has told it which epoch to
    follow.
    """

    def __init__(self, partition: TopicPartition, node_id: int, incarnation: int, log: PartitionLog) -> None:
        self.partition = partition
        self.log = log
        self.leader_epoch = NO_LEADER_EPOCH
        self.agreed_offset = NO_OFFSET
        self._node_id = node_id
        self._incarnation = incarnation

    def follow(self, leader_epoch: int) -> None:
        """Follow the leader of a newer epoch, with which no agreement is known yet."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.agreed_offset = NO_OFFSET

    def push(self, push: Push, now_ms: int, *, takes_records: bool = True) -> PushAnswered:
        """Take a leader's batches, or say why not: a disk that is full takes no records."""
        if not self._is_current(push):
            return self._answer(push, ErrorCode.FENCED_LEADER_EPOCH)
        self.follow(push.leader_epoch)
        if not self._is_meant_for(push):
            return self._answer(push, ErrorCode.STALE_BROKER_EPOCH)
        if push.records and not takes_records:
            with suppress(LogError):
                # What the leader has deleted may be what makes room.
                self._follow_start(push)
            return self._answer(push, ErrorCode.KAFKA_STORAGE_ERROR)
        try:
            return self._take(push, now_ms)
        except ProtocolError:
            # The leader's disk has changed it, or it was changed on its way; no other replica gets it from here.
            return self._answer(push, ErrorCode.CORRUPT_MESSAGE)
        except LogError:
            return self._answer(push, ErrorCode.KAFKA_STORAGE_ERROR)

    def _is_current(self, push: Push) -> bool:
        return push.leader_epoch >= self.leader_epoch

    def _is_meant_for(self, push: Push) -> bool:
        return push.incarnation == self._incarnation

    def _take(self, push: Push, now_ms: int) -> PushAnswered:
        if not self._agrees_before(push, now_ms):
            return self._answer(push, ErrorCode.OFFSET_OUT_OF_RANGE, self.log.log_end_offset)
        pushed_end = self._append(split_batches(push.records), push.base_offset, now_ms)
        if pushed_end < self.log.log_end_offset and pushed_end == push.leader_end_offset == self.agreed_offset:
            self._drop_behind(push, now_ms)
        if self.log.config.flush is Flush.COMMIT:
            self.log.flush()
        self._follow_offsets(push)
        return self._answer(push, ErrorCode.NONE, self.agreed_offset)

    def _agrees_before(self, push: Push, now_ms: int) -> bool:
        log, base_offset = self.log, push.base_offset
        if base_offset <= self.agreed_offset:
            return True
        if push.begins_anew:
            log.restart_at(base_offset, now_ms=now_ms, producers=push.producers)
        elif not self._agrees_at(base_offset, push.previous_epoch):
            return False
        self.agreed_offset = base_offset
        return True

    def _agrees_at(self, offset: int, previous_epoch: int) -> bool:
        """Whether the entry before an offset is the leader's, or there is none here that could differ.

        A log without records does not agree: it may not know which leader wrote before its start.
        """
        log = self.log
        if offset == log.log_start_offset:
            return offset == 0 or log.log_end_offset > offset
        is_inside = log.log_start_offset < offset <= log.log_end_offset and previous_epoch != NO_LEADER_EPOCH
        return is_inside and log.epochs.epoch_at(offset - 1) == previous_epoch

    def _append(self, batches: Sequence[RecordBatch], base_offset: int, now_ms: int) -> int:
        new: list[RecordBatch] = []
        for batch in batches:
            check_counts(batch.header)
            if not new and self._has(batch):
                self.agreed_offset = max(self.agreed_offset, batch.header.next_offset)
            else:
                new.append(batch)
        if new:
            self._require_epochs(new)
            # The leader has nothing between what agrees and its next batch: it may have compacted that away.
            self._truncate(min(new[0].header.base_offset, self.agreed_offset), now_ms)
            for result in self.log.append_replicated(new, now_ms=now_ms):
                assert type(result) is Appended, f"{self.partition}: {result}"
            self.agreed_offset = self.log.log_end_offset
        return batches[-1].header.next_offset if batches else base_offset

    def _require_epochs(self, batches: Sequence[RecordBatch]) -> None:
        """Raise CorruptRecord where the leader's disk has changed an epoch, which no checksum covers: it would make
        this log differ from the others, and cut what they share.
        """
        epoch = NO_LEADER_EPOCH
        for batch in batches:
            header = batch.header
            if not epoch <= header.partition_leader_epoch <= self.leader_epoch:
                raise CorruptRecord(
                    f"{self.partition}: the batch at offset {header.base_offset} has the leader epoch "
                    f"{header.partition_leader_epoch}; expected one from {epoch} to {self.leader_epoch}"
                )
            epoch = header.partition_leader_epoch

    def _has(self, batch: RecordBatch) -> bool:
        """Whether the log has a batch already: only one leader writes in an epoch, so offset and epoch identify it."""
        header = batch.header
        if header.next_offset <= self.agreed_offset:
            return True
        is_there = header.next_offset <= self.log.log_end_offset
        return is_there and self.log.epochs.epoch_at(header.last_offset) == header.partition_leader_epoch

    def _drop_behind(self, push: Push, now_ms: int) -> None:
        """Truncate what lies behind the leader's end, unless this leader wrote it: then the push is a late one.

        An earlier incarnation of this node has taken such records from it.
        """
        if self.log.epochs.latest_epoch != push.leader_epoch:
            self._truncate(push.leader_end_offset, now_ms)

    def _truncate(self, to_offset: int, now_ms: int) -> None:
        if to_offset < self.log.log_end_offset:
            self.agreed_offset = min(self.agreed_offset, to_offset)
            if to_offset < self.log.log_start_offset:
                # The log begins in the middle of a batch that it has lost.
                self.log.restart_at(to_offset, now_ms=now_ms)
            else:
                self.log.truncate(to_offset, now_ms=now_ms)

    def _follow_offsets(self, push: Push) -> None:
        self.log.advance_high_watermark(min(push.high_watermark, self.agreed_offset))
        self._follow_start(push)

    def _follow_start(self, push: Push) -> None:
        log = self.log
        if push.log_start_offset > log.log_start_offset < log.high_watermark:
            log.delete_records(min(push.log_start_offset, log.high_watermark))

    def _answer(self, push: Push, error_code: ErrorCode, end_offset: int = NO_OFFSET) -> PushAnswered:
        differs = error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        return PushAnswered(
            self.partition,
            self._node_id,
            self._incarnation,
            push.push_id,
            self.leader_epoch,
            error_code,
            end_offset,
            self.log.log_start_offset if differs else NO_OFFSET,
            told_epochs(self.log) if differs else (),
        )
