"""The limit on the producers that a partition remembers (`max.producer.ids`), and who makes room for newcomers."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from eagleray.broker.log.producer_entry import ProducerEntry

IDLE_MS: Final = 15 * 60 * 1000
"""How long a producer has to be idle before it makes room. A stranger with many ids evicts none that is at work."""

NO_LIMIT: Final = 2**63
_LEAST_NOTES: Final = 1000


class ProducerLimit:
    """Finds the producer of a partition that makes room: the one that has been idle for longest, if for long enough.

    Once a partition was full, a heap has for each producer when it was heard at the latest note of it, or later. What
    a producer does is noted only when its note is 15 minutes old. So a newcomer costs little, taken or refused, and a
    producer at work nothing.
    """

    __slots__ = ("_entries", "_notes", "most")

    def __init__(self, entries: dict[int, ProducerEntry]) -> None:
        self.most = NO_LIMIT
        self._entries = entries
        self._notes: list[tuple[int, int]] | None = None

    def has_room(self, now_ms: int) -> bool:
        """Whether a partition may remember one more producer, perhaps in the place of an idle one."""
        return len(self._entries) < self.most or self._longest_idle(now_ms) is not None

    def make_room(self, count: int, now_ms: int) -> None:
        """Forget idle producers, as far as there are any, until there is room for so many more."""
        while len(self._entries) + count > self.most:
            producer_id = self._longest_idle(now_ms)
            if producer_id is None:
                return
            del self._entries[producer_id]

    def added(self, producer_id: int, now_ms: int) -> None:
        """Take note of a producer that is new."""
        notes = self._notes
        if notes is not None:
            heappush(notes, (now_ms, producer_id))
            if len(notes) > 2 * len(self._entries) + _LEAST_NOTES:
                self.forget_notes()

    def forget_notes(self) -> None:
        """Look at all producers when it is needed next: most notes are of some that are gone, or later than true."""
        self._notes = None

    def _longest_idle(self, now_ms: int) -> int | None:
        notes = self._notes
        if notes is None:
            notes = self._notes = [(entry.last_heard_ms, entry.producer_id) for entry in self._entries.values()]
            heapify(notes)
        while notes and now_ms - notes[0][0] >= IDLE_MS:
            noted_ms, producer_id = notes[0]
            entry = self._entries.get(producer_id)
            if entry is None:
                heappop(notes)
            elif entry.is_open:
                # It is heard of when its transaction ends.
                heapreplace(notes, (now_ms, producer_id))
            elif entry.last_heard_ms != noted_ms:
                heapreplace(notes, (entry.last_heard_ms, producer_id))
            else:
                return producer_id
        return None
