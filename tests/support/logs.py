"""Short ways to do things with a partition log."""

from collections.abc import Callable
from typing import Any, TypeAlias

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import AbortedTransaction, Appended, PartitionLog, Rejection
from eagleray.broker.messages import Marker
from eagleray.protocol.records import RecordBatch
from tests.support.batches import NOW_MS, data_batch, whole_batches

DIRECTORY = "/log"

OpenLog: TypeAlias = Callable[..., PartitionLog]
"""Opens the log of a test; its keywords are the settings of `LogConfig`."""


def append(
    log: PartitionLog, *batches: RecordBatch, now_ms: int = NOW_MS, leader_epoch: int = 0, **options: Any
) -> list[Appended | Rejection]:
    """Append batches of clients."""
    return log.append(batches, leader_epoch=leader_epoch, now_ms=now_ms, **options)


def end_marker(
    producer_id: int, epoch: int, commit: bool, coordinator_epoch: int, transaction_version: int = 1
) -> Marker:
    """Make a marker for the log at hand."""
    return Marker(ProducerIdentity(producer_id, epoch), commit, coordinator_epoch, transaction_version, ())


def append_markers(
    log: PartitionLog, *markers: Marker, now_ms: int = NOW_MS, leader_epoch: int = 0
) -> list[Appended | Rejection]:
    """Append markers of a transaction coordinator."""
    return log.append_markers(markers, leader_epoch=leader_epoch, now_ms=now_ms)


def everything(log: PartitionLog) -> bytes:
    """Return all batches of the log, replicated or not."""
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        chunk = log.read_for_replica(offset, max_bytes=2**30)
        data += chunk
        offset = whole_batches(chunk)[-1].header.next_offset
    return data


def base_offsets(log: PartitionLog) -> list[int]:
    """Return where the log's segments begin."""
    return [segment.base_offset for segment in log.segments]


def aborted_in(log: PartitionLog) -> list[AbortedTransaction]:
    """Return what the log's indexes know of aborted transactions."""
    return [
        segment.transaction_index[number]
        for segment in log.segments
        for number in range(len(segment.transaction_index))
    ]


def transactional(sequence: int = 0, *, producer_id: int = 7, value: bytes = b"value") -> RecordBatch:
    """Build a batch of a transaction."""
    return data_batch(producer_id=producer_id, sequence=sequence, transactional=True, value=value)


def full_segment(sequence: int = 0) -> RecordBatch:
    """Build a batch of a transaction that leaves no room for another in a segment of 1024 bytes."""
    return transactional(sequence, value=b"x" * 920)
