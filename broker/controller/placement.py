"""Which node leads a new partition, or one whose leader has gone."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import Role
from eagleray.broker.controller.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionImage
from eagleray.broker.identities import TopicPartition

_ROLES = {TRANSACTION_STATE: Role.COORDINATOR, CONSUMER_OFFSETS: Role.GROUPS}


def role_for(topic: str) -> Role:
    """Return the role that the leaders of a topic's partitions have."""
    return _ROLES.get(topic, Role.LEADER)


def has_its_leader(image: MetadataImage, partition: TopicPartition) -> bool:
    """Whether the node that leads a partition is planned, and has the role for it."""
    leader = image.plan.get(image.leader_of(partition))
    return leader is not None and role_for(partition.topic) in leader.roles


def first_led_by(node_id: int) -> PartitionImage:
    """Return a new partition, whose one replica leads it."""
    return PartitionImage(node_id, 0, (node_id,), (node_id,))


class Placement:
    """Spreads partitions over the nodes of an image that share them.

    What it has placed counts when it is asked again, so one is made for each decision.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._shared = sorted(node.node_id for node in image.plan.values() if node.dedicated_to is None)
        self._roles = {node_id: image.plan[node_id].roles for node_id in self._shared}
        self._led = {node_id: len(image.led_by(node_id)) for node_id in self._shared}

    def candidates(self, role: Role) -> list[int]:
        """Return the nodes that share the partitions of a role, in the order of their ids."""
        return [node_id for node_id in self._shared if role in self._roles[node_id]]

    def place(self, role: Role, count: int) -> list[int]:
        """Choose leaders for the partitions of a new topic; there has to be a candidate.

        They go round the nodes, so that the topic is spread however full each node is, and begin where there is the
        least to do.
        """
        nodes = self.candidates(role)
        first = nodes.index(self._least_busy(nodes))
        chosen = [nodes[(first + place) % len(nodes)] for place in range(count)]
        self.put(chosen)
        return chosen

    def put(self, node_ids: Iterable[int]) -> None:
        """Take note of leaders that somebody else has chosen."""
        for node_id in node_ids:
            self._led[node_id] += 1

    def take_over(self, role: Role) -> int:
        """Choose the node with the least to do for a partition that has lost its leader."""
        node_id = self._least_busy(self.candidates(role))
        self._led[node_id] += 1
        return node_id

    def _least_busy(self, nodes: list[int]) -> int:
        return min(nodes, key=self._led.__getitem__)
