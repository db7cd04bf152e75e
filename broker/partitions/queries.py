"""Requests that one partition answers from its log at once (ListOffsets, DescribeProducers and others), and
DeleteRecords.
"""

from __future__ import annotations

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import LogError, OffsetOutOfRange, TimestampedOffset
from eagleray.broker.log.producer_entry import ProducerEntry
from eagleray.broker.partitions.events import (
    EARLIEST_TIMESTAMP,
    LARGEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_TIMESTAMP,
    TO_HIGH_WATERMARK,
    DeleteRecords,
    DescribePartition,
    DescribeProducers,
    EpochEndFound,
    EpochEndOffset,
    ListOffset,
    OffsetListed,
    PartitionDescribed,
    ProducerDescription,
    ProducersDescribed,
    Query,
    QueryAnswer,
    RecordsDeleted,
)
from eagleray.broker.partitions.reader import PartitionReader
from eagleray.protocol.errors import ErrorCode

_ANSWERS: dict[type[Query], type[QueryAnswer]] = {
    ListOffset: OffsetListed,
    DeleteRecords: RecordsDeleted,
    DescribeProducers: ProducersDescribed,
    EpochEndOffset: EpochEndFound,
    DescribePartition: PartitionDescribed,
}


def answer_query(
    leader: PartitionReader | None, query: Query, *, without_leader: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER
) -> QueryAnswer:
    """Answer a query by the partition's leader, if it is here and its log serves."""
    if leader is None:
        return _refused(query, without_leader)
    if not leader.log.is_online:
        return _refused(query, ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        return _answer(leader, query)
    except OffsetOutOfRange:
        return _refused(query, ErrorCode.OFFSET_OUT_OF_RANGE)
    except LogError as error:
        leader.note_failure(error)
        return _refused(query, ErrorCode.KAFKA_STORAGE_ERROR)


def check_deletion(leader: PartitionReader | None, query: DeleteRecords, steady_ms: int) -> RecordsDeleted | None:
    """Refuse a deletion where another node may lead; None where it may go on, or `answer_query` will refuse it."""
    if leader is None or not leader.log.is_online:
        return None
    error_code = leader.replication.check_append(steady_ms, waits_for_all=False)
    return None if error_code is ErrorCode.NONE else RecordsDeleted(query.request_id, error_code)


def _refused(query: Query, error_code: ErrorCode) -> QueryAnswer:
    return _ANSWERS[type(query)](query.request_id, error_code)


def _answer(leader: PartitionReader, query: Query) -> QueryAnswer:
    match query:
        case ListOffset():
            return _list_offset(leader, query)
        case DeleteRecords():
            return _delete_records(leader, query)
        case DescribeProducers():
            producers = tuple(_describe_producer(entry) for entry in leader.log.producers)
            return ProducersDescribed(query.request_id, ErrorCode.NONE, producers)
        case EpochEndOffset():
            return _find_epoch_end(leader, query)
        case DescribePartition():
            return _describe_partition(leader, query)


def _list_offset(leader: PartitionReader, query: ListOffset) -> OffsetListed:
    error_code = leader.check_leader_epoch(query.leader_epoch)
    if error_code is ErrorCode.NONE and query.timestamp < LARGEST_TIMESTAMP:
        error_code = ErrorCode.INVALID_TIMESTAMP
    if error_code is not ErrorCode.NONE:
        return OffsetListed(query.request_id, error_code)
    found = _find_offset(leader, query)
    needs_end = found is None or query.timestamp == LATEST_TIMESTAMP
    if needs_end and not leader.replication.knows_high_watermark:
        # An earlier leader may have shown a higher end than this one knows yet; an end offset that falls would mislead
        # the client.
        return OffsetListed(query.request_id, ErrorCode.OFFSET_NOT_AVAILABLE)
    if found is None:
        return OffsetListed(query.request_id, ErrorCode.NONE)
    leader_epoch = leader.log.epochs.epoch_at(found.offset)
    return OffsetListed(query.request_id, ErrorCode.NONE, found.offset, found.timestamp_ms, leader_epoch)


def _find_offset(leader: PartitionReader, query: ListOffset) -> TimestampedOffset | None:
    log = leader.log
    if query.timestamp == LATEST_TIMESTAMP:
        return TimestampedOffset(NO_TIMESTAMP, log.readable_end(query.isolation))
    if query.timestamp == EARLIEST_TIMESTAMP:
        return TimestampedOffset(NO_TIMESTAMP, log.log_start_offset)
    if query.timestamp == LARGEST_TIMESTAMP:
        return log.offset_of_largest_timestamp(query.isolation)
    return log.offset_for_timestamp(query.timestamp, query.isolation)


def _delete_records(leader: PartitionReader, query: DeleteRecords) -> RecordsDeleted:
    log = leader.log
    if not log.config.cleanup_delete:
        # A producer to a compacted topic counts on the last value of each key to stay for good.
        return RecordsDeleted(query.request_id, ErrorCode.POLICY_VIOLATION)
    before_offset = log.high_watermark if query.before_offset == TO_HIGH_WATERMARK else query.before_offset
    return RecordsDeleted(query.request_id, ErrorCode.NONE, log.delete_records(before_offset))


def _describe_producer(entry: ProducerEntry) -> ProducerDescription:
    return ProducerDescription(
        ProducerIdentity(entry.producer_id, entry.epoch),
        entry.last_sequence,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.open_since_offset,
    )


def _find_epoch_end(leader: PartitionReader, query: EpochEndOffset) -> EpochEndFound:
    error_code = leader.check_leader_epoch(query.leader_epoch)
    if error_code is not ErrorCode.NONE or query.epoch > leader.leader_epoch:
        return EpochEndFound(query.request_id, error_code)
    log = leader.log
    if query.epoch > log.epochs.latest_epoch:
        # Nothing was written in that epoch: the epoch before it, if there is one, reaches up to the end of the log.
        is_ours = query.epoch == leader.leader_epoch or not len(log.epochs)
        epoch = query.epoch if is_ours else log.epochs.latest_epoch
        return EpochEndFound(query.request_id, ErrorCode.NONE, epoch, log.log_end_offset)
    end = log.epochs.end_of(query.epoch, log.log_end_offset)
    return EpochEndFound(query.request_id, ErrorCode.NONE, end.epoch, end.end_offset)


def _describe_partition(leader: PartitionReader, query: DescribePartition) -> PartitionDescribed:
    log = leader.log
    return PartitionDescribed(
        query.request_id,
        ErrorCode.NONE,
        leader.leader_epoch,
        log.log_start_offset,
        log.last_stable_offset,
        log.high_watermark,
        log.log_end_offset,
        log.size_bytes,
    )
