"""The certificates of a node's TLS listeners: read from PEM files, and read again when these change."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from typing import Final

from eagleray.actors.common.security_config import ClientAuth, SecurityConfig
from eagleray.actors.kafka_server.identity import ANONYMOUS, Identity
from eagleray.broker.security.distinguished_names import distinguished_name
from eagleray.broker.security.principal_mapping import PrincipalMapping
from eagleray.broker.settings import InvalidConfig

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFICATION: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class TlsCertificates:
    """What a TLS listener shows its clients, and which certificates it takes from them.

    Owns: the context of new connections. Files that have changed are read when the next client comes; what cannot be
    read is logged, and clients go on with what was read before. Connections that there are keep what they began with.
    """

    def __init__(self, config: SecurityConfig, clock_s: Callable[[], float], *, client_auth: ClientAuth) -> None:
        """Read the files; raises InvalidConfig where they cannot be used."""
        self._config = config
        self._clock_s = clock_s
        self._client_auth = client_auth
        self._mapping = PrincipalMapping(config.ssl_principal_mapping_rules)
        self._looked_at_s = clock_s()
        self._seen = self._state_of_files()
        self._context = self._read()

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a connection that begins now."""
        now_s = self._clock_s()
        if now_s - self._looked_at_s >= _LOOK_EVERY_S:
            self._looked_at_s = now_s
            self._look()
        return self._context

    def identity_of(self, tls: ssl.SSLObject) -> Identity | None:
        """Return who a client is by its certificate; None where no rule names a principal for it."""
        certificate = tls.getpeercert()
        if not certificate:
            return ANONYMOUS
        name = self._mapping.name_of(distinguished_name(certificate["subject"]))  # type: ignore[arg-type]
        return None if name is None else Identity(name)

    def _look(self) -> None:
        seen = self._state_of_files()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._context = self._read()
        except InvalidConfig as error:
            _log.error("clients go on with the certificates that were read before: %s", error)
        else:
            _log.info("read the certificates in %s anew", ", ".join(self._paths()))

    def _paths(self) -> list[str]:
        """The files, by what their places are now: a directory, or one file."""
        chain, key = self._keystore()
        return [chain, key, *([self._truststore()] if self._client_auth is not ClientAuth.NONE else [])]

    def _keystore(self) -> tuple[str, str]:
        place = self._config.ssl_keystore_location
        return (f"{place}/tls.crt", f"{place}/tls.key") if os.path.isdir(place) else (place, place)

    def _truststore(self) -> str:
        place = self._config.ssl_truststore_location
        return f"{place}/ca.crt" if os.path.isdir(place) else place

    def _state_of_files(self) -> list[tuple[str, int, int, int] | None]:
        return [_state_of(path) for path in self._paths()]

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = [_VERSIONS[name] for name in self._config.ssl_enabled_protocols]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        chain, key = self._keystore()
        try:
            context.load_cert_chain(chain, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise InvalidConfig(
                f"the certificate of this node cannot be read from {chain} and its key from {key}: {_why(error)}; "
                "expected PEM, the certificate first and its CAs behind it, and a key without a password, in "
                "ssl.keystore.location"
            ) from None
        if self._client_auth is not ClientAuth.NONE:
            self._read_truststore(context)
        return context

    def _read_truststore(self, context: ssl.SSLContext) -> None:
        path = self._truststore()
        try:
            context.load_verify_locations(path)
        except (OSError, ValueError) as error:
            raise InvalidConfig(
                f"the certificates of CAs cannot be read from {path}: {_why(error)}; "
                "expected PEM in ssl.truststore.location"
            ) from None
        context.verify_mode = _VERIFICATION[self._client_auth]
        # A session that is resumed is not verified again, however old the certificate is by then.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0


def _state_of(path: str) -> tuple[str, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return path, found.st_mtime_ns, found.st_size, found.st_ino


def _no_password() -> str:
    raise ValueError("the key has a password")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is no PEM").replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
