"""The nodes of a cluster: who is planned, and who has come."""

from __future__ import annotations

import enum
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Message

NO_NODE: Final = -1
"""The leader of a partition that has none, or that nobody knows."""

FIRST_DEDICATED_NODE_ID: Final = 1000
"""Node ids from here on are the controller's own to give away, to nodes that lead one partition each."""


class Role(enum.StrEnum):
    """What a node does; in messages it is plain text."""

    CONTROLLER = "controller"
    ALLOCATOR = "allocator"
    COORDINATOR = "coordinator"
    MARKERS = "markers"
    GROUPS = "groups"
    LEADER = "leader"


class NodeRegistration(Message, frozen=True):
    """A node that has come, where it listens, and which of its lives this is."""

    node_id: int
    incarnation: int
    """Ascends from life to life: whatever an earlier life says is out of date."""

    host: str
    port: int
    roles: tuple[str, ...]
    pid: int = 0
    ray_node: str = ""


class PlannedNode(Message, frozen=True):
    """A node that supervision keeps running, whether it has come yet or not."""

    node_id: int
    roles: tuple[str, ...]
    dedicated_to: TopicPartition | None = None
    """The one partition that this node leads, where its topic asks for `leader.placement=dedicated`."""

    machine: str = ""
    """What it shares its disk and its fate with. No two replicas of a partition are on one machine."""
