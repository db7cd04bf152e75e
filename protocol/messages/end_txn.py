"""EndTxn: a producer commits or aborts its transaction.

From version 5 on every transaction bumps the epoch, and the response carries the new identity.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Int64, Message, Since, Wire


class EndTxnRequest(Message, frozen=True):
    """The transaction, and whether it is committed or aborted."""

    wire = Wire(api_key=26, versions=(0, 5), flexible_since=3)

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


class EndTxnResponse(Message, frozen=True):
    """Whether the decision stands, and the producer's next identity."""

    wire = Wire(api_key=26, versions=(0, 5), flexible_since=3)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, Since(5), Ignorable()] = -1
    producer_epoch: Annotated[Int16, Since(5), Ignorable()] = -1
