"""CreateAcls: adds access rules."""

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Wire, WireStruct


class AclCreation(WireStruct, frozen=True):
    """A rule to add."""

    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Message, frozen=True):
    """Rules to add."""

    wire = Wire(api_key=30, versions=(1, 3), flexible_since=2)

    creations: tuple[AclCreation, ...] = ()


class AclCreationResult(WireStruct, frozen=True):
    """The outcome for one rule."""

    error_code: Int16 = 0
    error_message: str | None = ""


class CreateAclsResponse(Message, frozen=True):
    """The outcome for every rule, in the order of the request."""

    wire = Wire(api_key=30, versions=(1, 3), flexible_since=2)

    throttle_time_ms: Int32 = 0
    results: tuple[AclCreationResult, ...] = ()
