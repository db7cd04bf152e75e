"""What happens to a cluster's metadata: the records of the metadata log.

A change says what is so from now on and never why, so that applying it needs no decision. One decision is one append:
all of its changes are in the log, or none.
"""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.controller.nodes import NodeRegistration, PlannedNode
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Message


class ClusterCreated(Message, frozen=True, tag="ClusterCreated"):
    """The cluster has a name."""

    cluster_id: str


class NodesPlanned(Message, frozen=True, tag="NodesPlanned"):
    """These nodes belong to the cluster, in place of what was planned under the same ids."""

    nodes: tuple[PlannedNode, ...]


class NodesUnplanned(Message, frozen=True, tag="NodesUnplanned"):
    """These nodes belong to the cluster no longer, nor are they registered."""

    node_ids: tuple[int, ...]


class NodeJoined(Message, frozen=True, tag="NodeJoined"):
    """A planned node has come, or has come back as another incarnation."""

    node: NodeRegistration


class TopicCreated(Message, frozen=True, tag="TopicCreated"):
    """There is a new topic."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: tuple[PartitionImage, ...]


class TopicDeleted(Message, frozen=True, tag="TopicDeleted"):
    """A topic is gone, with all that it held."""

    name: str
    topic_id: bytes


class PartitionsAdded(Message, frozen=True, tag="PartitionsAdded"):
    """A topic has more partitions, after those that it had."""

    name: str
    partitions: tuple[PartitionImage, ...]


class TopicConfigsChanged(Message, frozen=True, tag="TopicConfigsChanged"):
    """These are all the settings that a topic was given."""

    name: str
    configs: dict[str, str]


class NodesLeft(Message, frozen=True, tag="NodesLeft"):
    """These nodes are registered no longer: their sessions ended. They stay planned, and may come back."""

    node_ids: tuple[int, ...]


class ReplicasChange(Message, frozen=True):
    """Everything about who keeps and leads one partition, from now on."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class ReplicasChanged(Message, frozen=True, tag="ReplicasChanged"):
    """Partitions have other replicas, in-sync sets or leaders; each one's partition epoch rises by one."""

    partitions: tuple[ReplicasChange, ...]


class ProducerIdsTaken(Message, frozen=True, tag="ProducerIdsTaken"):
    """Producer ids below this one belong to somebody."""

    next_id: int


class DrainingChanged(Message, frozen=True, tag="DrainingChanged"):
    """These are all the nodes that are given no new replicas, because theirs are to go elsewhere."""

    node_ids: tuple[int, ...]


Change: TypeAlias = (
    ClusterCreated
    | NodesPlanned
    | NodesUnplanned
    | NodeJoined
    | TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | TopicConfigsChanged
    | NodesLeft
    | ReplicasChanged
    | ProducerIdsTaken
    | DrainingChanged
)
