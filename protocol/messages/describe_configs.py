"""DescribeConfigs: shows the configuration of topics, brokers and other resources."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int8, Int16, Int32, Message, Since, Wire, WireStruct


class DescribeConfigsResource(WireStruct, frozen=True):
    """A resource and the settings asked about; null means all."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = ()


class DescribeConfigsRequest(Message, frozen=True):
    """Whose settings to show."""

    wire = Wire(api_key=32, versions=(1, 4), flexible_since=4)

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Since(3)] = False


class DescribeConfigsSynonym(WireStruct, frozen=True):
    """A place that could set the value, in order of precedence."""

    name: str = ""
    value: str | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(WireStruct, frozen=True):
    """One setting."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, Since(3), Ignorable()] = 0
    documentation: Annotated[str | None, Since(3), Ignorable()] = ""


class DescribeConfigsResult(WireStruct, frozen=True):
    """The settings of one resource."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(Message, frozen=True):
    """The settings of every resource."""

    wire = Wire(api_key=32, versions=(1, 4), flexible_since=4)

    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()
