"""Fetches, and those that wait (Kafka's delayed fetch): answered when there is enough, on an error or a timeout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation, LogError, OffsetOutOfRange
from eagleray.broker.partitions.events import Effect, Fetch, Fetched, FetchedPartition, FetchPartition
from eagleray.broker.partitions.failing import failed
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.partitions.reader import PartitionReader
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.errors import ErrorCode

MOST_BYTES_A_TURN: Final = 16 * 1024 * 1024
"""So many bytes of records are read in a turn: many fetches that wait for the same records wake up at once.

Until they are sent, they are in memory up to three times.
"""


class _WaitingFetch:
    __slots__ = ("event", "is_answered")

    def __init__(self, event: Fetch) -> None:
        self.event = event
        self.is_answered = False


class Fetches:
    """The fetches of one leader actor, those that wait included.

    A waiting fetch is looked at again only when one of its own partitions has moved, or when its time is up. Where a
    turn has read as much as it may, other fetches are answered in the next turns, when this was sent. A leader
    that may have been replaced serves what it has, which is never wrong. But it does not answer OFFSET_OUT_OF_RANGE, by
    which a consumer would reset its position: the new leader may have the offset.
    """

    def __init__(
        self,
        leaders: Mapping[TopicPartition, PartitionLeader],
        code_without_leader: Callable[[TopicPartition], ErrorCode],
    ) -> None:
        self._leaders = leaders
        self._code_without_leader = code_without_leader
        self._waiting_for: defaultdict[TopicPartition, list[_WaitingFetch]] = defaultdict(list)
        self._deadlines: Deadlines[_WaitingFetch] = Deadlines()
        self._now_ms = 0
        self._left_bytes = MOST_BYTES_A_TURN

    def begin_turn(self, steady_ms: int) -> None:
        """Begin a turn at a time on the steady clock, by which leases count."""
        self._now_ms = steady_ms
        self._left_bytes = MOST_BYTES_A_TURN

    def fetch(self, event: Fetch, now_ms: int) -> Fetched | None:
        """Answer at once where that is possible, else remember the fetch."""
        if self._left_bytes <= 0:
            self._wait_until(event, now_ms)
            return None
        fetched = self._read(event)
        if event.max_wait_ms <= 0 or _is_enough(event, fetched):
            return fetched
        self._wait_until(event, now_ms + event.max_wait_ms)
        return None

    def _wait_until(self, event: Fetch, due_ms: int) -> None:
        waiting = _WaitingFetch(event)
        for request in event.partitions:
            self._waiting_for[request.partition].append(waiting)
        self._deadlines.set(waiting, due_ms)

    def moved(self, partitions: Iterable[TopicPartition]) -> list[Effect]:
        """Look again at the fetches that wait for partitions whose readable end has moved."""
        answers: list[Effect] = []
        for partition in partitions:
            if partition not in self._waiting_for:
                continue
            for waiting in self._waiting_for[partition]:
                self._look_again(waiting, answers)
            self._forget_answered(partition)
        return answers

    def _look_again(self, waiting: _WaitingFetch, answers: list[Effect]) -> None:
        if waiting.is_answered:
            return
        if self._left_bytes <= 0:
            self._deadlines.set(waiting, self._now_ms)
            return
        found = self._read_or_fail(waiting.event)
        if not isinstance(found, Fetched) or _is_enough(waiting.event, found):
            waiting.is_answered = True
            self._deadlines.cancel(waiting)
            answers += (found,) if isinstance(found, Fetched) else found

    def _read_or_fail(self, event: Fetch) -> Fetched | list[Effect]:
        """Read for a fetch that has waited; where that fails unexpectedly, it fails alone."""
        try:
            return self._read(event)
        except Exception as error:  # noqa: BLE001 - a read changes nothing
            return failed(event, error)

    def _forget_answered(self, partition: TopicPartition) -> None:
        still_waiting = [waiting for waiting in self._waiting_for[partition] if not waiting.is_answered]
        if still_waiting:
            self._waiting_for[partition] = still_waiting
        else:
            del self._waiting_for[partition]

    @property
    def next_due_ms(self) -> int:
        """When the time of a waiting fetch is up."""
        return self._deadlines.next_due_ms

    def expire(self, now_ms: int) -> list[Effect]:
        """Answer the fetches whose time is up with what there is."""
        overdue = self._deadlines.take_due(now_ms)
        answers: list[Effect] = []
        for waiting in overdue:
            if self._left_bytes <= 0:
                self._deadlines.set(waiting, now_ms)
                continue
            found = self._read_or_fail(waiting.event)
            answers += (found,) if isinstance(found, Fetched) else found
            waiting.is_answered = True
        # In the order of the request, so that the same fetches are always removed in the same order.
        for partition in {request.partition: None for waiting in overdue for request in waiting.event.partitions}:
            if partition in self._waiting_for:
                self._forget_answered(partition)
        return answers

    def _read(self, event: Fetch) -> Fetched:
        left_bytes = min(event.max_bytes, self._left_bytes)
        partitions: list[FetchedPartition] = []
        for request in event.partitions:
            leader = self._leaders.get(request.partition)
            if leader is None:
                partitions.append(FetchedPartition(request.partition, self._code_without_leader(request.partition)))
                continue
            max_bytes = min(request.max_bytes, left_bytes)
            found = read_partition(leader, request, max_bytes, event.isolation, now_ms=self._now_ms)
            left_bytes = max(left_bytes - len(found.records), 0)
            self._left_bytes -= len(found.records)
            partitions.append(found)
        return Fetched(event.request_id, tuple(partitions))


def _is_enough(event: Fetch, fetched: Fetched) -> bool:
    size_bytes = 0
    for partition in fetched.partitions:
        if partition.error_code is not ErrorCode.NONE:
            return True
        size_bytes += len(partition.records)
    return size_bytes >= event.min_bytes


def read_partition(
    leader: PartitionReader, request: FetchPartition, max_bytes: int, isolation: Isolation, *, now_ms: int
) -> FetchedPartition:
    """Read what one partition has now; with no bytes left, only return its offsets."""
    error_code = leader.check_leader_epoch(request.leader_epoch)
    if error_code is not ErrorCode.NONE:
        return FetchedPartition(request.partition, error_code)
    if max_bytes <= 0:
        return _without_records(leader, ErrorCode.NONE)
    try:
        found = leader.log.read(request.offset, max_bytes=max_bytes, isolation=isolation)
    except OffsetOutOfRange:
        is_sure = leader.replication.may_acknowledge(now_ms)
        code = ErrorCode.OFFSET_OUT_OF_RANGE if is_sure else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return _without_records(leader, code)
    except LogError as error:
        leader.note_failure(error)
        return FetchedPartition(request.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    return FetchedPartition(
        request.partition,
        ErrorCode.NONE,
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
        tuple(found.aborted_transactions),
        found.records,
    )


def _without_records(leader: PartitionReader, error_code: ErrorCode) -> FetchedPartition:
    log = leader.log
    return FetchedPartition(
        leader.partition, error_code, log.high_watermark, log.last_stable_offset, log.log_start_offset
    )
