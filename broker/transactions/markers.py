"""The marker channel manager: gets the outcome of decided transactions to every partition that takes part."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.runtime.deadlines import NEVER_MS, Tick
from eagleray.broker.transactions.events import MarkersWritten, SendMarkers
from eagleray.broker.transactions.marker_channel import Due, MarkerChannel, MarkerTask
from eagleray.broker.transactions.marker_events import (
    NO_LEADER,
    LeadersLearned,
    MarkerCall,
    MarkerCallAnswered,
    MarkerCallUnanswered,
    MarkerEffect,
    MarkerEvent,
    PartitionsDeleted,
    ResolveLeaders,
)
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE

DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        # The partition has seen a later epoch of the producer, which no producer gets before this transaction has
        # ended; or it knows that the decision is over, and the transaction that is open there another.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        # The partition cannot have taken the producer's records either.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Answers after which a partition needs no marker any more."""


class MarkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How much goes into one call, and how soon what failed is tried again."""

    max_call_markers: int = 5000
    max_call_bytes: int = 1024 * 1024
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 200


class MarkerChannelManager:
    """Has markers written, for coordinators that have decided transactions, and says when all are.

    Owns: who is to be told what, and which leader leads what. Persists: nothing; when it dies, coordinators ask again.
    Promises: `MarkersWritten` follows only when every partition has answered that it has its marker, or needs none, or
    is deleted. Until then it tries again, for ever, with growing pauses, unless the coordinator has been fenced or asks
    for something newer under the same transactional id. A marker may be written more than once, never to be taken back.
    """

    def __init__(self, config: MarkerConfig) -> None:
        self._config = config
        self._tasks: dict[str, MarkerTask] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._channels: defaultdict[int, MarkerChannel] = defaultdict(MarkerChannel)
        self._leaderless: defaultdict[TopicPartition, list[MarkerTask]] = defaultdict(list)
        self._next_question_ms = 0
        self._retries: list[tuple[int, int, Due]] = []
        self._numbers = count(1)
        self._effects: list[MarkerEffect] = []
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            SendMarkers: self._on_send,
            LeadersLearned: self._on_leaders,
            PartitionsDeleted: self._on_deleted,
            MarkerCallAnswered: self._on_answered,
            MarkerCallUnanswered: self._on_unanswered,
            Tick: self._on_tick,
        }

    def handle(self, event: MarkerEvent, now_ms: int) -> list[MarkerEffect]:
        """Take one event and return what it makes necessary, in order."""
        self._handlers[type(event)](event, now_ms)
        effects, self._effects = self._effects, []
        return effects

    @property
    def next_due_ms(self) -> int:
        """When there is something to try again, or to ask again; a `Tick` is wanted then."""
        due_ms = self._next_question_ms if self._leaderless else NEVER_MS
        return min(due_ms, self._retries[0][0]) if self._retries else due_ms

    def __len__(self) -> int:
        """Count the transactions whose markers are not all written."""
        return len(self._tasks)

    # Tasks

    def _on_send(self, event: SendMarkers, now_ms: int) -> None:
        task = MarkerTask(event)
        known = self._tasks.get(event.transactional_id)
        if known is not None:
            if task.age <= known.age:
                return
            self._end(known)
        self._tasks[event.transactional_id] = task
        if not task.unfinished:
            self._report(task)
        elif event.branches:
            self._route([(each, partition) for each in task.all for partition in sorted(each.missing)], now_ms)
        else:
            self._route([(task, partition) for partition in sorted(event.partitions)], now_ms)

    def _settle(self, task: MarkerTask, partition: TopicPartition) -> None:
        """Note that a partition needs no more; the last one of the last task finishes the transaction."""
        task.missing.discard(partition)
        if not task.missing and not task.is_over:
            task.is_over = True
            first = task.first or task
            first.unfinished -= 1
            if not first.unfinished:
                self._report(first)

    def _report(self, first: MarkerTask) -> None:
        self._end(first)
        request = first.request
        self._effects.append(
            MarkersWritten(request.transactional_id, request.log_partition, request.coordinator_epoch, request.decision)
        )

    def _end(self, first: MarkerTask) -> None:
        first.is_over = True
        for branch in first.branches:
            branch.is_over = True
        del self._tasks[first.request.transactional_id]

    # Routing

    def _route(self, due: Iterable[Due], now_ms: int) -> None:
        """Give each marker to the line of its leader, and find out about leaders that are not known."""
        leaders = set()
        unknown = []
        for task, partition in due:
            leader = self._leaders.get(partition)
            if leader is not None:
                self._channels[leader].waiting.append((task, partition))
                leaders.add(leader)
            else:
                if partition not in self._leaderless:
                    unknown.append(partition)
                self._leaderless[partition].append(task)
        for leader in leaders:
            self._call(leader)
        if unknown:
            self._ask(unknown, now_ms)

    def _call(self, leader: int) -> None:
        channel = self._channels[leader]
        if channel.in_flight or not channel.waiting:
            return
        call_id = next(self._numbers)
        markers = channel.begin_call(call_id, self._config.max_call_markers, self._config.max_call_bytes)
        if markers:
            self._effects.append(MarkerCall(leader, call_id, markers))

    def _ask(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        self._next_question_ms = now_ms + self._config.retry_backoff_max_ms
        self._effects.append(ResolveLeaders(tuple(partitions)))

    def _on_leaders(self, event: LeadersLearned, now_ms: int) -> None:
        due: list[Due] = []
        for partition, leader in event.leaders.items():
            if leader == NO_LEADER:
                self._leaders.pop(partition, None)
                continue
            self._leaders[partition] = leader
            due += [(task, partition) for task in self._leaderless.pop(partition, ()) if not task.is_over]
        self._route(due, now_ms)

    def _on_deleted(self, event: PartitionsDeleted, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        deleted = set(event.partitions)
        for partition in deleted:
            self._leaders.pop(partition, None)
            self._leaderless.pop(partition, None)
        for task in [task for first in self._tasks.values() for task in first.all]:
            for partition in task.missing & deleted:
                self._settle(task, partition)

    # Answers

    def _on_answered(self, event: MarkerCallAnswered, now_ms: int) -> None:
        ended = self._channels[event.leader].end_call(event.call_id)
        if not ended:
            return
        error_codes = event.error_codes or (_NONE,) * len(ended)
        for due, error_code in zip(ended, error_codes, strict=True):
            if error_code is _NONE or error_code in DONE:
                self._settle(*due)
            elif error_code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                self._on_fenced(due[0])
            else:
                self._retry(due, event.leader, now_ms)
        self._call(event.leader)

    def _on_fenced(self, task: MarkerTask) -> None:
        """A newer coordinator has taken over, and sees to these markers itself."""
        first = task.first or task
        if self._tasks.get(first.request.transactional_id) is first:
            self._end(first)

    def _on_unanswered(self, event: MarkerCallUnanswered, now_ms: int) -> None:
        channel = self._channels[event.leader]
        for due in channel.end_call(event.call_id):
            self._retry(due, event.leader, now_ms)
        if not channel.in_flight:
            # Those behind the call would only fail one after the other; let them look for a leader that lives.
            behind = channel.take_waiting()
            for _, partition in behind:
                self._doubt_leader(partition, event.leader)
            self._route(behind, now_ms)

    # Trying again

    def _retry(self, due: Due, leader: int, now_ms: int) -> None:
        """Try again after a pause, and find out anew who leads the partition then."""
        task, partition = due
        self._doubt_leader(partition, leader)
        if task.is_over or partition not in task.missing:
            return
        attempts = task.attempts.get(partition, 0)
        task.attempts[partition] = attempts + 1
        pause_ms = min(self._config.retry_backoff_ms << min(attempts, 16), self._config.retry_backoff_max_ms)
        heapq.heappush(self._retries, (now_ms + pause_ms, next(self._numbers), due))

    def _doubt_leader(self, partition: TopicPartition, leader: int) -> None:
        if self._leaders.get(partition) == leader:
            del self._leaders[partition]

    def _on_tick(self, event: Tick, now_ms: int) -> None:  # noqa: ARG002 - it says no more than that time has passed
        due: list[Due] = []
        while self._retries and self._retries[0][0] <= now_ms:
            task, partition = heapq.heappop(self._retries)[2]
            if not task.is_over and partition in task.missing:
                due.append((task, partition))
        self._route(due, now_ms)
        if self._leaderless and now_ms >= self._next_question_ms:
            self._ask(tuple(self._leaderless), now_ms)
