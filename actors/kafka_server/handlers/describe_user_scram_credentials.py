"""DescribeUserScramCredentials: key 50, version 0.

Clients do not authenticate here, so no user has credentials. The response says so for each user, and not with an error
for the whole request, because one client crashes on such an error.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.security import NO_AUTHENTICATION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

API = ServedApi(50, 0, 0)


async def handle(
    request: DescribeUserScramCredentialsRequest,
    call: AdminCall,  # noqa: ARG001 - all handlers take it
) -> DescribeUserScramCredentialsResponse:
    """Say that there are no credentials."""
    users = dict.fromkeys(user.name for user in request.users or ())
    results = (
        DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, NO_AUTHENTICATION) for user in users
    )
    return DescribeUserScramCredentialsResponse(error_message=None, results=tuple(results))
