"""DeleteAcls: key 31, versions 1 to 3.

This broker has no access control, so there are no rules.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.security import NO_AUTHORIZER
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

API = ServedApi(31, 1, 3)

_REFUSED = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


async def handle(request: DeleteAclsRequest, call: AdminCall) -> DeleteAclsResponse:  # noqa: ARG001 - all handlers take it
    """Refuse each filter."""
    return DeleteAclsResponse(filter_results=(_REFUSED,) * len(request.filters))
