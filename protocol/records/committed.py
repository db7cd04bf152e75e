"""The consumer's half of read_committed: which batches of a fetch an application gets to see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop

from eagleray.protocol.records.batch import RecordBatch


def committed_batches(batches: Iterable[RecordBatch], aborted: Iterable[tuple[int, int]]) -> Iterator[RecordBatch]:
    """Leave out control batches and the records of aborted transactions.

    `batches` are those of one fetch, in order of offset; `aborted` are the (first offset, producer id) pairs that came
    with them. A producer's batches are left out from the first offset of its aborted transaction up to its
    next marker; the broker ends a fetch before the first transaction that is undecided, so all others are committed.
    """
    pending = list(aborted)
    heapify(pending)
    aborting: set[int] = set()
    for batch in batches:
        header = batch.header
        while pending and pending[0][0] <= header.last_offset:
            aborting.add(heappop(pending)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield batch
