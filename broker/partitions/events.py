"""The events that a partition leader takes, and the effects that it returns."""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.identities import NO_EPOCH, ProducerIdentity, TopicPartition
from eagleray.broker.limits import Int8, Int16, Int32, Int64, Text
from eagleray.broker.log import AbortedTransaction, Isolation
from eagleray.broker.messages import Marker, Message, RequestOf
from eagleray.broker.replication.events import LeaderEffect
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import RequestFailed
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordError

NO_OFFSET = -1
NO_TIMESTAMP = -1

NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

ALL_IN_SYNC = -1
"""The acks of a producer that waits for every replica in sync."""

LATEST_TIMESTAMP = -1
"""In place of a timestamp: the offset of the next record that becomes readable."""

EARLIEST_TIMESTAMP = -2
"""In place of a timestamp: the log start offset."""

LARGEST_TIMESTAMP = -3
"""In place of a timestamp: the first record that carries the largest one."""

TO_HIGH_WATERMARK = -1
"""In place of an offset to delete up to: everything that is replicated."""


# What happens to a leader.


class Produce(RequestOf["Produced"], frozen=True, tag="Produce"):
    """A producer's batch for one partition."""

    partition: TopicPartition
    records: bytes
    acks: Int16 = ALL_IN_SYNC
    transactional_id: Text | None = None
    transaction_version: Int8 = 1
    timeout_ms: Int32 = 30_000
    """How long a producer that waits for every replica in sync wants to wait for them."""


class TransactionVerified(Message, frozen=True, tag=True):
    """The coordinator has said whether a partition is part of a transaction."""

    partition: TopicPartition
    producer_id: int
    verification_id: int
    error_code: ErrorCode
    coordinator_epoch: int = NO_EPOCH
    decision: int = 0
    """The last decision that was over at the coordinator of this epoch; see `FinishedDecisions`."""


class LastDecisionAnswered(Message, frozen=True, tag=True):
    """The coordinator has said up to which decision a producer's transactions are over, or has said nothing."""

    partition: TopicPartition
    producer_id: int
    question_id: int
    error_code: ErrorCode
    coordinator_epoch: int = NO_EPOCH
    decision: int = 0


class WriteMarkers(RequestOf["MarkersAnswered"], frozen=True, tag="WriteMarkers"):
    """A coordinator's markers, coalesced."""

    markers: tuple[Marker, ...]

    def refused(self, error_code: ErrorCode) -> MarkersAnswered:
        """Write none of them."""
        return MarkersAnswered(self.request_id, (error_code,) * sum(len(marker.partitions) for marker in self.markers))


class FetchPartition(Message, frozen=True):
    """From where, and how much, to read of one partition."""

    partition: TopicPartition
    offset: Int64
    max_bytes: Int32
    leader_epoch: Int32 = NO_LEADER_EPOCH


class Fetch(RequestOf["Fetched"], frozen=True, tag="Fetch"):
    """A consumer's read; it may wait until there is enough."""

    partitions: tuple[FetchPartition, ...]
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    max_wait_ms: Int32 = 500
    min_bytes: Int32 = 1
    max_bytes: Int32 = 50 * 1024 * 1024

    def refused(self, error_code: ErrorCode) -> Fetched:
        """Read nothing."""
        found = tuple(FetchedPartition(wanted.partition, error_code) for wanted in self.partitions)
        return Fetched(self.request_id, found)


class ListOffset(RequestOf["OffsetListed"], frozen=True, tag="ListOffset"):
    """Asks for the offset of a timestamp, or of one of the names in place of timestamps."""

    partition: TopicPartition
    timestamp: Int64
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    leader_epoch: Int32 = NO_LEADER_EPOCH


class DeleteRecords(RequestOf["RecordsDeleted"], frozen=True, tag="DeleteRecords"):
    """Asks for the deletion of everything before an offset."""

    partition: TopicPartition
    before_offset: Int64
    timeout_ms: Int32 = 30_000
    """How long to wait for the other replicas in sync to delete them too."""


class DescribeProducers(RequestOf["ProducersDescribed"], frozen=True, tag="DescribeProducers"):
    """Asks which producers write to a partition, and which of them have a transaction open on it."""

    partition: TopicPartition


class EpochEndOffset(RequestOf["EpochEndFound"], frozen=True, tag="EpochEndOffset"):
    """Asks for the end offset of a leader epoch, by which a consumer finds out whether its position was truncated."""

    partition: TopicPartition
    epoch: Int32
    leader_epoch: Int32 = NO_LEADER_EPOCH


class DescribePartition(RequestOf["PartitionDescribed"], frozen=True, tag="DescribePartition"):
    """Asks for the offsets and the size of a partition."""

    partition: TopicPartition


class PartitionAdvanced(Message, frozen=True, tag=True):
    """The high watermark, or the log start offset, may have moved without a request to this leader."""

    partition: TopicPartition


Query: TypeAlias = ListOffset | DeleteRecords | DescribeProducers | EpochEndOffset | DescribePartition
Event: TypeAlias = (
    Produce | TransactionVerified | LastDecisionAnswered | WriteMarkers | Fetch | Query | PartitionAdvanced | Tick
)


# What a leader wants to happen.


class Produced(Message, frozen=True, tag="Produced"):
    """The answer to `Produce`."""

    request_id: int
    error_code: ErrorCode
    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    """Which records of the batch were the reason to refuse it, where it was not the batch itself."""


class MarkersAnswered(Message, frozen=True, tag="MarkersAnswered"):
    """The answer to `WriteMarkers`."""

    request_id: int
    error_codes: tuple[ErrorCode, ...] = ()
    """One for each partition of each marker, in the order of the request; empty where every marker was written."""


class FetchedPartition(Message, frozen=True):
    """What a fetch found in one partition."""

    partition: TopicPartition
    error_code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    records: bytes = b""


class Fetched(Message, frozen=True, tag="Fetched"):
    """The answer to `Fetch`."""

    request_id: int
    partitions: tuple[FetchedPartition, ...]


class OffsetListed(Message, frozen=True, tag="OffsetListed"):
    """The answer to `ListOffset`; without an error and without an offset, no record is that young."""

    request_id: int
    error_code: ErrorCode
    offset: int = NO_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_LEADER_EPOCH


class RecordsDeleted(Message, frozen=True, tag="RecordsDeleted"):
    """The answer to `DeleteRecords`: the log start offset, which is on the disks of all replicas in sync."""

    request_id: int
    error_code: ErrorCode
    log_start_offset: int = NO_OFFSET


class ProducerDescription(Message, frozen=True):
    """What a partition knows of one producer."""

    producer: ProducerIdentity
    last_sequence: int = NO_SEQUENCE
    last_timestamp_ms: int = NO_TIMESTAMP
    coordinator_epoch: int = NO_EPOCH
    open_since_offset: int = NO_OFFSET


class ProducersDescribed(Message, frozen=True, tag="ProducersDescribed"):
    """The answer to `DescribeProducers`."""

    request_id: int
    error_code: ErrorCode
    producers: tuple[ProducerDescription, ...] = ()


class EpochEndFound(Message, frozen=True, tag="EpochEndFound"):
    """The answer to `EpochEndOffset`: the largest epoch not above the one asked for, and its end offset.

    Without an error and without an offset, the log cannot tell.
    """

    request_id: int
    error_code: ErrorCode
    epoch: int = NO_LEADER_EPOCH
    end_offset: int = NO_OFFSET


class PartitionDescribed(Message, frozen=True, tag="PartitionDescribed"):
    """The answer to `DescribePartition`."""

    request_id: int
    error_code: ErrorCode
    leader_epoch: int = NO_LEADER_EPOCH
    log_start_offset: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    high_watermark: int = NO_OFFSET
    log_end_offset: int = NO_OFFSET
    size_bytes: int = -1


class VerifyTransaction(Message, frozen=True, tag=True):
    """Ask the coordinator whether a partition is part of a transaction, or to add it where the client did not.

    Answered by `TransactionVerified`.
    """

    verification_id: int
    partition: TopicPartition
    transactional_id: str
    producer: ProducerIdentity
    adds_partition: bool


class AskLastDecision(Message, frozen=True, tag=True):
    """Ask up to which decision a producer's transactions are over; answered by `LastDecisionAnswered`."""

    question_id: int
    partition: TopicPartition
    transactional_id: str
    producer_id: int


QueryAnswer: TypeAlias = OffsetListed | RecordsDeleted | ProducersDescribed | EpochEndFound | PartitionDescribed
Answer: TypeAlias = Produced | MarkersAnswered | Fetched | QueryAnswer
Effect: TypeAlias = Answer | VerifyTransaction | AskLastDecision | RequestFailed | LeaderEffect
