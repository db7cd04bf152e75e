"""DeleteAcls: removes the access rules that match filters."""

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Wire, WireStruct


class DeleteAclsFilter(WireStruct, frozen=True):
    """Which rules to remove."""

    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Message, frozen=True):
    """Filters, each applied by itself."""

    wire = Wire(api_key=31, versions=(1, 3), flexible_since=2)

    filters: tuple[DeleteAclsFilter, ...] = ()


class DeleteAclsMatchingAcl(WireStruct, frozen=True):
    """A rule that a filter matched."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(WireStruct, frozen=True):
    """What one filter removed."""

    error_code: Int16 = 0
    error_message: str | None = ""
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


class DeleteAclsResponse(Message, frozen=True):
    """The outcome for every filter, in the order of the request."""

    wire = Wire(api_key=31, versions=(1, 3), flexible_since=2)

    throttle_time_ms: Int32 = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()
