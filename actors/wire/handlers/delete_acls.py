"""DeleteAcls: key 31, versions 1 to 3.

There are no access rules here, and nobody who would enforce them.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.actors.wire.security import NO_AUTHORIZER
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

_REFUSED = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


async def handle(request: DeleteAclsRequest, call: AdminCall) -> DeleteAclsResponse:  # noqa: ARG001 - all handlers take it
    """Refuse each filter."""
    return DeleteAclsResponse(filter_results=(_REFUSED,) * len(request.filters))
