"""Deadlines: the one way in which state machines and nodes keep time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from eagleray.broker.messages import Message

AT_ONCE_MS: Final = 0
"""As early as possible: a deadline in the past counts as one of now."""

NEVER_MS: Final = 2**63
"""Later than every deadline."""

_FEW: Final = 16
"""With so few entries it does not matter how many of them are stale."""

Key = TypeVar("Key", bound=Hashable)


class Tick(Message, frozen=True, tag=True):
    """Time has passed: a state machine looks for what is due by now."""

    may_expire: bool = True
    """Whether what is old by the time of day may go: not while the clock is in doubt."""


class Deadlines(Generic[Key]):
    """One deadline for each key that has any, in the milliseconds of one clock.

    Owns: a heap. An entry whose deadline was moved or cancelled stays in it until it is due, or until half of the
    entries are stale. So setting and cancelling cost no search, and the heap holds at most twice the deadlines.
    Deadlines at the same time are taken in the order in which they were set. `on_earlier` is called with the first
    deadline whenever that becomes earlier.
    """

    __slots__ = ("_due_ms", "_heap", "_on_earlier", "_sets")

    def __init__(self, on_earlier: Callable[[int], None] | None = None) -> None:
        self._due_ms: dict[Key, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._sets = 0
        self._on_earlier = on_earlier

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, key: Key) -> bool:
        return key in self._due_ms

    def due_ms(self, key: Key) -> int:
        """When a key is due; NEVER_MS where it has no deadline."""
        known = self._due_ms.get(key)
        return NEVER_MS if known is None else known[0]

    @property
    def next_due_ms(self) -> int:
        """The first deadline; NEVER_MS where there is none."""
        heap, known = self._heap, self._due_ms
        while heap:
            due_ms, number, key = heap[0]
            if known.get(key) == (due_ms, number):
                return due_ms
            heappop(heap)
        return NEVER_MS

    def set(self, key: Key, due_ms: int) -> None:
        """Give a key this deadline in place of the one that it has; NEVER_MS takes that away."""
        known = self._due_ms.get(key)
        if due_ms >= NEVER_MS:
            if known is not None:
                self.cancel(key)
        elif known is None or known[0] != due_ms:
            is_earlier = self._on_earlier is not None and due_ms < self.next_due_ms
            self._sets += 1
            self._due_ms[key] = due_ms, self._sets
            heappush(self._heap, (due_ms, self._sets, key))
            self._drop_stale()
            if is_earlier and self._on_earlier is not None:
                self._on_earlier(due_ms)

    def set_by(self, key: Key, due_ms: int) -> None:
        """Make sure that a key is due by then: an earlier deadline stays."""
        known = self._due_ms.get(key)
        if known is None or due_ms < known[0]:
            self.set(key, due_ms)

    def cancel(self, key: Key) -> None:
        """Take a key's deadline away, if it has one."""
        if self._due_ms.pop(key, None) is not None:
            self._drop_stale()

    def clear(self) -> None:
        """Take all deadlines away."""
        self._due_ms.clear()
        self._heap.clear()

    def take_due(self, now_ms: int, limit: int | None = None) -> list[Key]:
        """Return the keys that are due by now, or the first few of them, and take their deadlines away."""
        due: list[Key] = []
        while (limit is None or len(due) < limit) and self.next_due_ms <= now_ms:
            key = heappop(self._heap)[2]
            del self._due_ms[key]
            due.append(key)
        return due

    def _drop_stale(self) -> None:
        if len(self._heap) > _FEW + 2 * len(self._due_ms):
            self._heap = [(due_ms, number, key) for key, (due_ms, number) in self._due_ms.items()]
            heapify(self._heap)
