"""ApiVersions: a client asks which APIs and versions the broker serves.

The first request on a connection, sent before the client knows anything: its response keeps the oldest header, and a
broker that does not know the version answers in version 0.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    Ignorable,
    Int16,
    Int32,
    Int64,
    Message,
    Since,
    Tagged,
    Wire,
    WireStruct,
)


class ApiVersionsRequest(Message, frozen=True):
    """Who the client is."""

    wire = Wire(api_key=18, versions=(0, 5), flexible_since=3)

    client_software_name: Annotated[str, Since(3), Ignorable()] = ""
    client_software_version: Annotated[str, Since(3), Ignorable()] = ""
    cluster_id: Annotated[str | None, Since(5), Ignorable()] = None
    node_id: Annotated[Int32, Since(5), Ignorable()] = -1


class ApiVersion(WireStruct, frozen=True):
    """One API and the versions of it that are served."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(WireStruct, frozen=True):
    """A feature and the levels that this broker can work at."""

    name: str = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(WireStruct, frozen=True):
    """A feature and the level that the cluster works at."""

    name: str = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Message, frozen=True):
    """What the broker serves."""

    wire = Wire(api_key=18, versions=(0, 5), flexible_since=3)

    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, Since(1), Ignorable()] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], Since(3), Tagged(0), Ignorable()] = ()
    finalized_features_epoch: Annotated[Int64, Since(3), Tagged(1), Ignorable()] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], Since(3), Tagged(2), Ignorable()] = ()
    zk_migration_ready: Annotated[bool, Since(3), Tagged(3), Ignorable()] = False
