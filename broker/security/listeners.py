"""The listeners of a node, as `listeners`, `advertised.listeners` and `listener.security.protocol.map` name them."""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec

from eagleray.broker.settings import InvalidConfig

LARGEST_PORT: Final = 65_535

_ADDRESS: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_-]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\[\]\s]*):(?P<ports>\d+(-\d+)?)"
)
_EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - told apart from an address that clients can use


class SecurityProtocol(enum.StrEnum):
    """How a listener protects what it carries, and how its clients say who they are; the names are Kafka's."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether its clients authenticate by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ClientListener(msgspec.Struct, frozen=True):
    """A listener for Kafka's clients: where each node opens it, and what clients are told."""

    name: str
    protocol: SecurityProtocol
    host: str
    """The address to listen at; empty for that of the node."""

    ports: tuple[int, int]
    """The lowest and the highest port to choose from; (0, 0) for any that is free."""

    advertised_host: str = ""
    """What clients are told; empty for the host, or where that is every address, for the node's own name."""

    advertised_port: int = 0
    """What clients are told; 0 for the port that is listened at."""

    def host_for_clients(self, node_host: str) -> str:
        """Return the host that clients are told, on a node that has this name."""
        return self.advertised_host or (node_host if self.host in _EVERY_ADDRESS else self.host)


class _Address(msgspec.Struct, frozen=True):
    name: str
    host: str
    ports: tuple[int, int]


def parse_listeners(listeners: str, advertised: str, protocol_map: str) -> tuple[ClientListener, ...]:
    """Read the three settings; InvalidConfig where one cannot be read, or they contradict each other."""
    protocols = _parse_protocols(protocol_map)
    told = {address.name: address for address in _addresses("advertised.listeners", advertised)}
    found = tuple(
        _listener(address, protocols, told.pop(address.name, None)) for address in _addresses("listeners", listeners)
    )
    if told:
        raise InvalidConfig(f"advertised.listeners names {', '.join(told)}; expected only names that are in listeners")
    _check_ports(found)
    return found


def _listener(address: _Address, protocols: dict[str, SecurityProtocol], told: _Address | None) -> ClientListener:
    if address.name not in protocols:
        raise InvalidConfig(
            f"listeners names {address.name}, which has no security protocol; "
            f"add {address.name}:SASL_SSL, or another protocol, to listener.security.protocol.map"
        )
    listener = ClientListener(address.name, protocols[address.name], address.host, address.ports)
    if told is None:
        return listener
    if told.host in _EVERY_ADDRESS or told.ports[0] != told.ports[1]:
        raise InvalidConfig(
            f"advertised.listeners has no one address for {told.name}; expected {told.name}://HOST:PORT, "
            "with port 0 for the one at which each node listens"
        )
    return msgspec.structs.replace(listener, advertised_host=told.host, advertised_port=told.ports[0])


def _addresses(key: str, text: str) -> list[_Address]:
    found = [_parse_address(key, part.strip()) for part in text.split(",") if part.strip()]
    names = [address.name for address in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidConfig(f"{key} names the listener {name} more than once; expected a name of its own for each")
    return found


def _parse_address(key: str, text: str) -> _Address:
    matched = _ADDRESS.fullmatch(text)
    low, _, high = matched["ports"].partition("-") if matched else ("", "", "")
    if matched is None or not _is_range(int(low), int(high or low)):
        raise InvalidConfig(
            f"{key} has {text!r}; expected NAME://HOST:PORT, for example SASL_SSL://0.0.0.0:9093, with port 0 for any "
            "that is free, or LOW-HIGH for one of several"
        )
    return _Address(matched["name"].upper(), matched["host"].strip("[]"), (int(low), int(high or low)))


def _is_range(low: int, high: int) -> bool:
    return low == high == 0 or 0 < low <= high <= LARGEST_PORT


def _check_ports(found: tuple[ClientListener, ...]) -> None:
    taken: dict[int, str] = {}
    for listener in found:
        low, high = listener.ports
        if low == high != 0 and taken.setdefault(low, listener.name) != listener.name:
            raise InvalidConfig(
                f"listeners has port {low} for {taken[low]} and for {listener.name}; expected a port of its own each"
            )


def _parse_protocols(text: str) -> dict[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = part.partition(":")
        if not separator or protocol not in SecurityProtocol.__members__:
            raise InvalidConfig(
                f"listener.security.protocol.map has {part!r}; expected NAME:PROTOCOL, "
                f"with a protocol out of {', '.join(SecurityProtocol)}"
            )
        if name.upper() in found:
            raise InvalidConfig(f"listener.security.protocol.map names {name} more than once; expected it once")
        found[name.upper()] = SecurityProtocol(protocol)
    return found
