"""AlterConfigs: replaces the whole configuration of resources."""

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Wire, WireStruct


class AlterableConfig(WireStruct, frozen=True):
    """One setting."""

    name: str = ""
    value: str | None = ""


class AlterConfigsResource(WireStruct, frozen=True):
    """A resource and all its new settings."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class AlterConfigsRequest(Message, frozen=True):
    """The new settings of every resource."""

    wire = Wire(api_key=33, versions=(0, 2), flexible_since=2)

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(WireStruct, frozen=True):
    """The outcome for one resource."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Message, frozen=True):
    """The outcome for every resource."""

    wire = Wire(api_key=33, versions=(0, 2), flexible_since=2)

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
