"""DescribeUserScramCredentials: key 50, version 0.

Nobody authenticates here, so nobody has credentials. That is said of each user who is asked for, and not with an error
of the whole request: there is a client that an error of that kind crashes.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.actors.wire.security import NO_AUTHENTICATION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


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
