"""The pushes of a leader to its followers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, LogError, PartitionLog
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.replication.divergence import epoch_before, find_agreement
from eagleray.broker.replication.events import NO_LEADER_EPOCH, NO_OFFSET, Push, PushAnswered, SendPush
from eagleray.broker.replication.progress import NOT_IN_FLIGHT, FollowerProgress
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import decode_header, scan_batches

_NOTHING: Final = (NO_OFFSET, NO_OFFSET, b"")


class Pushes:
    """One push in flight to each follower of a leader; what is appended meanwhile goes into the next.

    Owns: the progress of each follower. It reads the log and never changes it. A push that is not answered in time is
    sent again. Answers count only if they come from the incarnation of the follower that the controller knows, because
    another one may have lost what this one acknowledged. Where a follower finds damage that is in the log itself:
    LogDamaged.
    """

    def __init__(
        self, partition: TopicPartition, node_id: int, leader_epoch: int, log: PartitionLog, config: ReplicationConfig
    ) -> None:
        self._partition = partition
        self._node_id = node_id
        self._leader_epoch = leader_epoch
        self._log = log
        self._config = config
        self._push_ids = count(1)
        self._followers: dict[int, FollowerProgress] = {}
        self._last_read = _NOTHING

    def __len__(self) -> int:
        return len(self._followers)

    def push_to(self, node_ids: Iterable[int], incarnations: Mapping[int, int], now_ms: int) -> None:
        """Push to these followers from now on, where they are registered; a new incarnation begins from nothing."""
        known = self._followers
        self._followers = {}
        for node_id in node_ids:
            incarnation = incarnations.get(node_id)
            if node_id == self._node_id or incarnation is None:
                continue
            progress = known.get(node_id)
            if progress is None or progress.incarnation != incarnation:
                progress = FollowerProgress(incarnation, self._log.log_end_offset, now_ms)
            self._followers[node_id] = progress
        if self._followers:
            self._log.tail.is_wanted = True
        else:
            self.end()

    def end(self) -> None:
        """Stop pushing."""
        self._log.tail.is_wanted = False
        self._log.tail.clear()

    @property
    def incarnations(self) -> dict[int, int]:
        """The incarnations of the followers that are pushed to."""
        return {node_id: progress.incarnation for node_id, progress in self._followers.items()}

    def agreed_offset(self, node_id: int) -> int:
        """Return up to where a follower is known to have the log; -1 where that is unknown."""
        progress = self._followers.get(node_id)
        return -1 if progress is None else progress.agreed_offset

    def acknowledged_start_offset(self, node_id: int) -> int:
        """Return before which offset a follower is known to have deleted everything; -1 where that is unknown."""
        progress = self._followers.get(node_id)
        return -1 if progress is None else progress.acknowledged_start_offset

    def lag_ms(self, node_id: int, now_ms: int) -> int:
        """Return how long a follower has lacked something; 0 for one that has everything, or had it recently enough."""
        progress = self._followers.get(node_id)
        if progress is None:
            return now_ms
        lags = progress.lags(self._log.log_end_offset, now_ms, self._config.replica_lag_time_max_ms)
        return now_ms - progress.caught_up_ms if lags else 0

    def answered(self, event: PushAnswered, now_ms: int) -> bool:
        """Take a follower's answer at this leader epoch; return whether more is known to agree."""
        progress = self._followers.get(event.follower)
        if progress is None or progress.incarnation != event.incarnation:
            return False
        is_awaited = progress.landed(event.push_id)
        if event.error_code is ErrorCode.NONE:
            if is_awaited:
                progress.has_start(event.end_offset)
            before = progress.agreed_offset
            progress.agrees(event.end_offset, self._log.log_end_offset, now_ms)
            if progress.agreed_offset == before:
                return False
            self._log.tail.forget_before(min([each.agreed_offset for each in self._followers.values()]))
            return True
        if event.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if is_awaited:
                is_empty = event.start_offset == event.end_offset
                progress.differs(find_agreement(self._log, event), self._log.log_start_offset, is_empty=is_empty)
        elif is_awaited:
            if event.error_code is ErrorCode.CORRUPT_MESSAGE:
                self._look_for_damage(progress)
            # The follower's disk has failed. It is tried again when the push would have timed out.
            progress.in_flight_id = event.push_id
        return False

    def _look_for_damage(self, progress: FollowerProgress) -> None:
        offset = max(progress.next_offset, self._log.log_start_offset)
        if offset >= self._log.log_end_offset:
            return
        data = self._log.read_for_replica(offset, max_bytes=self._config.replica_push_max_bytes)
        scan = scan_batches(data)
        if scan.stopped_by is not None and not scan.missing_bytes:
            raise LogDamaged(f"{self._partition}: what follows offset {offset} is damaged: {scan.stopped_by}")

    def due(self, now_ms: int, *, tells_high_watermark: bool = True) -> list[SendPush]:
        """Return the pushes that followers are owed, to those that have none in flight.

        Every push carries the high watermark. A push for the high watermark alone costs as much as one with records, so
        a leader that is in no hurry leaves it to the next. What cannot be read stays owed; a follower that lacks it
        lags, and leaves the ISR.
        """
        log = self._log
        high_watermark = log.high_watermark if tells_high_watermark else NO_OFFSET
        due: list[SendPush] = []
        for node_id, progress in self._followers.items():
            if progress.in_flight_id != NOT_IN_FLIGHT or not progress.is_owed(
                log.log_end_offset, high_watermark, log.log_start_offset
            ):
                continue
            try:
                due.append(SendPush(node_id, self._push(progress, now_ms)))
            except LogError:
                continue
        return due

    @property
    def is_level(self) -> bool:
        """Whether every follower that is pushed to has everything, and knows the high watermark and the log start
        offset.
        """
        log = self._log
        return not any(
            progress.in_flight_id != NOT_IN_FLIGHT
            or progress.is_owed(log.log_end_offset, log.high_watermark, log.log_start_offset)
            for progress in self._followers.values()
        )

    def let_go(self) -> None:
        """Drop the bytes that were read last; called now and then, for they may be a megabyte for each partition.

        Followers that are equally far answer within moments of each other, and the others have no use for them.
        """
        self._last_read = _NOTHING

    def take_for_lost(self, now_ms: int) -> None:
        """Give up pushes that were not answered in time."""
        for progress in self._followers.values():
            is_late = now_ms - progress.sent_ms >= self._config.replica_push_timeout_ms
            if is_late and progress.in_flight_id != NOT_IN_FLIGHT:
                progress.lost()

    def remind(self, now_ms: int, interval_ms: int) -> None:
        """Owe a push, if only an empty one, to followers that were sent none for a while."""
        for progress in self._followers.values():
            if now_ms - progress.sent_ms >= interval_ms and progress.in_flight_id == NOT_IN_FLIGHT:
                progress.lost()

    def next_due_ms(self, interval_ms: int) -> int:
        """When a push times out, or a follower was sent none for so long."""
        timeout_ms = self._config.replica_push_timeout_ms
        return min(
            [
                progress.sent_ms + (interval_ms if progress.in_flight_id == NOT_IN_FLIGHT else timeout_ms)
                for progress in self._followers.values()
            ],
            default=NEVER_MS,
        )

    def _push(self, progress: FollowerProgress, now_ms: int) -> Push:
        log = self._log
        if progress.next_offset < log.log_start_offset:
            progress.begins_anew = True
        base_offset = max(progress.next_offset, log.log_start_offset)
        records, previous_epoch, producers = self._read(base_offset), epoch_before(log, base_offset), b""
        if progress.begins_anew:
            # Records can be deleted from the middle of a batch on, and the whole batch is pushed.
            base_offset = decode_header(records).base_offset if records else base_offset
            producers = log.producers_before(base_offset)
        push = Push(
            self._partition,
            self._node_id,
            self._leader_epoch,
            next(self._push_ids),
            progress.incarnation,
            base_offset,
            progress.previous_epoch if previous_epoch == NO_LEADER_EPOCH else previous_epoch,
            records,
            log.log_end_offset,
            log.high_watermark,
            log.log_start_offset,
            progress.begins_anew,
            producers,
        )
        progress.sent(push.push_id, log.log_end_offset, log.high_watermark, log.log_start_offset, now_ms)
        return push

    def _read(self, base_offset: int) -> bytes:
        """Return whole batches, from memory for a follower that is level.

        A read may end inside a batch. Followers that are equally far share one read.
        """
        end_offset = self._log.log_end_offset
        if base_offset >= end_offset:
            return b""
        recent = self._log.tail.since(base_offset) if self._log.is_online else None
        if recent is not None and len(recent) <= self._config.replica_push_max_bytes:
            return recent
        if self._last_read[:2] == (base_offset, end_offset):
            return self._last_read[2]
        data = self._log.read_for_replica(base_offset, max_bytes=self._config.replica_push_max_bytes)
        scan = scan_batches(data, verify_crc=False)
        records = data if scan.valid_length == len(data) else data[: scan.valid_length]
        self._last_read = base_offset, end_offset, records
        return records
