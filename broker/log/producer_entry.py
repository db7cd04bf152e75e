"""One producer as a partition knows it: its epoch, its last batches, and whether it has a transaction open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from eagleray.protocol.records import BatchHeader

CACHED_BATCHES = 5
LAST_SEQUENCE = 2**31 - 1
NO_OFFSET = -1
NO_SEQUENCE = -1


class CachedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where one of a producer's last batches went."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


ProducerEntryState: TypeAlias = tuple[int, list[CachedBatch], int, int, int, int]


class ProducerEntry:
    """One producer id as this partition knows it; changed only by `ProducerState`."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_heard_ms",
        "last_timestamp_ms",
        "next_sequence",
        "open_since_offset",
        "producer_id",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[CachedBatch] = []
        self.next_sequence = 0
        self.coordinator_epoch = -1
        self.last_timestamp_ms = -1
        """Of its last batch by the producer's clock, or of its last marker; Kafka's snapshots keep it."""
        self.last_heard_ms = 0
        """When the broker last heard of it: by the broker's clock, and at the latest when its log was opened."""
        self.open_since_offset = NO_OFFSET

    @property
    def is_open(self) -> bool:
        """Whether it has a transaction open in the partition."""
        return self.open_since_offset != NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record appended in this epoch, or -1 where there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, header: BatchHeader) -> CachedBatch | None:
        """Return the cached batch that `header` repeats exactly, if any."""
        if header.producer_epoch == self.epoch:
            first_sequence, last_sequence = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None

    def remember(self, batch: CachedBatch) -> None:
        """Cache a batch of the current epoch in the place of the oldest."""
        # A new list, because the old one may be what an append that fails has to go back to.
        if len(self.batches) < CACHED_BATCHES:
            self.batches = [*self.batches, batch]
        else:
            _, second, third, fourth, fifth = self.batches
            self.batches = [second, third, fourth, fifth, batch]
        last_sequence = batch.last_sequence
        # Sequences wrap round to 0 behind 2 ** 31 - 1. A coordinator's batches have none.
        self.next_sequence = (last_sequence + 1) & LAST_SEQUENCE if last_sequence >= 0 else NO_SEQUENCE

    def enter_epoch(self, epoch: int) -> None:
        """Forget the batches of the epoch before: a new one starts its sequences again at 0."""
        self.epoch = epoch
        self.batches = []
        self.next_sequence = 0

    def state(self) -> ProducerEntryState:
        """Return everything that an append may change, for `restore`."""
        return (
            self.epoch,
            self.batches,
            self.next_sequence,
            self.coordinator_epoch,
            self.last_timestamp_ms,
            self.open_since_offset,
        )

    def restore(self, state: Sequence[Any]) -> None:
        """Go back to an earlier state."""
        (
            self.epoch,
            self.batches,
            self.next_sequence,
            self.coordinator_epoch,
            self.last_timestamp_ms,
            self.open_since_offset,
        ) = state
