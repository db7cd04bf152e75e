"""What a consumer at read_committed does with a fetch response, written after the protocol and not after the broker."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from eagleray.protocol.records import Record, RecordBatch


class Aborted(Protocol):
    """An entry of the list of aborted transactions in a fetch response."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


def committed_records(
    batches: Iterable[RecordBatch], aborted: Sequence[Aborted], *, from_offset: int = 0
) -> list[Record]:
    """Filter batches as clients do.

    A producer counts as aborted from the first offset of an entry on and until its abort marker; its
    transactional batches are skipped meanwhile. Markers are never records of the application.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset)
    aborted_producers: set[int] = set()
    records: list[Record] = []
    for batch in batches:
        header = batch.header
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted_producers.add(waiting.pop(0).producer_id)
        if header.is_control:
            if _is_abort(batch):
                aborted_producers.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in aborted_producers:
            continue
        records += [record for record in batch.records() if record.offset >= from_offset]
    return records


def _is_abort(batch: RecordBatch) -> bool:
    marker = batch.end_transaction_marker()
    return marker is not None and not marker.commit
