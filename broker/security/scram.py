"""SCRAM (RFC 5802) as Kafka has it: credentials, and the server's side of an exchange.

A server keeps what a password leads to, and not the password: what a client proves with it costs the server two HMACs.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from typing import Final, NamedTuple

from eagleray.broker.limits import Int32
from eagleray.broker.messages import Message

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384

_GS2_HEADER: Final = "n,,"
_SALT_BYTES: Final = 20


class ScramMechanism(enum.StrEnum):
    """A SCRAM mechanism by its name in SASL."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def digest(self) -> str:
        """The name of its hash, as hashlib has it."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def digest_bytes(self) -> int:
        """The length of its hashes."""
        return hashlib.new(self.digest).digest_size


class ScramCredential(Message, frozen=True):
    """What is kept of a user's password for one mechanism. A reader of it could guess passwords, so it is not shown."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, the rest is secret)"


def credential_of_salted(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Make a credential of a password that a client has salted already, as Kafka's admin clients do."""
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    server_key = _hmac(mechanism, salted_password, b"Server Key")
    return ScramCredential(salt, _hash(mechanism, client_key), server_key, iterations)


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Salt a password. This is what costs time, by the number of iterations."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def is_password_of(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Whether a password is the one of a credential; it costs as much as `salted`."""
    of_password = salted(mechanism, password, credential.salt, credential.iterations)
    found = credential_of_salted(mechanism, credential.salt, of_password, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


def pretended_credential(mechanism: ScramMechanism, user: str, secret: bytes) -> ScramCredential:
    """Return a credential that no password fits, for a user that there is not.

    A client sees the same salt for the same name each time and at each node, so that it cannot tell who exists.
    """

    def drawn(what: bytes, length: int) -> bytes:
        key = hmac.digest(secret, b"pretended " + what + mechanism.encode() + b" " + user.encode(), "sha512")
        return key[:length]

    length = mechanism.digest_bytes
    return ScramCredential(
        drawn(b"salt ", _SALT_BYTES), drawn(b"key ", length), drawn(b"server ", length), LEAST_ITERATIONS
    )


class ScramError(Exception):
    """A message of a client that is no SCRAM, or proves nothing. The text is for the log."""


class ClientFirst(NamedTuple):
    """The first message of a client."""

    user: str
    authorization_id: str
    nonce: str
    bare: str
    has_token: bool
    """Whether it wants to show a delegation token, and not a password."""


def parse_client_first(data: bytes) -> ClientFirst:
    """Read the first message; raises ScramError."""
    text = _text_of(data)
    channel_binding, _, rest = text.partition(",")
    authorization, _, bare = rest.partition(",")
    fields = bare.split(",")
    if channel_binding != "n" or not (authorization == "" or authorization.startswith("a=")):
        raise ScramError("the first message does not begin with n,, or asks for channel binding")
    if len(fields) < len(("n", "r")) or not fields[0].startswith("n=") or not fields[1].startswith("r="):
        raise ScramError("the first message has no name and nonce")
    user, nonce = _unescaped(fields[0][2:]), fields[1][2:]
    if not user or not nonce:
        raise ScramError("the name or the nonce is empty")
    has_token = "tokenauth=true" in (field.lower() for field in fields[2:])
    return ClientFirst(user, _unescaped(authorization[2:]), nonce, bare, has_token)


def server_first(credential: ScramCredential, nonce: str) -> bytes:
    """Return the answer to a client's first message: the whole nonce, the salt and the iterations."""
    return f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}".encode()


class ScramExchange:
    """The server's side after the first message: what it has answered, and what the client has to prove."""

    def __init__(self, mechanism: ScramMechanism, credential: ScramCredential, first: ClientFirst, nonce: str) -> None:
        self._mechanism = mechanism
        self._credential = credential
        self._first = first
        self._nonce = first.nonce + nonce
        self.answer = server_first(credential, self._nonce)

    def finish(self, data: bytes) -> bytes:
        """Return the last answer, by which the client knows the server; raises ScramError where it proves nothing."""
        text = _text_of(data)
        without_proof, separator, proof = text.rpartition(",p=")
        fields = without_proof.split(",")
        if not separator or len(fields) < len(("c", "r")):
            raise ScramError("the last message has no proof")
        if fields[0][:2] != "c=" or not _is_header(_decoded(fields[0][2:])):
            raise ScramError("the last message has another channel binding than the first")
        if fields[1] != f"r={self._nonce}":
            raise ScramError("the last message has another nonce than was given, as from librdkafka before 2.6.1")
        signed = f"{self._first.bare},{self.answer.decode()},{without_proof}".encode()
        if not self._is_proof(_decoded(proof), signed):
            raise ScramError("the password is wrong, or there is no such user")
        signature = _hmac(self._mechanism, self._credential.server_key, signed)
        return b"v=" + b64encode(signature)

    def _is_proof(self, proof: bytes, signed: bytes) -> bool:
        signature = _hmac(self._mechanism, self._credential.stored_key, signed)
        if len(proof) != len(signature):
            return False
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        return hmac.compare_digest(_hash(self._mechanism, client_key), self._credential.stored_key)


def _is_header(data: bytes) -> bool:
    text = data.decode(errors="replace")
    return text == _GS2_HEADER or (text.startswith("n,a=") and text.endswith(","))


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramError("the message is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise ScramError("a field is not base64") from None


def _unescaped(name: str) -> str:
    plain = name.replace("=2C", ",").replace("=3D", "=")
    if plain.count("=") != name.count("=3D") or plain.count(",") != name.count("=2C"):
        raise ScramError("a name has an escape that there is not")
    return plain


def _hmac(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, mechanism.digest)


def _hash(mechanism: ScramMechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.digest, data).digest()
