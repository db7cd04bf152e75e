"""Which ports a node may listen at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from eagleray.broker.checked_file import count_in

if TYPE_CHECKING:
    from eagleray.actors.common.spec import NodeSpec

LARGEST_PORT: Final = 65_535


def read_port(data: bytes) -> int:
    """Return the port of a node's last incarnation as its file has it; 0 where the file holds no port."""
    port = count_in(data) or 0
    return port if port <= LARGEST_PORT else 0


def read_listener_ports(data: bytes) -> dict[str, int]:
    """Return the ports of a node's listeners in its last incarnation; without those that the file does not hold."""
    try:
        ports = msgspec.json.decode(data, type=dict[str, int])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return {name: port for name, port in ports.items() if 0 < port <= LARGEST_PORT}


class PortRange(msgspec.Struct, frozen=True):
    """Ports that a firewall lets through, both ends included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high <= LARGEST_PORT:
            raise ValueError(f"the ports are {self.low}-{self.high}; expected LOW-HIGH within 1-{LARGEST_PORT}")

    def __len__(self) -> int:
        return self.high - self.low + 1

    def __contains__(self, port: int) -> bool:
        return self.low <= port <= self.high

    @classmethod
    def parse(cls, text: str) -> PortRange:
        """Read LOW-HIGH; raise ValueError where it is nothing of the kind."""
        low, separator, high = text.partition("-")
        if not (separator and low.isdecimal() and high.isdecimal()):
            raise ValueError(f"the ports are {text!r}; expected LOW-HIGH, for example 9093-9192")
        return cls(int(low), int(high))


def ports_of_listener(node_id: int, ports: tuple[int, int], last_port: int) -> tuple[int, ...]:
    """Where a node opens a listener for Kafka's clients: the first free one, in the order of `ports_to_try`."""
    if ports == (0, 0):
        return (last_port, 0) if last_port else (0,)
    return _in_range(PortRange(*ports), node_id, last_port)


def ports_to_try(spec: NodeSpec, last_port: int) -> tuple[int, ...]:
    """Where a node listens: the first free port of the one it was told, that of its last incarnation, and others.

    With a range, each node starts at a place of its own in it, so that nodes that start together do not all try the
    same ports, and a node has the same port again when its data are gone.
    """
    if spec.port:
        return (spec.port,)
    if spec.port_range is None:
        return (last_port, 0) if last_port else (0,)
    return _in_range(PortRange(*spec.port_range), spec.node_id, last_port)


def _in_range(ports: PortRange, node_id: int, last_port: int) -> tuple[int, ...]:
    first = node_id % len(ports)
    own = tuple(ports.low + (first + step) % len(ports) for step in range(len(ports)))
    return (last_port, *own) if last_port in ports else own
