"""Answers for a partition whose log does not exist yet, because nothing was written to it: those of an empty log."""

from __future__ import annotations

from eagleray.broker.partitions.events import (
    EARLIEST_TIMESTAMP,
    LARGEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    DeleteRecords,
    DescribePartition,
    DescribeProducers,
    EpochEndFound,
    EpochEndOffset,
    FetchedPartition,
    FetchPartition,
    ListOffset,
    OffsetListed,
    PartitionDescribed,
    ProducersDescribed,
    Query,
    QueryAnswer,
    RecordsDeleted,
)
from eagleray.broker.partitions.reader import check_leader_epoch
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


def answer_unwritten(query: Query, leader_epoch: int) -> QueryAnswer:
    """Answer a query about a partition that is led at an epoch and holds nothing."""
    match query:
        case ListOffset():
            return _list_offset(query, leader_epoch)
        case DeleteRecords():
            return RecordsDeleted(query.request_id, ErrorCode.OFFSET_OUT_OF_RANGE)
        case DescribeProducers():
            return ProducersDescribed(query.request_id, _NONE, ())
        case EpochEndOffset():
            return _find_epoch_end(query, leader_epoch)
        case DescribePartition():
            return PartitionDescribed(query.request_id, _NONE, leader_epoch, 0, 0, 0, 0, 0)


def _list_offset(query: ListOffset, leader_epoch: int) -> OffsetListed:
    error_code = check_leader_epoch(query.leader_epoch, leader_epoch)
    if error_code is _NONE and query.timestamp < LARGEST_TIMESTAMP:
        error_code = ErrorCode.INVALID_TIMESTAMP
    if error_code is not _NONE or query.timestamp not in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
        return OffsetListed(query.request_id, error_code)
    return OffsetListed(query.request_id, _NONE, 0)


def _find_epoch_end(query: EpochEndOffset, leader_epoch: int) -> EpochEndFound:
    error_code = check_leader_epoch(query.leader_epoch, leader_epoch)
    if error_code is not _NONE or query.epoch > leader_epoch:
        return EpochEndFound(query.request_id, error_code)
    return EpochEndFound(query.request_id, _NONE, query.epoch, 0)


def read_unwritten(request: FetchPartition, leader_epoch: int) -> FetchedPartition:
    """Read a partition that is led at an epoch and holds nothing."""
    error_code = check_leader_epoch(request.leader_epoch, leader_epoch)
    if error_code is not _NONE:
        return FetchedPartition(request.partition, error_code)
    error_code = _NONE if request.offset == 0 else ErrorCode.OFFSET_OUT_OF_RANGE
    return FetchedPartition(request.partition, error_code, 0, 0, 0)
