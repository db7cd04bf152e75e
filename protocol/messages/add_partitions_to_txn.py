"""AddPartitionsToTxn: adds partitions to a transaction before they are written to.

Clients use versions up to 3, for one transaction; brokers use 4 and later, for many, and to verify only.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    Ignorable,
    Int16,
    Int32,
    Int64,
    Message,
    Since,
    Until,
    Wire,
    WireStruct,
)


class AddPartitionsToTxnTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[Int32, ...] = ()


class AddPartitionsToTxnTransaction(WireStruct, frozen=True):
    """One transaction and the partitions it will write to."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnRequest(Message, frozen=True):
    """Partitions to add, or to verify."""

    wire = Wire(api_key=24, versions=(0, 5), flexible_since=3)

    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], Since(4)] = ()
    v3_and_below_transactional_id: Annotated[str, Until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], Until(3)] = ()


class AddPartitionsToTxnPartitionResult(WireStruct, frozen=True):
    """The outcome for one partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnResult(WireStruct, frozen=True):
    """The outcomes for one transaction."""

    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


class AddPartitionsToTxnResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=24, versions=(0, 5), flexible_since=3)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(4), Ignorable()] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], Since(4)] = ()
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], Until(3)] = ()
