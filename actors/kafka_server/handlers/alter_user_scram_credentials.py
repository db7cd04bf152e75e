"""AlterUserScramCredentials: key 51, version 0.

A client has salted the password already; what goes to the controller, and into the metadata log, is what the salted
password leads to, from which it cannot be computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller, until_seen
from eagleray.broker.controller.credential_events import AlterCredentials, CredentialChange
from eagleray.broker.metadata.credentials import MECHANISMS_BY_NUMBER
from eagleray.broker.security.scram import ScramCredential, credential_of_salted
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

API = ServedApi(51, 0, 0)

_TIMEOUT_MS: Final = 30_000
_NO_CREDENTIAL: Final = ScramCredential(b"", b"", b"", 0)
"""In place of one of an unknown mechanism, which the controller refuses."""


async def handle(request: AlterUserScramCredentialsRequest, call: AdminCall) -> AlterUserScramCredentialsResponse:
    """Have the controller set and remove credentials."""
    changes = tuple(_changes(request))
    answer = await ask_controller(call, _TIMEOUT_MS, AlterCredentials, changes)
    if answer is None:
        text = "the controller has not answered in time; the credentials may have been changed or not"
        answer = AlterCredentials(0, changes).refused(ErrorCode.REQUEST_TIMED_OUT, text)
    done = {result.user for result in answer.results if result.error_code is ErrorCode.NONE}
    await until_seen(lambda: all(_is_seen(change, call) for change in changes if change.user in done))
    results = (AlterUserScramCredentialsResult(each.user, each.error_code, each.message) for each in answer.results)
    return AlterUserScramCredentialsResponse(results=tuple(results))


def _changes(request: AlterUserScramCredentialsRequest) -> Iterator[CredentialChange]:
    for deletion in request.deletions:
        yield CredentialChange(deletion.name, deletion.mechanism)
    for upsertion in request.upsertions:
        yield CredentialChange(upsertion.name, upsertion.mechanism, _credential_of(upsertion))


def _credential_of(upsertion: ScramCredentialUpsertion) -> ScramCredential:
    mechanism = MECHANISMS_BY_NUMBER.get(upsertion.mechanism)
    if mechanism is None or not upsertion.salted_password:
        return _NO_CREDENTIAL
    salt, of_password = bytes(upsertion.salt), bytes(upsertion.salted_password)
    return credential_of_salted(mechanism, salt, of_password, upsertion.iterations)


def _is_seen(change: CredentialChange, call: AdminCall) -> bool:
    known = call.context.image.credentials.get(change.user, {}).get(change.mechanism)
    return known == change.credential
