"""What a partition remembers of its producers: how a duplicate batch is recognised and a zombie fenced.

A producer numbers its batches for each partition. The partition keeps, for each producer id, the newest epoch and
the last five batches. A batch that repeats one of the five is answered with the offsets it got the first time; one
that follows the last is taken; everything else is refused.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from eagleray.broker.log.unstable_transactions import UnstableTransactions
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import BatchHeader, EndTransactionMarker

CACHED_BATCHES = 5
LAST_SEQUENCE = 2**31 - 1
NO_OFFSET = -1
NO_SEQUENCE = -1


class Origin(enum.Enum):
    """Who appends, which decides how much is checked."""

    CLIENT = enum.auto()
    """A producer: epoch and sequence are checked, repeats are recognised."""

    COORDINATOR = enum.auto()
    """A coordinator of this broker: epochs are checked; its batches carry no sequence."""

    REPLICATION = enum.auto()
    """A leader, or this log's own file: it was checked when it was first appended."""


class CachedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where one of a producer's last batches went."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """Why a batch was not appended."""

    error_code: ErrorCode
    message: str


class CompletedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction of this partition that a marker has just ended."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_aborted: bool
    last_stable_offset: int
    """The first offset that was still undecided when the marker was appended; the aborted index keeps it."""


class ProducerEntry:
    """One producer id as this partition knows it; changed only by `ProducerState`."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
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
        self.open_since_offset = NO_OFFSET

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
        self.batches.append(batch)
        if len(self.batches) > CACHED_BATCHES:
            del self.batches[0]
        last_sequence = batch.last_sequence
        # Sequences wrap round to 0 behind 2 ** 31 - 1. A coordinator's batches have none, and so does the next one.
        self.next_sequence = (last_sequence + 1) & LAST_SEQUENCE if last_sequence >= 0 else NO_SEQUENCE

    def enter_epoch(self, epoch: int) -> None:
        """Forget the batches of the epoch before: a new one starts its sequences again at 0."""
        self.epoch = epoch
        self.batches = []
        self.next_sequence = 0


class ProducerState:
    """All producers of one partition, and the transactions that they have open in it.

    Owns: the state that replaying the log gives; it holds nothing else. `check_*` decide and change nothing;
    `apply_*` change and decide nothing, and are called for what has been appended, in order of offset, by the
    live append and by recovery alike.
    """

    __slots__ = ("_entries", "unstable")

    def __init__(self, entries: Iterable[ProducerEntry] = (), unreplicated: Sequence[tuple[int, int]] = ()) -> None:
        """Begin with these producers, and with transactions that are decided but, as `unstable` says, unreplicated."""
        self._entries = {entry.producer_id: entry for entry in entries}
        self.unstable = UnstableTransactions()
        opened = [entry.open_since_offset for entry in self._entries.values() if entry.open_since_offset != NO_OFFSET]
        for first_offset in sorted([*opened, *(first_offset for _, first_offset in unreplicated)]):
            self.unstable.begin(first_offset)
        for marker_offset, first_offset in unreplicated:
            self.unstable.decide(first_offset, marker_offset)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return what is known of a producer."""
        return self._entries.get(producer_id)

    def check_data(self, header: BatchHeader, origin: Origin) -> CachedBatch | Rejection | None:
        """Decide about a data batch that has a producer id: None to append it, else what to answer."""
        entry = self._entries.get(header.producer_id)
        if entry is None or origin is Origin.REPLICATION:
            # A producer that is unknown may continue at any sequence: its state may have been expired or
            # deleted with its records, and refusing would end a producer that did nothing wrong.
            return None
        if header.producer_epoch != entry.epoch or header.base_sequence != entry.next_sequence:
            verdict = _check_out_of_line(header, entry, origin)
            if verdict is not None:
                return verdict
        if entry.open_since_offset != NO_OFFSET and not header.is_transactional:
            return _outside_transaction(header, entry)
        return None

    def check_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, *, transaction_version: int = 1
    ) -> Rejection | None:
        """Decide about a commit or abort marker."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        # In version 2 a marker carries the epoch after the transaction's own. One whose epoch equals that of an
        # open transaction is a late marker of the transaction before, and must not end this one.
        is_late = (
            transaction_version >= 2 and header.producer_epoch == entry.epoch and entry.open_since_offset != NO_OFFSET
        )
        if header.producer_epoch < entry.epoch or is_late:
            return _fenced(header, entry)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return Rejection(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of producer {header.producer_id} has coordinator epoch {marker.coordinator_epoch}, "
                f"but one with {entry.coordinator_epoch} was seen: a newer coordinator has taken over",
            )
        return None

    def apply_data(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a data batch that was appended at `base_offset`."""
        entry = self._entry_in_epoch(header.producer_id, header.producer_epoch)
        timestamp_ms = header.max_timestamp
        entry.last_timestamp_ms = timestamp_ms
        last_offset = base_offset + header.last_offset_delta
        entry.remember(CachedBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp_ms))
        if entry.open_since_offset == NO_OFFSET and header.is_transactional:
            entry.open_since_offset = base_offset
            self.unstable.begin(base_offset)

    def apply_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int
    ) -> CompletedTransaction | None:
        """Remember a marker that was appended at `offset`; return the transaction it ended, if it had records."""
        entry = self._entry_in_epoch(header.producer_id, header.producer_epoch)
        entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
        entry.last_timestamp_ms = header.max_timestamp
        first_offset, entry.open_since_offset = entry.open_since_offset, NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        self.unstable.decide(first_offset, offset)
        undecided = self.unstable.first_undecided_offset
        last_stable_offset = offset + 1 if undecided is None else undecided
        return CompletedTransaction(header.producer_id, first_offset, offset, not marker.commit, last_stable_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were idle for `expiration_ms`, never one with a transaction open; return how many."""
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.open_since_offset == NO_OFFSET and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def _entry_in_epoch(self, producer_id: int, epoch: int) -> ProducerEntry:
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, epoch)
        elif epoch != entry.epoch:
            entry.enter_epoch(epoch)
        return entry


def _check_out_of_line(header: BatchHeader, entry: ProducerEntry, origin: Origin) -> CachedBatch | Rejection | None:
    """Decide about a batch that does not simply follow the producer's last one."""
    if origin is Origin.CLIENT:
        duplicate = entry.find_duplicate(header)
        if duplicate is not None:
            return duplicate
    if header.producer_epoch < entry.epoch:
        return _fenced(header, entry)
    expected_sequence = max(entry.next_sequence, 0) if header.producer_epoch == entry.epoch else 0
    if origin is Origin.CLIENT and header.base_sequence != expected_sequence:
        return _out_of_order(header, entry)
    return None


def _fenced(header: BatchHeader, entry: ProducerEntry) -> Rejection:
    return Rejection(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} wrote with epoch {header.producer_epoch}, but epoch {entry.epoch} was seen: "
        f"a newer producer has taken over, or the transaction was ended by its coordinator",
    )


def _out_of_order(header: BatchHeader, entry: ProducerEntry) -> Rejection:
    return Rejection(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} (epoch {header.producer_epoch}) wrote sequence {header.base_sequence} after "
        f"{entry.last_sequence} (epoch {entry.epoch}): a batch before it is missing, or it repeats one that is "
        f"older than the last {CACHED_BATCHES}",
    )


def _outside_transaction(header: BatchHeader, entry: ProducerEntry) -> Rejection:
    return Rejection(
        ErrorCode.INVALID_TXN_STATE,
        f"producer {header.producer_id} wrote a batch outside of its transaction, which is open since offset "
        f"{entry.open_since_offset}: commit or abort it first",
    )
