"""Logs that cannot be opened, or are damaged where no other replica has what they had: they are only tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.runtime.deadlines import Deadlines

FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 60_000
"""An opening may read all of a log, and what is wrong with it does not change by itself."""

LONGEST_WAIT_FOR_DISK_MS: Final = 5_000
"""A disk that fails may do its work again at any time."""


class OfflineLogs:
    """The partitions of a node that are offline, and when each is tried again.

    Owns: why each is offline, and a deadline for each, which is twice as far away each time; `on_due` is called when
    the first becomes earlier. Persists: nothing, as everything there is to know is on the disk.
    """

    def __init__(self, on_due: Callable[[int], None]) -> None:
        self._reasons: dict[TopicPartition, str] = {}
        self._waits_ms: dict[TopicPartition, int] = {}
        self._retries: Deadlines[TopicPartition] = Deadlines(on_due)

    def __contains__(self, partition: object) -> bool:
        return partition in self._reasons

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    def reason(self, partition: TopicPartition) -> str:
        """Why a partition is offline, and what a person can do about it."""
        return self._reasons[partition]

    def found(
        self, partition: TopicPartition, reason: str, steady_ms: int, longest_wait_ms: int = LONGEST_WAIT_MS
    ) -> bool:
        """Take a partition offline, or leave it so; return whether there is anything to say that was not said."""
        is_news = self._reasons.get(partition) != reason
        wait_ms = min(2 * self._waits_ms.get(partition, FIRST_WAIT_MS // 2), longest_wait_ms)
        self._reasons[partition], self._waits_ms[partition] = reason, wait_ms
        self._retries.set(partition, steady_ms + wait_ms)
        return is_news

    def disk_failed(self, partition: TopicPartition, reason: str, steady_ms: int) -> bool:
        """Take a partition offline whose disk has failed; return whether there is anything to say that was not said."""
        return self.found(partition, reason, steady_ms, LONGEST_WAIT_FOR_DISK_MS)

    def is_waiting(self, partition: TopicPartition, steady_ms: int) -> bool:
        """Whether a partition is offline, and is not to be tried yet."""
        return partition in self._retries and self._retries.due_ms(partition) > steady_ms

    def hurry(self, partition: TopicPartition) -> None:
        """Try a partition again at once, after something that may have changed what is wrong with it."""
        if partition in self._reasons:
            self._waits_ms.pop(partition, None)
            self._retries.cancel(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Note that a partition is open, or that this node has it no longer."""
        if self._reasons.pop(partition, None) is not None:
            self._waits_ms.pop(partition, None)
            self._retries.cancel(partition)

    @property
    def next_due_ms(self) -> int:
        """When the first is to be tried again."""
        return self._retries.next_due_ms

    def take_due(self, steady_ms: int) -> list[TopicPartition]:
        """Return the partitions that are to be tried now."""
        return self._retries.take_due(steady_ms)
