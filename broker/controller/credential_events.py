"""What a controller is asked about users' credentials, and what it answers."""

from __future__ import annotations

from eagleray.broker.controller.messages import ControllerReply, ControllerRequest
from eagleray.broker.limits import Int8, Text
from eagleray.broker.messages import Message
from eagleray.broker.security.scram import ScramCredential
from eagleray.protocol.errors import ErrorCode


class CredentialChange(Message, frozen=True):
    """A credential to set, or with None to remove."""

    user: Text
    mechanism: Int8
    credential: ScramCredential | None = None


class AlterCredentials(ControllerRequest["CredentialsAltered"], frozen=True, tag="AlterCredentials"):
    """A client sets and removes users' credentials; answered by `CredentialsAltered`."""

    changes: tuple[CredentialChange, ...]

    def refused(self, error_code: ErrorCode, message: str | None = None) -> CredentialsAltered:
        """Refuse for each user."""
        users = dict.fromkeys(change.user for change in self.changes)
        return CredentialsAltered(self.request_id, tuple(CredentialResult(user, error_code, message) for user in users))


class CredentialResult(Message, frozen=True):
    """What became of one user's credentials."""

    user: str
    error_code: ErrorCode
    message: str | None = None


class CredentialsAltered(ControllerReply, frozen=True, tag="CredentialsAltered"):
    """The answer to `AlterCredentials`: one result for each user, in the order in which they first occur."""

    results: tuple[CredentialResult, ...]

    def says(self, error_code: ErrorCode) -> bool:
        """Whether this became of a user: there is no code of the whole."""
        return any(result.error_code is error_code for result in self.results)
