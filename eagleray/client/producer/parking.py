"""Records whose topic or partition is not known yet: each waits for its own, and for no other."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from eagleray.broker.identities import TopicPartition
from eagleray.client.producer.batches import Delivery, Ending, Owner, ProducerBatch
from eagleray.protocol.records import Headers

Awaited: TypeAlias = str | TopicPartition
"""What a record waits for: a topic, or a partition that a known topic does not have."""


class ParkedRecord(Ending):
    """A record from `send` until it has a place in a batch, or has failed."""

    __slots__ = ("batch", "deadline_ms", "delivery", "headers", "key", "partition", "size_bytes", "topic", "value")

    def __init__(  # noqa: PLR0917 - the fields of a record in their usual order
        self,
        owner: Owner,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int,
        headers: Headers,
        size_bytes: int,
    ) -> None:
        super().__init__(owner)
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.headers = headers
        self.size_bytes = size_bytes
        self.delivery = Delivery(self, 0, timestamp)
        self.deadline_ms: int | None = None
        """When it fails; None until the loop has seen it."""

        self.batch: ProducerBatch | None = None

    @property
    def destination(self) -> str:
        """Where the record is to go."""
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def current(self) -> Ending:
        """Return what the end depends on now; to be called under the lock."""
        return self if self.batch is None else self.batch

    def placed(self, batch: ProducerBatch, index: int) -> None:
        """Note its place in a batch, which calls back from now on; to be called under the lock."""
        self.batch = self.delivery.ending = batch
        self.delivery.index = index
        batch.is_looked_at = batch.is_looked_at or self.is_looked_at
        if self.callbacks:
            batch.callbacks = [*(batch.callbacks or ()), *self.callbacks]
            self.callbacks = None


class Parking:
    """The records that wait, by what they wait for and in the order of `send`; to be touched under the lock.

    What is awaited stays in here until the last of its records has a place: those that come meanwhile stand behind.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[Awaited, deque[ParkedRecord]] = {}
        """Empty nearly always, which those who send look at for each record."""

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def __contains__(self, awaited: Awaited) -> bool:
        return awaited in self.waiting

    def awaited(self) -> list[Awaited]:
        """Return what is waited for."""
        return list(self.waiting)

    def records(self) -> list[ParkedRecord]:
        """Return all that wait."""
        return [record for records in self.waiting.values() for record in records]

    def overdue(self, now_ms: int) -> dict[Awaited, list[ParkedRecord]]:
        """Return those that have waited for too long, by what they wait for."""
        found = {}
        for awaited, records in self.waiting.items():
            late = [each for each in records if each.deadline_ms is not None and each.deadline_ms <= now_ms]
            if late:
                found[awaited] = late
        return found

    def add(self, awaited: Awaited, record: ParkedRecord) -> None:
        """Let a record wait behind the others that wait for the same."""
        self.waiting.setdefault(awaited, deque()).append(record)

    def first(self, awaited: Awaited) -> ParkedRecord | None:
        """Return the record that is the first to go."""
        records = self.waiting.get(awaited)
        return records[0] if records else None

    def remove(self, record: ParkedRecord) -> bool:
        """Let a record wait no longer, and say whether it did."""
        for awaited, records in self.waiting.items():
            if records[0] is record:
                records.popleft()
            elif record in records:
                records.remove(record)
            else:
                continue
            if not records:
                del self.waiting[awaited]
            return True
        return False
