"""What a partition leader is told, and what it asks for in return."""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import AbortedTransaction, Isolation
from eagleray.broker.messages import Marker, Message
from eagleray.protocol.errors import ErrorCode

NO_OFFSET = -1
NO_TIMESTAMP = -1

ALL_IN_SYNC = -1
"""The acks of a producer that waits for every replica in sync."""


# What happens to a leader.


class Produce(Message, frozen=True, tag=True):
    """A producer's batch for one partition."""

    request_id: int
    partition: TopicPartition
    records: bytes
    acks: int = ALL_IN_SYNC
    transactional_id: str | None = None
    transaction_version: int = 1


class TransactionVerified(Message, frozen=True, tag=True):
    """The coordinator has said whether a partition takes part in a transaction."""

    partition: TopicPartition
    producer_id: int
    verification_id: int
    error_code: ErrorCode


class WriteMarkers(Message, frozen=True, tag=True):
    """A coordinator's markers, coalesced."""

    request_id: int
    markers: tuple[Marker, ...]


class FetchPartition(Message, frozen=True):
    """From where, and how much, to read of one partition."""

    partition: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1


class Fetch(Message, frozen=True, tag=True):
    """A consumer's read; it may wait until there is enough."""

    request_id: int
    partitions: tuple[FetchPartition, ...]
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024


class Tick(Message, frozen=True, tag=True):
    """Time has passed."""


Event: TypeAlias = Produce | TransactionVerified | WriteMarkers | Fetch | Tick


# What a leader wants to happen.


class Produced(Message, frozen=True, tag=True):
    """The answer to `Produce`."""

    request_id: int
    error_code: ErrorCode
    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    message: str | None = None


class MarkersAnswered(Message, frozen=True, tag=True):
    """The answer to `WriteMarkers`."""

    request_id: int
    error_codes: tuple[ErrorCode, ...] = ()
    """One for each partition of each marker, in the order of the request; none at all where every one was written."""


class FetchedPartition(Message, frozen=True):
    """What there is of one partition."""

    partition: TopicPartition
    error_code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    records: bytes = b""


class Fetched(Message, frozen=True, tag=True):
    """The answer to `Fetch`."""

    request_id: int
    partitions: tuple[FetchedPartition, ...]


class VerifyTransaction(Message, frozen=True, tag=True):
    """Ask the coordinator whether a partition takes part in a transaction, or to add it where the client did not.

    Answered by `TransactionVerified`.
    """

    verification_id: int
    partition: TopicPartition
    transactional_id: str
    producer: ProducerIdentity
    adds_partition: bool


Effect: TypeAlias = Produced | MarkersAnswered | Fetched | VerifyTransaction
