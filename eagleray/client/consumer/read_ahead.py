"""Records that a consumer has taken over from the fetcher, and has not yielded or returned yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from eagleray.broker.identities import TopicPartition
from eagleray.client.types import ConsumerRecord


class RecordsAhead(deque[ConsumerRecord]):
    """What both consumers yield and return from, the first record first.

    Owns: those records, in memory. They do not count as read: a position that is shown or committed is that of the
    first of its partition, until `popleft` yields it or `take` returns it. A partition that is given up or sought
    elsewhere takes its records along. An application's thread takes from it only while no call of it is under way on
    the loop.
    """

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Give up to so many records to a `poll`."""
        return [self.popleft() for _ in range(min(limit, len(self)))]

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return, for each partition that has records here, the offset of its first one."""
        return {record.topic_partition: record.offset for record in reversed(self)}

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of all other partitions."""
        self._replace([record for record in self if record.topic_partition in partitions])

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of partitions."""
        self._replace([record for record in self if record.topic_partition not in partitions])

    def _replace(self, records: list[ConsumerRecord]) -> None:
        # In place, because an iterator of the application holds on to this very object.
        self.clear()
        self.extend(records)
