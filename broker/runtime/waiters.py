"""Payloads that wait until a log has reached an offset (Kafka's purgatory, for offsets)."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Payload = TypeVar("Payload")


class Waiters(Generic[Payload]):
    """Payloads that wait for an offset, each until a deadline of its own.

    Owns: what waits, in one heap. Each payload is given back once: by `reached` when its offset is, by `expired` when
    its time is up, or by `end`; which of them it was is the outcome. What waits for the same offset is given back in
    the order in which it came.
    """

    __slots__ = ("_added", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Payload]] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, payload: Payload, offset: int, deadline_ms: int) -> None:
        """Let a payload wait until `offset` is reached, at most until its deadline."""
        self._added += 1
        heappush(self._heap, (offset, self._added, deadline_ms, payload))

    @property
    def least_offset(self) -> int | None:
        """The first offset that something waits for; None where nothing waits."""
        return self._heap[0][0] if self._heap else None

    def reached(self, offset: int) -> list[Payload]:
        """Give back what waits for an offset that is not beyond this one, in the order of the offsets."""
        heap = self._heap
        payloads: list[Payload] = []
        while heap and heap[0][0] <= offset:
            payloads.append(heappop(heap)[3])
        return payloads

    def expired(self, now_ms: int) -> list[Payload]:
        """Give back what has waited until its deadline, in the order of the offsets."""
        overdue = sorted(waiter for waiter in self._heap if waiter[2] <= now_ms)
        if overdue:
            self._heap = [waiter for waiter in self._heap if waiter[2] > now_ms]
            heapify(self._heap)
        return [waiter[3] for waiter in overdue]

    def end(self) -> list[Payload]:
        """Give back everything that waits, in the order of the offsets."""
        waiting, self._heap = sorted(self._heap), []
        return [waiter[3] for waiter in waiting]
