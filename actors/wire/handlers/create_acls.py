"""CreateAcls: key 30, versions 1 to 3.

There are no access rules here, and nobody who would enforce them.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.actors.wire.security import NO_AUTHORIZER
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

_REFUSED = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


async def handle(request: CreateAclsRequest, call: AdminCall) -> CreateAclsResponse:  # noqa: ARG001 - all handlers take it
    """Refuse each rule: nobody may believe that it protects anything."""
    return CreateAclsResponse(results=(_REFUSED,) * len(request.creations))
