"""The server's side of SASL, as a state machine: handshake, authentication, and authentication again (KIP-368)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from eagleray.broker.security.scram import (
    ScramCredential,
    ScramError,
    ScramExchange,
    ScramMechanism,
    parse_client_first,
    pretended_credential,
)
from eagleray.protocol.errors import ErrorCode

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *map(str, ScramMechanism))
"""Every mechanism that can be enabled."""

_PLAIN_PARTS: Final = 3
LONGEST_NAME: Final = 1024


class SaslState(enum.StrEnum):
    """What the client has to do next."""

    HANDSHAKE = "handshake"
    FIRST_MESSAGE = "first message"
    LAST_MESSAGE = "last message"
    PASSWORD = "password"  # noqa: S105 - a state, in which a password is being verified
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


class Continue(msgspec.Struct, frozen=True):
    """Answer this, and wait for the client's next message."""

    answer: bytes


class Authenticated(msgspec.Struct, frozen=True):
    """The client is this user."""

    user: str
    answer: bytes = b""


class VerifyPassword(msgspec.Struct, frozen=True):
    """Find out whether the password is one of the credentials', away from the loop, and say `password_verified`."""

    user: str
    password: str
    candidates: tuple[tuple[ScramMechanism, ScramCredential], ...]
    """Those of a user that there is not take as long, and fit no password."""

    def __repr__(self) -> str:
        return f"VerifyPassword(user={self.user!r}, the rest is secret)"


class Failed(msgspec.Struct, frozen=True):
    """The client has not shown who it is."""

    reason: str
    """For the log: the client is told the same in every case."""

    user: str = ""
    """Who it said that it was, if it came so far."""

    error_code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED


Step: TypeAlias = Continue | Authenticated | VerifyPassword | Failed

Credentials: TypeAlias = Callable[[str], dict[ScramMechanism, ScramCredential]]
"""The credentials of a user by name, as they are at the moment; none for one that there is not."""


class SaslServer:
    """One client's authentication. After a failure it takes nothing more.

    A user that there is not is taken through the same steps as one with a wrong password.
    """

    def __init__(self, enabled: tuple[str, ...], credentials: Credentials, secret: bytes) -> None:
        self.enabled = enabled
        self.state = SaslState.HANDSHAKE
        self.mechanism = ""
        self.user = ""
        """Who the client is, once it has authenticated; it stays so when it authenticates again."""
        self._credentials = credentials
        self._secret = secret
        self._exchange: ScramExchange | None = None
        self._claimed = ""

    def handshake(self, mechanism: str) -> ErrorCode:
        """Agree upon a mechanism; a client that has authenticated begins to authenticate again."""
        if self.state not in (SaslState.HANDSHAKE, SaslState.AUTHENTICATED):
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self.enabled:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if self.user and mechanism != self.mechanism:
            # As in Kafka: a client keeps its mechanism for the life of a connection.
            return ErrorCode.ILLEGAL_SASL_STATE
        self.mechanism, self.state = mechanism, SaslState.FIRST_MESSAGE
        return ErrorCode.NONE

    def take(self, data: bytes, nonce: str) -> Step:
        """Take a message of the mechanism; `nonce` is drawn for this message, and cannot be guessed."""
        if self.state is SaslState.FIRST_MESSAGE:
            return self._take_plain(data) if self.mechanism == PLAIN else self._take_first(data, nonce)
        if self.state is SaslState.LAST_MESSAGE:
            return self._take_last(data)
        reason = f"a message comes in the state {self.state!r}"
        return self._fail(reason, ErrorCode.ILLEGAL_SASL_STATE)

    def password_verified(self, *, is_right: bool) -> Step:
        """Go on when a password has been verified."""
        assert self.state is SaslState.PASSWORD, "nothing else is verified"
        if is_right:
            return self._succeed(b"")
        return self._fail("the password is wrong, or there is no such user")

    def _take_plain(self, data: bytes) -> Step:
        parts = data.split(b"\0")
        try:
            authorization_id, user, password = (part.decode() for part in parts)
        except ValueError:
            return self._fail(f"the message has {len(parts)} parts, or is not UTF-8; expected {_PLAIN_PARTS} parts")
        self._claimed = user[:LONGEST_NAME]
        if not user or not password or len(user) > LONGEST_NAME:
            return self._fail("the name or the password is empty or too long")
        if authorization_id not in ("", user):
            return self._fail("it asks to act for another user")
        self.state = SaslState.PASSWORD
        pretended = {ScramMechanism.SHA_512: pretended_credential(ScramMechanism.SHA_512, user, self._secret)}
        # One of them: of a user with two, the stronger. So each attempt costs the same.
        mechanism, credential = max((self._credentials(user) or pretended).items())
        return VerifyPassword(user, password, ((mechanism, credential),))

    def _take_first(self, data: bytes, nonce: str) -> Step:
        mechanism = ScramMechanism(self.mechanism)
        try:
            first = parse_client_first(data)
        except ScramError as error:
            return self._fail(str(error))
        self._claimed = first.user[:LONGEST_NAME]
        if len(first.user) > LONGEST_NAME or first.authorization_id not in ("", first.user) or first.has_token:
            return self._fail("the name is too long, it asks to act for another user, or it has a delegation token")
        found = self._credentials(first.user).get(mechanism)
        credential = found or pretended_credential(mechanism, first.user, self._secret)
        self._exchange = ScramExchange(mechanism, credential, first, nonce)
        self.state = SaslState.LAST_MESSAGE
        return Continue(self._exchange.answer)

    def _take_last(self, data: bytes) -> Step:
        assert self._exchange is not None, "the first message came before"
        try:
            answer = self._exchange.finish(data)
        except ScramError as error:
            return self._fail(str(error))
        return self._succeed(answer)

    def _succeed(self, answer: bytes) -> Step:
        if self.user and self._claimed != self.user:
            return self._fail(f"it has authenticated as {self.user!r} before, and now as another")
        self.user, self.state, self._exchange = self._claimed, SaslState.AUTHENTICATED, None
        return Authenticated(self.user, answer)

    def _fail(self, reason: str, error_code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> Failed:
        self.state, self._exchange = SaslState.FAILED, None
        return Failed(reason, self._claimed, error_code)
