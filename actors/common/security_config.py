"""Settings of who comes in, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import msgspec

from eagleray.broker.security.listeners import ClientListener, SecurityProtocol, parse_listeners
from eagleray.broker.settings import InvalidConfig, Setting, check_ranges


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

    def __post_init__(self) -> None:
        check_ranges(self)
        for listener in self.client_listeners:
            if listener.protocol is not SecurityProtocol.PLAINTEXT:
                raise InvalidConfig(f"listener {listener.name} is {listener.protocol}, which is not served yet")

    @cached_property
    def client_listeners(self) -> tuple[ClientListener, ...]:
        """The listeners for Kafka's clients; none where these are served at the node's own port."""
        return parse_listeners(self.listeners, self.advertised_listeners, self.listener_security_protocol_map)
