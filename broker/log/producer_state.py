"""The producer state of a partition: how a duplicate batch is recognised and a zombie fenced.

A producer numbers its batches for each partition. The partition keeps, for each producer id, the newest epoch and the
last five batches. A batch that repeats one of the five is answered with the offsets it got the first time; one that
follows the last is appended; everything else is refused.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from eagleray.broker.identities import LAST_EPOCH
from eagleray.broker.log.producer_entry import CACHED_BATCHES, NO_OFFSET, CachedBatch, ProducerEntry
from eagleray.broker.log.producer_limit import IDLE_MS, ProducerLimit
from eagleray.broker.log.unstable_transactions import UnstableTransactions
from eagleray.broker.messages import Marker
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import BatchHeader, EndTransactionMarker, RecordError


class Origin(enum.Enum):
    """The origin of an append, which decides how much is checked."""

    CLIENT = enum.auto()
    """A producer: epoch and sequence are checked, repeats are recognised."""

    COORDINATOR = enum.auto()
    """A coordinator of this broker: epochs are checked; its batches carry no sequence."""

    REPLICATION = enum.auto()
    """A leader, or this log's own file: the batch was checked when it was first appended."""


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """Why a batch was not appended."""

    error_code: ErrorCode
    message: str
    record_errors: tuple[RecordError, ...] = ()
    """Which records of the batch are the reason, where it is not the batch itself."""


class CompletedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction of this partition that a marker has just ended."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_aborted: bool
    last_stable_offset: int
    """The first offset that was still undecided when the marker was appended; the aborted index keeps it."""


_BEFORE_SIZE: Final = 7
"""A producer's entry, and its state."""

_NEW: Final = -1
"""In place of the epoch of a producer that was not known before."""


class ProducerState:
    """All producers of one partition, and the transactions that they have open in it.

    Owns: the state that replaying the log gives, without what was forgotten. `check_*` decide and change nothing;
    `apply_*` change and decide nothing, and are called for what has been appended, in order of offset, by the live
    append and by recovery alike.

    What is forgotten (ADR 38): a producer id whose last epoch has ended, at once; one that was idle for long; and where
    the partition knows as many as it may, those that were idle for 15 minutes. Replicas may differ in that. What a
    forgotten producer sends in a transaction is put to its coordinator, which knows whether the transaction is over.
    """

    __slots__ = ("_before", "_entries", "get", "limit", "unstable")

    def __init__(
        self,
        entries: Iterable[ProducerEntry] = (),
        unreplicated: Sequence[tuple[int, int]] = (),
        *,
        now_ms: int = 0,
    ) -> None:
        """Start with these producers, heard of now, and with transactions that are decided but not replicated."""
        self._entries = {entry.producer_id: entry for entry in entries}
        self.get = self._entries.get
        """Return what is known of a producer."""
        self.limit = ProducerLimit(self._entries)
        for entry in self._entries.values():
            entry.last_heard_ms = now_ms
        self._before: list[Any] | None = None
        """What producers were before the append at hand: each entry, and what it was in the order of its `state`.

        Flat, because a tuple for each batch costs more than all that it holds.
        """
        self.unstable = UnstableTransactions()
        opened = [entry.open_since_offset for entry in self._entries.values() if entry.is_open]
        for first_offset in sorted([*opened, *(first_offset for _, first_offset in unreplicated)]):
            self.unstable.begin(first_offset)
        for marker_offset, first_offset in unreplicated:
            self.unstable.decide(first_offset, marker_offset)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def check_data(self, header: BatchHeader, origin: Origin, now_ms: int) -> CachedBatch | Rejection | None:
        """Decide about a data batch that has a producer id: None to append it, else what to answer."""
        entry = self._entries.get(header.producer_id)
        if entry is None or origin is Origin.REPLICATION:
            # A producer that is unknown may continue at any sequence: its state may have been expired or deleted with
            # its records, and a refusal would end a producer that did nothing wrong.
            is_taken = origin is not Origin.CLIENT or self.limit.has_room(now_ms)
            return None if is_taken else _too_many_producers(header, self.limit.most)
        if header.producer_epoch != entry.epoch or header.base_sequence != entry.next_sequence:
            verdict = _check_out_of_line(header, entry, origin)
            if verdict is not None:
                return verdict
        if entry.is_open and not header.is_transactional:
            return _outside_transaction(header, entry)
        return None

    def check_marker(self, marker: Marker) -> Rejection | None:
        """Decide about a commit or abort marker: None to append it, else why not."""
        producer_id, epoch = marker.producer.producer_id, marker.producer.epoch
        if producer_id < 0 or epoch < 0:
            return Rejection(ErrorCode.INVALID_PRODUCER_EPOCH, f"{marker.producer} is no producer that could have one")
        entry = self._entries.get(producer_id)
        if marker.hanging_since != NO_OFFSET and (entry is None or entry.open_since_offset != marker.hanging_since):
            return Rejection(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has no transaction open since offset {marker.hanging_since} any more",
            )
        if entry is None:
            return None
        # In version 2 a marker carries the epoch after the transaction's own. One whose epoch equals that of an
        # open transaction is a late marker of the transaction before, and must not end this one.
        is_late = marker.transaction_version >= 2 and epoch == entry.epoch and entry.is_open
        if epoch < entry.epoch or is_late:
            return _fenced(producer_id, epoch, entry)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return Rejection(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of producer {producer_id} has coordinator epoch {marker.coordinator_epoch}, "
                f"but one with {entry.coordinator_epoch} was seen: a newer coordinator has taken over",
            )
        return None

    def apply_data(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Remember a data batch that was appended at `base_offset`."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self._entry_in_epoch(header.producer_id, header.producer_epoch, now_ms)
        elif self._before is not None:
            self._before += (
                entry,
                entry.epoch,
                entry.batches,
                entry.next_sequence,
                entry.coordinator_epoch,
                entry.last_timestamp_ms,
                entry.open_since_offset,
            )
        entry.last_heard_ms = now_ms
        last_sequence, timestamp_ms = header.last_sequence, header.max_timestamp
        last_offset = base_offset + header.last_offset_delta
        entry.last_timestamp_ms = timestamp_ms
        entry.remember(CachedBatch(header.base_sequence, last_sequence, base_offset, last_offset, timestamp_ms))
        if entry.open_since_offset == NO_OFFSET and header.is_transactional:
            entry.open_since_offset = base_offset
            self.unstable.begin(base_offset)

    def apply_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int, now_ms: int
    ) -> CompletedTransaction | None:
        """Remember a marker that was appended at `offset`; return the transaction it ended, if it had records."""
        producer_id, is_last = header.producer_id, header.producer_epoch == LAST_EPOCH
        if producer_id not in self._entries and (is_last or not self.limit.has_room(now_ms)):
            # It ends nothing here, and only its epoch could be remembered.
            return None
        entry = self._entry_in_epoch(header.producer_id, header.producer_epoch, now_ms)
        entry.last_heard_ms = now_ms
        entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
        entry.last_timestamp_ms = header.max_timestamp
        first_offset, entry.open_since_offset = entry.open_since_offset, NO_OFFSET
        if is_last:
            del self._entries[producer_id]
        if first_offset == NO_OFFSET:
            return None
        self.unstable.decide(first_offset, offset)
        undecided = self.unstable.first_undecided_offset
        last_stable_offset = offset + 1 if undecided is None else undecided
        return CompletedTransaction(producer_id, first_offset, offset, not marker.commit, last_stable_offset)

    def heard_of(self, producer_id: int, now_ms: int) -> None:
        """Note that a producer has repeated a batch: it is at work, although nothing was appended."""
        self._entries[producer_id].last_heard_ms = now_ms

    def begin_append(self) -> None:
        """Remember from now on what each producer was before it changes, for `undo_append`."""
        self._before = []

    def undo_append(self, end_offset: int) -> None:
        """Go back to `begin_append`, when the log ended at an offset.

        Producers that were idle for long and have made room stay forgotten, and all that were heard of were heard of.
        """
        before, self._before = self._before or [], None
        while before:
            entry, *state = before[-_BEFORE_SIZE:]
            del before[-_BEFORE_SIZE:]
            if state[0] == _NEW:
                self._entries.pop(entry.producer_id, None)
            else:
                entry.restore(state)
                self._bring_back(entry)
        self.unstable.truncate_from(end_offset)

    def _bring_back(self, entry: ProducerEntry) -> None:
        """Know a producer again whose last marker is undone."""
        if entry.producer_id not in self._entries:
            self._entries[entry.producer_id] = entry
            self.limit.forget_notes()

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Expire producers that were idle for `expiration_ms`, never one with a transaction open; return how many.

        Of what a follower or a replay has taken beyond the limit, those go too that would make room.
        """
        known = len(self._entries)
        for entry in [*self._entries.values()]:
            if entry.last_heard_ms > now_ms:
                # The clock was set back; nothing may be remembered for as long as it was ahead.
                entry.last_heard_ms = now_ms
                self.limit.forget_notes()
            elif not entry.is_open and now_ms - entry.last_heard_ms >= expiration_ms:
                del self._entries[entry.producer_id]
        self.limit.make_room(0, now_ms)
        return known - len(self._entries)

    def _entry_in_epoch(self, producer_id: int, epoch: int, now_ms: int) -> ProducerEntry:
        entry = self._entries.get(producer_id)
        if entry is None:
            self.limit.make_room(1, now_ms)
            entry = self._entries[producer_id] = ProducerEntry(producer_id, epoch)
            self.limit.added(producer_id, now_ms)
            if self._before is not None:
                self._before += (entry, _NEW, *entry.state()[1:])
            return entry
        if self._before is not None:
            self._before += (entry, *entry.state())
        if epoch != entry.epoch:
            entry.enter_epoch(epoch)
        return entry


def _check_out_of_line(header: BatchHeader, entry: ProducerEntry, origin: Origin) -> CachedBatch | Rejection | None:
    if origin is Origin.CLIENT:
        duplicate = entry.find_duplicate(header)
        if duplicate is not None:
            return duplicate
    if header.producer_epoch < entry.epoch:
        return _fenced(header.producer_id, header.producer_epoch, entry)
    expected_sequence = max(entry.next_sequence, 0) if header.producer_epoch == entry.epoch else 0
    if origin is Origin.CLIENT and header.base_sequence != expected_sequence:
        return _out_of_order(header, entry)
    return None


def _fenced(producer_id: int, epoch: int, entry: ProducerEntry) -> Rejection:
    return Rejection(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} wrote with epoch {epoch}, but epoch {entry.epoch} was seen: "
        f"a newer producer has taken over, or the transaction was ended by its coordinator",
    )


def _out_of_order(header: BatchHeader, entry: ProducerEntry) -> Rejection:
    return Rejection(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} (epoch {header.producer_epoch}) wrote sequence {header.base_sequence} after "
        f"{entry.last_sequence} (epoch {entry.epoch}): a batch before it is missing, or it repeats one that is "
        f"older than the last {CACHED_BATCHES}",
    )


def _too_many_producers(header: BatchHeader, most: int) -> Rejection:
    return Rejection(
        ErrorCode.POLICY_VIOLATION,
        f"producer {header.producer_id} is new here, and the partition remembers as many producers as it may, {most}, "
        f"of which none was idle for {IDLE_MS // 60_000} minutes: use fewer producers, each for longer, or raise "
        f"max.producer.ids",
    )


def _outside_transaction(header: BatchHeader, entry: ProducerEntry) -> Rejection:
    return Rejection(
        ErrorCode.INVALID_TXN_STATE,
        f"producer {header.producer_id} wrote a batch outside of its transaction, which is open since offset "
        f"{entry.open_since_offset}: commit or abort it first",
    )
