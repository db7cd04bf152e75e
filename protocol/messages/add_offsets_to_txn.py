"""AddOffsetsToTxn: adds the offsets of a consumer group to a transaction."""

from eagleray.protocol.messages.annotations import Int16, Int32, Int64, Message, Wire


class AddOffsetsToTxnRequest(Message, frozen=True):
    """The group whose offsets the transaction will commit."""

    wire = Wire(api_key=25, versions=(0, 4), flexible_since=3)

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message, frozen=True):
    """Whether the group is part of the transaction now."""

    wire = Wire(api_key=25, versions=(0, 4), flexible_since=3)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
