"""The nodes of a cluster: those that are planned, and those that have registered."""

from __future__ import annotations

import enum
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.limits import Int32, Text
from eagleray.broker.messages import Message

NO_NODE: Final = -1
"""The leader of a partition that has none, or whose leader is unknown."""

FIRST_DEDICATED_NODE_ID: Final = 1000
"""Node ids from here on are given out by the controller, to nodes that lead one partition each."""


class ProcessRole(enum.StrEnum):
    """What a node does; in messages it is plain text."""

    CONTROLLER = "controller"
    ALLOCATOR = "allocator"
    COORDINATOR = "coordinator"
    MARKERS = "markers"
    GROUPS = "groups"
    LEADER = "leader"


class BrokerEndpoint(Message, frozen=True):
    """Where Kafka's clients reach a node by one of its listeners."""

    listener: Text
    security_protocol: Text
    host: Text
    port: Int32


class NodeRegistration(Message, frozen=True):
    """A node that has registered: where it listens, and which of its incarnations this is."""

    node_id: int
    incarnation: int
    """Rises with each incarnation: what an earlier incarnation says is out of date."""

    host: str
    port: int
    roles: tuple[str, ...]
    pid: int = 0
    ray_node: str = ""
    endpoints: tuple[BrokerEndpoint, ...] = ()
    """Its listeners for Kafka's clients; none where these come to the host and port above."""

    def endpoint(self, listener_name: str) -> BrokerEndpoint | None:
        """Return where clients of a listener reach it, if it has that listener."""
        return next((each for each in self.endpoints if each.listener == listener_name), None)

    @property
    def bootstrap_address(self) -> str:
        """Where Kafka's clients begin: its first listener, or the one port that it has."""
        first = self.endpoints[0] if self.endpoints else self
        return f"{first.host}:{first.port}"


class PlannedNode(Message, frozen=True):
    """A node that supervision keeps running, whether it has registered yet or not."""

    node_id: int
    roles: tuple[str, ...]
    dedicated_to: TopicPartition | None = None
    """The one partition that this node leads, where its topic asks for `leader.placement=dedicated`."""

    machine: str = ""
    """The machine whose disk and whose fate it shares. No two replicas of a partition are on one machine."""
