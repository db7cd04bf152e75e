"""AllocateProducerIds: a broker takes a block of producer ids from the controller."""

from eagleray.protocol.messages.annotations import Int16, Int32, Int64, Message, Wire


class AllocateProducerIdsRequest(Message, frozen=True):
    """Who asks for a block."""

    wire = Wire(api_key=67, versions=(0, 0), flexible_since=0)

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Message, frozen=True):
    """The block, which is given out once."""

    wire = Wire(api_key=67, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
