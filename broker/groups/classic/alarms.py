"""When to look at which group again."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class Alarms:
    """One alarm for each group that has any: never later than the first thing that is due there.

    Heartbeats put off what is due and leave the alarm where it is, so that they cost nothing here; an alarm that rings
    too early is set again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._due_ms: dict[str, int] = {}

    def set(self, group: str, due_ms: int) -> None:
        """See to it that a group is looked at by then."""
        known_ms = self._due_ms.get(group)
        if known_ms is None or due_ms < known_ms:
            self._due_ms[group] = due_ms
            heapq.heappush(self._heap, (due_ms, group))

    def ring(self, now_ms: int) -> Iterator[str]:
        """Give the groups whose alarm is due, each once; a group that is set again meanwhile waits for its time."""
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, group = heapq.heappop(self._heap)
            if self._due_ms.get(group) == due_ms:
                del self._due_ms[group]
                yield group
