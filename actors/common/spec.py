"""What a node is told when it is started, and again whenever Ray restarts it."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.actors.lanes.peers import Lane

CONTROLLER_NODE_ID: Final = 0
"""The one node that every node knows, to find the others."""


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One node of one cluster."""

    cluster: str
    node_id: int
    roles: tuple[str, ...]
    data_dir: str
    host: str
    """The name or address under which the other nodes and the clients reach it."""

    bind_host: str = ""
    """The address to listen at, where that is another, as with 0.0.0.0."""

    token: bytes
    """What a peer has to present to be let in."""

    settings: dict[str, str]
    lane: Lane = Lane.DIRECT
    port: int = 0
    """Where to listen; with 0 the port of the node's last incarnation, or any that is free."""

    machine: str = ""
    """The machine that it runs on, whose disk `data_dir` is on."""

    controllers: tuple[int, ...] = (CONTROLLER_NODE_ID,)
    """The nodes of which one is the controller."""

    port_range: tuple[int, int] | None = None
    """The lowest and the highest port to choose from, where a firewall lets no others through."""

    def __repr__(self) -> str:
        return f"NodeSpec(node {self.node_id} of cluster {self.cluster!r}, with a token that is secret)"
