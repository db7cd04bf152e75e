"""GetTelemetrySubscriptions: a client asks which of its metrics the cluster wants."""

from eagleray.protocol.messages.annotations import ZERO_UUID, Int8, Int16, Int32, Message, Uuid, Wire


class GetTelemetrySubscriptionsRequest(Message, frozen=True):
    """The client instance; all zeros asks for an id."""

    wire = Wire(api_key=71, versions=(0, 0), flexible_since=0)

    client_instance_id: Uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Message, frozen=True):
    """Which metrics to push, how often and how."""

    wire = Wire(api_key=71, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: tuple[Int8, ...] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()
