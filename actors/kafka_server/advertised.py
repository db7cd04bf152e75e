"""The brokers that Kafka's clients see in Metadata: every node that owns data, at the listener that was asked."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from eagleray.actors.kafka_server.endpoint import OWN_LISTENER
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE, NodeRegistration, ProcessRole
from eagleray.broker.metadata.topics import PartitionImage

_DATA_ROLES: Final = frozenset({ProcessRole.LEADER, ProcessRole.COORDINATOR, ProcessRole.GROUPS})


class Advertised:
    """The brokers of one image of the metadata, as clients of one listener see them.

    Leaders and coordinators are brokers, so that Kafka's own routing takes a client straight to the actor that owns its
    data. The controller, the allocator and the marker manager are not, unless they share a node with one that is.
    """

    def __init__(self, image: MetadataImage, listener_name: str = OWN_LISTENER) -> None:
        self.image = image
        self._listener_name = listener_name

    @cached_property
    def brokers(self) -> dict[int, NodeRegistration]:
        """The brokers that have registered with this listener, in the order of their node ids, at its addresses."""
        nodes = (self._at_listener(node) for _, node in sorted(self.image.nodes.items()))
        return {node.node_id: node for node in nodes if node is not None and not _DATA_ROLES.isdisjoint(node.roles)}

    def _at_listener(self, node: NodeRegistration) -> NodeRegistration | None:
        if self._listener_name == OWN_LISTENER:
            return node
        endpoint = node.endpoint(self._listener_name)
        return None if endpoint is None else replace(node, host=endpoint.host, port=endpoint.port)

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
