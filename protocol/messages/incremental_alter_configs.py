"""IncrementalAlterConfigs: changes single settings of resources."""

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Wire, WireStruct


class AlterableConfig(WireStruct, frozen=True):
    """One change: operation 0 sets, 1 deletes, 2 appends, 3 subtracts."""

    name: str = ""
    config_operation: Int8 = 0
    value: str | None = ""


class AlterConfigsResource(WireStruct, frozen=True):
    """A resource and its changes."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(Message, frozen=True):
    """The changes to every resource."""

    wire = Wire(api_key=44, versions=(0, 1), flexible_since=1)

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(WireStruct, frozen=True):
    """The outcome for one resource."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""


class IncrementalAlterConfigsResponse(Message, frozen=True):
    """The outcome for every resource."""

    wire = Wire(api_key=44, versions=(0, 1), flexible_since=1)

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
