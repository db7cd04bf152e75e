"""Users' credentials: how they are set and removed."""

from __future__ import annotations

from typing import Final

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.credential_events import (
    AlterCredentials,
    CredentialChange,
    CredentialResult,
    CredentialsAltered,
)
from eagleray.broker.controller.decisions import Decision, decide, repeated
from eagleray.broker.metadata.changes import CredentialChanged
from eagleray.broker.metadata.credentials import MECHANISMS_BY_NUMBER
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.security.sasl import LONGEST_NAME
from eagleray.broker.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, ScramCredential, ScramMechanism
from eagleray.protocol.errors import ErrorCode

_NONE: Final = ErrorCode.NONE


def alter_credentials(request: AlterCredentials, image: MetadataImage, config: ControllerConfig) -> Decision:
    """Set and remove credentials: all that is asked for a user, or nothing of it where a part cannot be."""
    wrong = {user for user, _ in repeated((change.user, change.mechanism) for change in request.changes)}
    room = config.max_scram_users - len(image.credentials)
    results: dict[str, CredentialResult] = {}
    for change in request.changes:
        known = results.get(change.user)
        if known is None or known.error_code is _NONE:
            results[change.user] = _result_of(change, change.user in wrong, image)
    for user in [
        each for each, result in results.items() if result.error_code is _NONE and each not in image.credentials
    ]:
        room -= 1
        if room < 0:
            text = f"there are as many users with credentials as max.scram.users allows: {config.max_scram_users}"
            results[user] = CredentialResult(user, ErrorCode.POLICY_VIOLATION, text)
    changes = [
        CredentialChanged(change.user, change.mechanism, change.credential)
        for change in request.changes
        if results[change.user].error_code is _NONE
    ]
    return decide(CredentialsAltered(request.request_id, tuple(results.values())), changes)


def _result_of(change: CredentialChange, is_repeated: bool, image: MetadataImage) -> CredentialResult:
    error_code, text = _problem_with(change, is_repeated, image)
    return CredentialResult(change.user, error_code, text)


def _problem_with(change: CredentialChange, is_repeated: bool, image: MetadataImage) -> tuple[ErrorCode, str | None]:
    mechanism = MECHANISMS_BY_NUMBER.get(change.mechanism)
    if not change.user or len(change.user) > LONGEST_NAME:
        return (
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"the name has {len(change.user)} characters; expected 1-{LONGEST_NAME}",
        )
    if is_repeated:
        return ErrorCode.DUPLICATE_RESOURCE, "the request names a user and a mechanism more than once"
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"there is no SCRAM mechanism {change.mechanism}; expected 1 or 2"
    if change.credential is None:
        if change.mechanism in image.credentials.get(change.user, {}):
            return _NONE, None
        return ErrorCode.RESOURCE_NOT_FOUND, f"the user has no credential for {mechanism}"
    return _problem_with_credential(mechanism, change.credential)


def _problem_with_credential(mechanism: ScramMechanism, credential: ScramCredential) -> tuple[ErrorCode, str | None]:
    if not LEAST_ITERATIONS <= credential.iterations <= MOST_ITERATIONS:
        text = f"{credential.iterations} iterations; expected {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, text
    lengths = {len(credential.stored_key), len(credential.server_key)}
    if not credential.salt or lengths != {mechanism.digest_bytes}:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the salt or a key is not one of {mechanism}"
    return _NONE, None
