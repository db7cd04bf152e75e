"""DescribeAcls: lists the access rules that match a filter."""

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Wire, WireStruct


class DescribeAclsRequest(Message, frozen=True):
    """The filter."""

    wire = Wire(api_key=29, versions=(1, 3), flexible_since=2)

    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(WireStruct, frozen=True):
    """One rule of a resource."""

    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(WireStruct, frozen=True):
    """A resource and its rules."""

    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    acls: tuple[AclDescription, ...] = ()


class DescribeAclsResponse(Message, frozen=True):
    """The rules that match."""

    wire = Wire(api_key=29, versions=(1, 3), flexible_since=2)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    resources: tuple[DescribeAclsResource, ...] = ()
