"""AlterUserScramCredentials: key 51, version 0.

Clients do not authenticate here, so credentials cannot be set.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.security import NO_AUTHENTICATION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

API = ServedApi(51, 0, 0)


async def handle(
    request: AlterUserScramCredentialsRequest,
    call: AdminCall,  # noqa: ARG001 - all handlers take it
) -> AlterUserScramCredentialsResponse:
    """Refuse for each user."""
    users = dict.fromkeys([change.name for change in request.deletions])
    users |= dict.fromkeys([change.name for change in request.upsertions])
    results = (AlterUserScramCredentialsResult(user, ErrorCode.SECURITY_DISABLED, NO_AUTHENTICATION) for user in users)
    return AlterUserScramCredentialsResponse(results=tuple(results))
