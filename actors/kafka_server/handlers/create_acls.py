"""CreateAcls: key 30, versions 1 to 3.

This broker has no access control, so there are no rules.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.security import NO_AUTHORIZER
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

API = ServedApi(30, 1, 3)

_REFUSED = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


async def handle(request: CreateAclsRequest, call: AdminCall) -> CreateAclsResponse:  # noqa: ARG001 - all handlers take it
    """Refuse each rule, so that no admin believes that it protects anything."""
    return CreateAclsResponse(results=(_REFUSED,) * len(request.creations))
