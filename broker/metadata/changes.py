"""The records of the metadata log (Kafka's metadata records).

A change says what holds from now on and never why, so that applying it needs no decision. One decision is one append:
the log has all of its changes, or none.
"""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Message
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.security.scram import ScramCredential


class ClusterCreated(Message, frozen=True, tag="ClusterCreated"):
    """The cluster has an id."""

    cluster_id: str


class NodesPlanned(Message, frozen=True, tag="NodesPlanned"):
    """These nodes belong to the cluster, in place of those that were planned under the same ids."""

    nodes: tuple[PlannedNode, ...]


class NodesUnplanned(Message, frozen=True, tag="NodesUnplanned"):
    """These nodes no longer belong to the cluster, and are no longer registered."""

    node_ids: tuple[int, ...]


class NodeJoined(Message, frozen=True, tag="NodeJoined"):
    """A planned node has registered, for the first time or as another incarnation."""

    node: NodeRegistration


class TopicCreated(Message, frozen=True, tag="TopicCreated"):
    """There is a new topic."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: tuple[PartitionImage, ...]


class TopicDeleted(Message, frozen=True, tag="TopicDeleted"):
    """A topic is gone, with all that it held. Its id is kept, so that a node that was away learns of it."""

    name: str
    topic_id: bytes
    deleted_ms: int = 0
    """The time of day; 0 in what was logged before it was noted."""


class TermBegan(Message, frozen=True, tag="TermBegan"):
    """A controller that was elected in this term makes the changes from here on."""

    term: int


class DeletedTopicsForgotten(Message, frozen=True, tag="DeletedTopicsForgotten"):
    """The ids of topics that were deleted long ago are no longer kept."""

    topic_ids: tuple[bytes, ...]


class PartitionsAdded(Message, frozen=True, tag="PartitionsAdded"):
    """A topic has more partitions, behind those that it had."""

    name: str
    partitions: tuple[PartitionImage, ...]


class TopicConfigsChanged(Message, frozen=True, tag="TopicConfigsChanged"):
    """These are all the settings that were given to a topic."""

    name: str
    configs: dict[str, str]


class NodesLeft(Message, frozen=True, tag="NodesLeft"):
    """These nodes are no longer registered: their sessions ended. They stay planned, and may come back."""

    node_ids: tuple[int, ...]


class ReplicasChange(Message, frozen=True):
    """The whole new state of one partition: replicas, ISR, leader and leader epoch."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class ReplicasChanged(Message, frozen=True, tag="ReplicasChanged"):
    """Partitions have other replicas, ISRs or leaders; the partition epoch of each rises by one."""

    partitions: tuple[ReplicasChange, ...]


class ProducerIdsTaken(Message, frozen=True, tag="ProducerIdsTaken"):
    """The producer ids below this one have been handed out."""

    next_id: int


class DrainingChanged(Message, frozen=True, tag="DrainingChanged"):
    """These are all the draining nodes: they get no new replicas, and theirs move elsewhere."""

    node_ids: tuple[int, ...]


class CredentialChanged(Message, frozen=True, tag="CredentialChanged"):
    """A user has this credential for a SCRAM mechanism; with None it has none."""

    user: str
    mechanism: int
    """The number that Kafka gives it."""

    credential: ScramCredential | None = None


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
    | DeletedTopicsForgotten
    | TermBegan
    | CredentialChanged
)
