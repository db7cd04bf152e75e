"""UpdateFeatures: finalizes cluster-wide feature levels, such as `transaction.version`."""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    Ignorable,
    Int8,
    Int16,
    Int32,
    Message,
    Since,
    Until,
    Wire,
    WireStruct,
)


class FeatureUpdateKey(WireStruct, frozen=True):
    """A feature and its new level."""

    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[bool, Until(0)] = False
    upgrade_type: Annotated[Int8, Since(1)] = 1


class UpdateFeaturesRequest(Message, frozen=True):
    """Levels to finalize."""

    wire = Wire(api_key=57, versions=(0, 2), flexible_since=0)

    timeout_ms: Int32 = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: Annotated[bool, Since(1)] = False


class UpdatableFeatureResult(WireStruct, frozen=True):
    """The outcome for one feature."""

    feature: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""


class UpdateFeaturesResponse(Message, frozen=True):
    """The outcome."""

    wire = Wire(api_key=57, versions=(0, 2), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: Annotated[tuple[UpdatableFeatureResult, ...], Until(1), Ignorable()] = ()
