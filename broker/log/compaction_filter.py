"""What compaction keeps of a batch.

A record stays if it is the newest of its key. A tombstone that is the newest stays for `delete.retention.ms` longer, so
that a consumer that has read the value has time to read the tombstone. That time ends at the batch's delete horizon,
which the first compaction that meets the tombstone sets. A transaction's marker gets a horizon likewise, when the
transaction's last batch is gone. Offsets and sequences never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eagleray.broker.log.compaction_transactions import CompactionTransactions
from eagleray.broker.log.offset_map import OffsetMap
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import BytesLike, Record, RecordBatch, rebuild_batch

if TYPE_CHECKING:
    from eagleray.protocol.records import BatchHeader


class CompactionFilter:
    """Decides about the batches of a log, one by one, in their order from the log's start on.

    Owns nothing on disk. `newest` covers the offsets from the end of the last compaction up to `end_offset`; what lies
    behind passes unchanged. `aborted` collects the entries for the transaction index of the segment that is being
    written; the writer takes them out.
    """

    __slots__ = ("_delete_horizon_ms", "_end_offset", "_newest", "_now_ms", "_producers", "aborted", "transactions")

    def __init__(
        self, newest: OffsetMap, end_offset: int, producers: ProducerState, *, now_ms: int, delete_retention_ms: int
    ) -> None:
        self._newest = newest
        self._end_offset = end_offset
        self._producers = producers
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms
        self.transactions = CompactionTransactions()
        self.aborted: list[AbortedTransaction] = []

    def keep(self, batch: RecordBatch, *, must_stay: bool) -> BytesLike | None:
        """Return what stays of a batch: its own view if all of it, new bytes if a part, None if nothing.

        Of a batch that must stay at least the header does, with the offsets and sequences that it holds.
        """
        if batch.header.is_control:
            return self._keep_marker(batch, must_stay=must_stay) if _is_marker(batch) else batch.view
        is_aborted = self.transactions.meet_batch(batch.header)
        kept = self._keep_data(batch, is_aborted=is_aborted, must_stay=must_stay)
        if kept is not None:
            self.transactions.keep_batch(batch.header)
        return kept

    def _keep_data(self, batch: RecordBatch, *, is_aborted: bool, must_stay: bool) -> BytesLike | None:
        header = batch.header
        if self._is_ahead(header):
            return batch.view
        try:
            retained = [] if is_aborted else [record for record in batch.records() if self._stays(record, header)]
        except ProtocolError:
            # The checksum fits, so the producer sent these bytes, but they are no records. It cannot be known what they
            # supersede, and they are not ours to lose.
            return batch.view
        if retained:
            return self._with_records(batch, retained)
        if not must_stay and not self._is_last_of_producer(header):
            return None
        return batch.view if header.record_count == 0 else rebuild_batch(batch, (), delete_horizon_ms=None)

    def _with_records(self, batch: RecordBatch, retained: Sequence[Record]) -> BytesLike:
        horizon_ms = batch.header.delete_horizon_ms
        is_new_horizon = horizon_ms is None and any(record.value is None for record in retained)
        if is_new_horizon:
            horizon_ms = self._delete_horizon_ms
        elif len(retained) == batch.header.record_count:
            return batch.view
        return rebuild_batch(batch, retained, delete_horizon_ms=horizon_ms)

    def _stays(self, record: Record, header: BatchHeader) -> bool:
        if record.key is None or self._newest.is_superseded(record.key, record.offset):
            return False
        return record.value is not None or not self._is_past_horizon(header)

    def _keep_marker(self, batch: RecordBatch, *, must_stay: bool) -> BytesLike | None:
        """Keep or drop a whole marker: without its record it would not tell the coordinator's epoch."""
        header = batch.header
        end = self.transactions.meet_marker(header)
        if end.aborted is not None:
            self.aborted.append(end.aborted)
        if not end.is_empty or self._is_ahead(header):
            return batch.view
        if header.record_count and not header.has_delete_horizon:
            return rebuild_batch(batch, batch.records(), delete_horizon_ms=self._delete_horizon_ms)
        is_due = header.record_count == 0 or self._is_past_horizon(header)
        return None if is_due and not must_stay and not self._is_last_of_producer(header) else batch.view

    def _is_ahead(self, header: BatchHeader) -> bool:
        return header.base_offset >= self._end_offset

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return False
        if entry.batches:
            return header.last_offset == entry.batches[-1].last_offset
        # The epoch began with a marker, as in version 2 of transactions, and has no data yet.
        return header.is_control and header.producer_epoch == entry.epoch


def _is_marker(batch: RecordBatch) -> bool:
    """Whether it is a transaction's marker; other control batches mean nothing to a compaction, and stay."""
    try:
        return batch.header.record_count == 0 or batch.end_transaction_marker() is not None
    except ProtocolError:
        return False
