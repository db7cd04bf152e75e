"""What a partition leader is told, and what it asks for in return."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import AbortedTransaction, Isolation
from eagleray.protocol.errors import ErrorCode

NO_OFFSET = -1
NO_TIMESTAMP = -1

ALL_IN_SYNC = -1
"""The acks of a producer that waits for every replica in sync."""


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Small, frozen, and cheap to put on any lane."""


# What happens to a leader.


class Produce(_Message, frozen=True, tag=True):
    """A producer's batch for one partition."""

    request_id: int
    partition: TopicPartition
    records: bytes
    acks: int = ALL_IN_SYNC
    transactional_id: str | None = None
    transaction_version: int = 1


class TransactionVerified(_Message, frozen=True, tag=True):
    """The coordinator has said whether a partition takes part in a transaction."""

    partition: TopicPartition
    producer_id: int
    verification_id: int
    error_code: ErrorCode


class Marker(_Message, frozen=True):
    """The end of one producer's transaction, for any number of partitions of this leader."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 1


class WriteMarkers(_Message, frozen=True, tag=True):
    """A coordinator's markers, coalesced."""

    request_id: int
    markers: tuple[Marker, ...]


class FetchPartition(_Message, frozen=True):
    """From where, and how much, to read of one partition."""

    partition: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1


class Fetch(_Message, frozen=True, tag=True):
    """A consumer's read; it may wait until there is enough."""

    request_id: int
    partitions: tuple[FetchPartition, ...]
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024


class Tick(_Message, frozen=True, tag=True):
    """Time has passed."""


Event: TypeAlias = Produce | TransactionVerified | WriteMarkers | Fetch | Tick


# What a leader wants to happen.


class Produced(_Message, frozen=True, tag=True):
    """The answer to `Produce`."""

    request_id: int
    error_code: ErrorCode
    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    message: str | None = None


class MarkersAnswered(_Message, frozen=True, tag=True):
    """The answer to `WriteMarkers`: for each marker, the outcome for each of its partitions, in their order."""

    request_id: int
    error_codes: tuple[tuple[ErrorCode, ...], ...]


class FetchedPartition(_Message, frozen=True):
    """What there is of one partition."""

    partition: TopicPartition
    error_code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    records: bytes = b""


class Fetched(_Message, frozen=True, tag=True):
    """The answer to `Fetch`."""

    request_id: int
    partitions: tuple[FetchedPartition, ...]


class VerifyTransaction(_Message, frozen=True, tag=True):
    """Ask the coordinator whether a partition takes part in a transaction, or to add it where the client did not.

    Answered by `TransactionVerified`.
    """

    verification_id: int
    partition: TopicPartition
    transactional_id: str
    producer: ProducerIdentity
    adds_partition: bool


Effect: TypeAlias = Produced | MarkersAnswered | Fetched | VerifyTransaction
