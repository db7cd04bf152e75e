"""The admin's part about users: the passwords with which Kafka's clients log in."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from eagleray.broker.controller.credential_events import AlterCredentials, CredentialChange, CredentialsAltered
from eagleray.broker.metadata.credentials import MECHANISM_NUMBERS
from eagleray.broker.security.scram import ScramCredential, ScramMechanism, credential_of_salted, salted
from eagleray.client import validation
from eagleray.client.admin.replica_admin import ReplicaAdmin
from eagleray.client.calls import Question
from eagleray.client.controller_calls import ask_controller
from eagleray.client.errors import EaglerayError, RefusedError, RetriableError, error_for
from eagleray.protocol.errors import ErrorCode

_SALT_BYTES: Final = 20
_DEFAULT: Final = str(ScramMechanism.SHA_512)


class CredentialAdmin(ReplicaAdmin):
    """Sets and removes passwords. What leaves the program is what SCRAM makes of them."""

    async def set_password(
        self, user: str, password: str, *, mechanism: str = _DEFAULT, iterations: int = 4096
    ) -> None:
        """Let a user log in with this password, by a SCRAM mechanism and by PLAIN, in place of the one before."""
        kind = validation.scram_mechanism(mechanism)
        user, password = validation.user(user), validation.password(password)
        iterations = validation.iterations(iterations)
        salt = secrets.token_bytes(_SALT_BYTES)
        of_password = await asyncio.to_thread(salted, kind, password, salt, iterations)
        await self._change_credential(user, kind, credential_of_salted(kind, salt, of_password, iterations))

    async def remove_password(self, user: str, *, mechanism: str = _DEFAULT) -> None:
        """Let a user log in by this mechanism no more; one that has no password is an error."""
        await self._change_credential(validation.user(user), validation.scram_mechanism(mechanism), None)

    async def _change_credential(
        self, user: str, mechanism: ScramMechanism, credential: ScramCredential | None
    ) -> None:
        doing = f"{'removing' if credential is None else 'setting'} the password of user {user!r}"

        def error_of(reply: CredentialsAltered, may_be_done: bool) -> ErrorCode:
            error_code = reply.results[0].error_code
            is_done = may_be_done and credential is None and error_code is ErrorCode.RESOURCE_NOT_FOUND
            return ErrorCode.NONE if is_done else error_code

        change = CredentialChange(user, MECHANISM_NUMBERS[mechanism], credential)
        await ask_controller(
            self._runtime,
            doing,
            Question(AlterCredentials, (change,)),
            retry_policy=self._retry_policy,
            error_of=error_of,
            exception_for=_error,
        )


def _error(error_code: ErrorCode, doing: str, reply: CredentialsAltered) -> EaglerayError:
    message = reply.results[0].message
    error = error_for(error_code, doing, message)
    if isinstance(error, RetriableError | RefusedError):
        return error
    return RefusedError(error.message, error_code)
