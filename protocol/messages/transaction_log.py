"""Records of `__transaction_state`: the log from which a transaction coordinator recovers.

Before a key stands its record type, before a value its version, two bytes each. A null value is a tombstone.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Int64, Message, Since, Tagged, Wire, WireStruct


class TransactionLogKey(Message, frozen=True):
    """The transactional id that a record is about."""

    wire = Wire(record_type=0, versions=(0, 0))

    transactional_id: str = ""


class PartitionsSchema(WireStruct, frozen=True):
    """The partitions of one topic in the transaction."""

    topic: str = ""
    partition_ids: tuple[Int32, ...] = ()


class TransactionLogValue(Message, frozen=True):
    """The state of a transaction after a transition."""

    wire = Wire(versions=(0, 1), flexible_since=1)

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, Since(1), Tagged(0)] = -1
    next_producer_id: Annotated[Int64, Since(1), Tagged(1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, Since(1), Tagged(3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: tuple[PartitionsSchema, ...] | None = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, Since(1), Tagged(2)] = 0
