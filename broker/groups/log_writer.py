"""What a turn of the group coordinator has decided, on its way into a partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from eagleray.broker.groups.membership import LogRecord
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Appended, Origin, Rejection
from eagleray.broker.messages import Marker
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.records import NewRecord, RecordBatch, build_batch, split_batches

NO_PRODUCER_KEY: Final = -1
"""The key of what is logged outside of transactions; all else has the id of its producer."""

_BATCH_BYTES: Final = 61
_RECORD_BYTES: Final = 24
"""What a batch, and each of its records, takes at most besides keys and values."""


class LogBatch(msgspec.Struct, frozen=True, gc=False):
    """Records that a recovery finds together or not at all; with a producer, as a part of its transaction."""

    records: tuple[LogRecord, ...]
    producer: ProducerIdentity | None = None


Entry: TypeAlias = LogBatch | Marker


def size_of(records: Iterable[LogRecord]) -> int:
    """Say how large a batch of these records is at most."""
    return _BATCH_BYTES + sum(_RECORD_BYTES + len(key) + len(value or b"") for key, value in records)


def append_entries(leader: ReplicationLeader, entries: Iterable[tuple[int, Entry]], now_ms: int) -> bool:
    """Append entries in their order, those of one kind together; say whether the log has taken all of them.

    Raises LogWriteFailed. Either way the log may have some of them.
    """
    for _, run in groupby((entry for _, entry in entries), key=_kind_of):
        if not all(isinstance(result, Appended) for result in _append_run(leader, [*run], now_ms)):
            return False
    return True


def _append_run(leader: ReplicationLeader, run: Sequence[Entry], now_ms: int) -> Sequence[Appended | Rejection]:
    """Append entries that are all markers, all batches of transactions, or all batches outside of any."""
    markers = [entry for entry in run if isinstance(entry, Marker)]
    if markers:
        return leader.append_markers(markers, now_ms)
    batches = [entry for entry in run if isinstance(entry, LogBatch)]
    if batches[0].producer is not None:
        built = [_transactional(batch, now_ms) for batch in batches]
        return leader.append(built, now_ms, origin=Origin.COORDINATOR)
    return [leader.append_records(records, now_ms) for records in _merged(batches, leader.log.max_batch_bytes)]


def _kind_of(entry: Entry) -> type | None:
    """Tell markers, batches of transactions, and batches outside of any apart."""
    return None if isinstance(entry, LogBatch) and entry.producer is None else type(entry)


def _merged(batches: Iterable[LogBatch], most_bytes: int) -> Iterator[list[LogRecord]]:
    """Put as many batches into one as it may hold."""
    records: list[LogRecord] = []
    size_bytes = _BATCH_BYTES
    for batch in batches:
        added_bytes = size_of(batch.records) - _BATCH_BYTES
        if records and size_bytes + added_bytes > most_bytes:
            yield records
            records, size_bytes = [], _BATCH_BYTES
        records += batch.records
        size_bytes += added_bytes
    yield records


def _transactional(batch: LogBatch, now_ms: int) -> RecordBatch:
    assert batch.producer is not None
    data = build_batch(
        [NewRecord(value, key=key, timestamp=now_ms) for key, value in batch.records],
        producer_id=batch.producer.producer_id,
        producer_epoch=batch.producer.epoch,
        transactional=True,
    )
    (built,) = split_batches(data, verify_crc=False)
    return built
