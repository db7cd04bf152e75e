"""DescribeUserScramCredentials: key 50, version 0.

Tells who has which credentials, and with how many iterations, from this node's metadata; never what they are. A user
without any is one result with an error, and not an error of the whole request, because one client crashes on that.
"""

from __future__ import annotations

from collections import Counter

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

API = ServedApi(50, 0, 0)


async def handle(request: DescribeUserScramCredentialsRequest, call: AdminCall) -> DescribeUserScramCredentialsResponse:
    """Describe the users that were named, or all."""
    named = Counter(user.name for user in request.users or ()) or Counter(sorted(call.context.image.credentials))
    results = (_describe(user, times, call) for user, times in named.items())
    return DescribeUserScramCredentialsResponse(error_message=None, results=tuple(results))


def _describe(user: str, times: int, call: AdminCall) -> DescribeUserScramCredentialsResult:
    if times > 1:
        text = "the request names this user more than once"
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, text)
    credentials = call.context.image.credentials.get(user)
    if credentials is None:
        text = "the user has no credentials"
        return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, text)
    infos = (CredentialInfo(number, credential.iterations) for number, credential in sorted(credentials.items()))
    return DescribeUserScramCredentialsResult(user, ErrorCode.NONE, None, tuple(infos))
