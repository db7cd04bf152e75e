"""InitProducerId: gives a producer its id and epoch, and fences its predecessors.

Version 3 lets a producer resume with the id it has, 6 is the beginning of two-phase commit and not yet stable.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import Int16, Int32, Int64, Message, Since, Wire


class InitProducerIdRequest(Message, frozen=True):
    """The transactional id, or null for a producer without transactions."""

    wire = Wire(api_key=22, versions=(0, 6), flexible_since=2, unstable_since=6)

    transactional_id: str | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Since(3)] = -1
    producer_epoch: Annotated[Int16, Since(3)] = -1
    enable2_pc: Annotated[bool, Since(6)] = False
    keep_prepared_txn: Annotated[bool, Since(6)] = False


class InitProducerIdResponse(Message, frozen=True):
    """The producer's identity."""

    wire = Wire(api_key=22, versions=(0, 6), flexible_since=2)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, Since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Since(6)] = -1
