"""The brokers that Kafka's clients see in Metadata: every node that owns data, at the address where it listens."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property
from typing import Final

from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE, NodeRegistration, ProcessRole
from eagleray.broker.metadata.topics import PartitionImage

_DATA_ROLES: Final = frozenset({ProcessRole.LEADER, ProcessRole.COORDINATOR, ProcessRole.GROUPS})


class Advertised:
    """The brokers of one image of the metadata.

    Leaders and coordinators are brokers, so that Kafka's own routing takes a client straight to the actor that owns its
    data. The controller, the allocator and the marker manager are not, unless they share a node with one that is.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    @cached_property
    def brokers(self) -> dict[int, NodeRegistration]:
        """The brokers that have registered, in the order of their node ids."""
        nodes = self.image.nodes
        return {
            node_id: nodes[node_id] for node_id in sorted(nodes) if not _DATA_ROLES.isdisjoint(nodes[node_id].roles)
        }

    @cached_property
    def controller_id(self) -> int:
        """The broker that clients take for the controller: the one they bootstrap from, where it has registered.

        Every broker passes requests about topics on to the controller, so it may as well be one that clients know.
        """
        leaders = [node_id for node_id, node in self.brokers.items() if ProcessRole.LEADER in node.roles]
        return min(leaders or self.brokers, default=NO_NODE)


def rack_of(image: MetadataImage, node_id: int) -> str | None:
    """Return the machine of a node, which Kafka's tools take for its rack: they spread replicas over racks."""
    planned = image.plan.get(node_id)
    return None if planned is None else planned.machine or None


def offline_replicas(partition: PartitionImage, brokers: Container[int]) -> tuple[int, ...]:
    """Return the replicas whose nodes are not registered."""
    return tuple(node_id for node_id in partition.replicas if node_id not in brokers)
