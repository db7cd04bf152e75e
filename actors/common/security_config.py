"""Settings of who comes in, under Kafka's own names where Kafka has one."""

from __future__ import annotations

import enum
import os
from functools import cached_property
from typing import Annotated, Final

import msgspec

from eagleray.broker.security.listeners import ClientListener, SecurityProtocol, parse_listeners
from eagleray.broker.security.principal_mapping import PrincipalMapping
from eagleray.broker.security.sasl import MECHANISMS
from eagleray.broker.settings import INT64_MAX, NOT_IN_KAFKA, InvalidConfig, Setting, check_ranges

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


class ClientAuth(enum.StrEnum):
    """Whether clients have to show a certificate, in Kafka's words."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class StoreType(enum.StrEnum):
    """The form of certificates and keys in files; Kafka knows JKS and PKCS12 as well."""

    PEM = "PEM"


class SecurityConfig(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """At which listeners a node serves Kafka's clients, and how those say who they are."""

    listeners: Annotated[
        str,
        Setting(
            "The listeners of each node for Kafka's clients, as NAME://HOST:PORT with commas between. Without a host a "
            "listener is at the address of the node; port 0 is any that is free, and LOW-HIGH, which Kafka does not "
            "know, is the first free one of several, as nodes on one machine need. Empty serves clients, in plain "
            "text, at the node's own port.",
            kafka="PLAINTEXT://:9092",
        ),
    ] = ""

    advertised_listeners: Annotated[
        str,
        Setting(
            "What clients are told of the listeners, as NAME://HOST:PORT with commas between; with port 0 they are "
            "told the port at which the node listens. A listener that is not named is told as it is.",
            also="only names that are in `listeners`",
        ),
    ] = ""

    listener_security_protocol_map: Annotated[
        str,
        Setting(
            "The security protocol of each listener by its name, as NAME:PROTOCOL with commas between: PLAINTEXT, SSL, "
            "SASL_PLAINTEXT or SASL_SSL.",
            also="a protocol for each name in `listeners`",
        ),
    ] = ",".join(f"{protocol}:{protocol}" for protocol in SecurityProtocol)

    ssl_keystore_type: Annotated[
        StoreType, Setting("The form of the file with a node's certificate and its key.", kafka="JKS")
    ] = StoreType.PEM

    ssl_keystore_location: Annotated[
        str,
        Setting(
            "The PEM file with the certificate of each node, the CAs behind it and its key without a password; or a "
            "directory with `tls.crt` and `tls.key`, as Kubernetes keeps them. A file that changes is read again when "
            "the next client comes.",
            also="set where a listener is SSL or SASL_SSL",
        ),
    ] = ""

    ssl_truststore_type: Annotated[
        StoreType, Setting("The form of the file with the CAs of clients' certificates.", kafka="JKS")
    ] = StoreType.PEM

    ssl_truststore_location: Annotated[
        str,
        Setting(
            "The PEM file with the CAs whose certificates clients may show, or a directory with `ca.crt`. A file that "
            "changes is read again when the next client comes.",
            also="set where a listener is SSL and `ssl.client.auth` is not none",
        ),
    ] = ""

    ssl_client_auth: Annotated[
        ClientAuth,
        Setting(
            "Whether clients of SSL listeners have to show a certificate (required), may show one (requested) or are "
            "not asked for one. Those of SASL_SSL listeners are not asked, as in Kafka."
        ),
    ] = ClientAuth.NONE

    ssl_enabled_protocols: Annotated[
        tuple[str, ...],
        Setting("The versions of TLS that clients may speak, with commas between.", also="TLSv1.2 or TLSv1.3, or both"),
    ] = TLS_VERSIONS

    ssl_principal_mapping_rules: Annotated[
        str,
        Setting(
            "Rules that make a principal of the name in a client's certificate: RULE:PATTERN/REPLACEMENT/[LU] or "
            "DEFAULT, with commas between; the first that matches all of the name counts. Patterns are RE2's. A client "
            "for which none matches is not let in."
        ),
    ] = "DEFAULT"

    sasl_enabled_mechanisms: Annotated[
        tuple[str, ...],
        Setting(
            "The SASL mechanisms by which clients of SASL listeners may show who they are, with commas between.",
            also="SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN; PLAIN sends passwords as they are, so that it wants SASL_SSL",
            kafka="GSSAPI",
        ),
    ] = ("SCRAM-SHA-256", "SCRAM-SHA-512")

    sasl_server_max_receive_size: Annotated[
        int,
        Setting(
            "The largest request that a node reads of a client that has not authenticated yet.",
            unit="bytes",
            least=1,
            reached="the connection is closed",
        ),
    ] = 524_288

    connections_max_reauth_ms: Annotated[
        int,
        Setting(
            "How long a client may go on after it has authenticated; it has to authenticate again before, or it is "
            "closed. Its credential counts as it is then. 0 for ever.",
            unit="ms",
            most=INT64_MAX,
            reached="the connection is closed",
        ),
    ] = 0

    connection_failed_authentication_delay_ms: Annotated[
        int,
        Setting(
            "How long after its message a client is told that its authentication has failed, and closed.",
            unit="ms",
        ),
    ] = 100

    connection_authentication_timeout_ms: Annotated[
        int,
        Setting(
            "How long a client of a listener with TLS or SASL may take to show who it is, from its connection on.",
            unit="ms",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="the connection is closed",
        ),
    ] = 30_000

    def __post_init__(self) -> None:
        check_ranges(self)
        PrincipalMapping(self.ssl_principal_mapping_rules)
        if not self.ssl_enabled_protocols or not {*self.ssl_enabled_protocols} <= {*TLS_VERSIONS}:
            given = ",".join(self.ssl_enabled_protocols)
            raise InvalidConfig(f"ssl.enabled.protocols is {given!r}; expected {' or '.join(TLS_VERSIONS)}, or both")
        if not self.sasl_enabled_mechanisms or not {*self.sasl_enabled_mechanisms} <= {*MECHANISMS}:
            given = ",".join(self.sasl_enabled_mechanisms)
            raise InvalidConfig(f"sasl.enabled.mechanisms is {given!r}; expected some of {', '.join(MECHANISMS)}")
        for listener in self.client_listeners:
            self._check(listener)

    def _check(self, listener: ClientListener) -> None:
        if listener.protocol.has_tls and not os.path.isabs(self.ssl_keystore_location):
            raise InvalidConfig(
                f"listener {listener.name} is {listener.protocol}, and ssl.keystore.location is "
                f"{self.ssl_keystore_location!r}; expected the absolute path of a PEM file, or of a directory"
            )
        if self.client_auth_of(listener.protocol) is not ClientAuth.NONE and not os.path.isabs(
            self.ssl_truststore_location
        ):
            raise InvalidConfig(
                f"ssl.client.auth is {self.ssl_client_auth}, and ssl.truststore.location is "
                f"{self.ssl_truststore_location!r}; expected the absolute path of a PEM file, or of a directory"
            )

    def client_auth_of(self, protocol: SecurityProtocol) -> ClientAuth:
        """Whether clients of a listener with this protocol are asked for a certificate."""
        return self.ssl_client_auth if protocol is SecurityProtocol.SSL else ClientAuth.NONE

    @cached_property
    def client_listeners(self) -> tuple[ClientListener, ...]:
        """The listeners for Kafka's clients; none where these are served at the node's own port."""
        return parse_listeners(self.listeners, self.advertised_listeners, self.listener_security_protocol_map)
