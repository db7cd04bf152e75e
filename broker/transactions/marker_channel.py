"""What a marker channel manager has to do for one transaction, and what it has to say to one leader."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION, Marker
from eagleray.broker.transactions.events import BranchMarkers, SendMarkers

MARKER_BYTES = 32
"""About what one marker takes in a call, besides the names of its partitions."""

PARTITION_BYTES = 4


class MarkerTask:
    """One producer of a decided transaction, and those of its partitions that still lack their marker.

    Most transactions have one producer. Where branches have written too, each has a task beside the first.
    """

    __slots__ = ("attempts", "branches", "commit", "first", "is_over", "missing", "producer", "request", "unfinished")

    def __init__(
        self, request: SendMarkers, branch: BranchMarkers | None = None, first: MarkerTask | None = None
    ) -> None:
        source = request if branch is None else branch
        self.request = request
        self.producer = source.producer
        self.commit = source.commit
        self.missing = set(source.partitions)
        self.attempts: dict[TopicPartition, int] = {}
        self.is_over = False
        """Written, fenced, or taken over by a newer request: whatever still comes for it is of no interest."""
        self.first = first
        """The task that stands for the whole transaction; None where that is this one."""
        self.branches: tuple[MarkerTask, ...] = ()
        self.unfinished = 1
        """How many tasks of the transaction lack markers; kept by the first."""
        if branch is None and request.branches:
            self.branches = tuple(MarkerTask(request, each, self) for each in request.branches)
            self.unfinished = sum(bool(task.missing) for task in self.all)
        elif not self.missing:
            self.unfinished = 0

    @property
    def all(self) -> tuple[MarkerTask, ...]:
        """The tasks of the whole transaction."""
        return (self, *self.branches)

    @property
    def age(self) -> tuple[int, int]:
        """Orders the requests for one transactional id; equal where one repeats another."""
        return self.request.coordinator_epoch, self.request.decision


Due: TypeAlias = tuple[MarkerTask, TopicPartition]
"""A marker that is due at one partition."""


class MarkerChannel:
    """The line to one leader: at most one call in flight, and behind it all that has come meanwhile."""

    __slots__ = ("call_id", "in_flight", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Due] = deque()
        self.in_flight: list[Due] = []
        self.call_id = 0

    def begin_call(self, call_id: int, max_markers: int, max_bytes: int) -> tuple[Marker, ...]:
        """Put as much as may go into one call; nothing if whatever waits is over by now."""
        assert not self.in_flight, "one call at a time"
        size = 0
        while self.waiting and len(self.in_flight) < max_markers:
            task, partition = self.waiting[0]
            size += MARKER_BYTES + PARTITION_BYTES + len(partition.topic) + len(task.request.transactional_id)
            if size > max_bytes and self.in_flight:
                break
            self.waiting.popleft()
            if not task.is_over and partition in task.missing:
                self.in_flight.append((task, partition))
        self.call_id = call_id
        return _markers_of(self.in_flight)

    def end_call(self, call_id: int) -> list[Due]:
        """Return what was in flight, unless the answer is for a call that is long over."""
        if call_id != self.call_id:
            return []
        ended, self.in_flight = self.in_flight, []
        return ended

    def take_waiting(self) -> deque[Due]:
        """Return what waits behind the call, and forget it."""
        waiting, self.waiting = self.waiting, deque()
        return waiting


def _markers_of(due: Iterable[Due]) -> tuple[Marker, ...]:
    markers: list[Marker] = []
    for task, dues in groupby(due, key=itemgetter(0)):
        partitions = tuple([partition for _, partition in dues])
        request = task.request
        version = request.transaction_version
        # From version 2 on the epoch of the producer tells one transaction from the next.
        decided = (0, "") if version >= IMPLICIT_VERSION else (request.decision, request.transactional_id)
        markers.append(Marker(task.producer, task.commit, request.coordinator_epoch, version, partitions, *decided))
    return tuple(markers)
