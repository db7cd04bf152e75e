"""PushTelemetry: a client delivers the metrics that were asked for."""

from eagleray.protocol.messages.annotations import ZERO_UUID, Int8, Int16, Int32, Message, Uuid, Wire


class PushTelemetryRequest(Message, frozen=True):
    """Metrics, serialised and perhaps compressed."""

    wire = Wire(api_key=72, versions=(0, 0), flexible_since=0)

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: bool = False
    compression_type: Int8 = 0
    metrics: bytes = b""


class PushTelemetryResponse(Message, frozen=True):
    """Whether they were taken."""

    wire = Wire(api_key=72, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
