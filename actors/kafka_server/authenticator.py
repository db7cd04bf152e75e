"""One client's authentication by SASL: does what the state machine asks for, and says what the client is told."""

from __future__ import annotations

import asyncio
import hmac
import math
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from eagleray.actors.kafka_server.identity import Identity
from eagleray.broker.limits import shown
from eagleray.broker.metadata.credentials import by_mechanism
from eagleray.broker.security.sasl import Authenticated, Continue, Failed, SaslServer, Step, VerifyPassword
from eagleray.broker.security.scram import ScramCredential, ScramMechanism
from eagleray.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eagleray.actors.common.security_config import SecurityConfig
    from eagleray.actors.kafka_server.listener import Listener

_NONCE_BYTES: Final = 18
_SALTS: Final = b"salts of users that there are not"


class SaslAnswer(msgspec.Struct, frozen=True):
    """What a client is told about a message of its authentication."""

    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    auth_bytes: bytes = b""
    identity: Identity | None = None
    """Who it is, if it has shown that now."""

    session_lifetime_ms: int = 0


class Authenticator:
    """Owns: the state of the authentication, also when the client authenticates again on the same connection."""

    def __init__(self, listener: Listener, security: SecurityConfig, listener_name: str, peer: tuple[str, int]) -> None:
        self._listener = listener
        self._security = security
        self._listener_name = listener_name
        self._peer = peer
        # All nodes draw the same, so that the answers of two do not tell who exists.
        secret = hmac.digest(listener.context.spec.token, _SALTS, "sha512")
        self._sasl = SaslServer(security.sasl_enabled_mechanisms, self._credentials_of, secret)

    def _credentials_of(self, user: str) -> dict[ScramMechanism, ScramCredential]:
        return by_mechanism(self._listener.context.image.credentials.get(user, {}))

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that are enabled."""
        return self._sasl.enabled

    def handshake(self, mechanism: str) -> ErrorCode:
        """Agree upon a mechanism."""
        error_code = self._sasl.handshake(mechanism)
        if error_code is not ErrorCode.NONE:
            self._note_failure(Failed(f"it wants {shown(mechanism)!r}; expected one of {', '.join(self.mechanisms)}"))
        return error_code

    async def take(self, data: bytes) -> SaslAnswer:
        """Take a message, and return what the client is told; where it has failed, not before the delay is over."""
        loop = self._listener.context.loop
        began_s = loop.time()
        step: Step = self._sasl.take(data, secrets.token_urlsafe(_NONCE_BYTES))
        if isinstance(step, VerifyPassword):
            step = self._sasl.password_verified(is_right=await self._listener.password_checks.is_right(step))
        if isinstance(step, Continue):
            return SaslAnswer(auth_bytes=step.answer)
        if isinstance(step, Authenticated):
            return self._succeeded(step)
        assert isinstance(step, Failed), "there are no other steps"
        self._note_failure(step)
        # Counted from the message on, so that the time tells nothing of what was found out.
        delay_s = self._security.connection_failed_authentication_delay_ms / 1000
        await asyncio.sleep(max(0.0, began_s + delay_s - loop.time()))
        return SaslAnswer(step.error_code, f"Authentication failed: invalid credentials for {self._sasl.mechanism}")

    def _succeeded(self, step: Authenticated) -> SaslAnswer:
        lifetime_ms = self._security.connections_max_reauth_ms
        ends_s = self._listener.context.loop.time() + lifetime_ms / 1000 if lifetime_ms else math.inf
        identity = Identity(step.user, self, ends_s)
        return SaslAnswer(auth_bytes=step.answer, identity=identity, session_lifetime_ms=lifetime_ms)

    def _note_failure(self, failed: Failed) -> None:
        """Write the line by which an operator learns of it, once a minute for each address, and count all."""
        self._listener.failed_authentications += 1
        who = f"user {shown(failed.user)!r} by {self._sasl.mechanism}" if failed.user else "a client"
        sentence = f"authentication of {who} at listener {self._listener_name} has failed: {failed.reason}"
        self._listener.throttled_log.log_closing(*self._peer, "authentication", sentence)
