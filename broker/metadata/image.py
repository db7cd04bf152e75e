"""The metadata image: the cluster as of one version, and how changes lead from one image to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final

import msgspec

from eagleray.broker.identities import NO_EPOCH, TopicPartition
from eagleray.broker.messages import Message
from eagleray.broker.metadata.changes import (
    Change,
    ClusterCreated,
    CredentialChanged,
    DeletedTopicsForgotten,
    DrainingChanged,
    NodeJoined,
    NodesLeft,
    NodesPlanned,
    NodesUnplanned,
    PartitionsAdded,
    ProducerIdsTaken,
    ReplicasChanged,
    TermBegan,
    TopicConfigsChanged,
    TopicCreated,
    TopicDeleted,
)
from eagleray.broker.metadata.nodes import FIRST_DEDICATED_NODE_ID, NO_NODE, NodeRegistration, PlannedNode
from eagleray.broker.metadata.positions import TERMS_KEPT, MetadataPosition, TermBeginning, term_at
from eagleray.broker.metadata.topics import PartitionImage, TopicImage
from eagleray.broker.security.scram import ScramCredential


class MetadataImage(Message, frozen=True, tag="MetadataImage", gc=True, dict=True):
    """Everything that the metadata log says, as of one of its records.

    Frozen and safe to share: a change makes another image, which shares with the old one whatever the change is not
    about. The dictionaries are not to be changed in place.
    """

    version: int = 0
    """How many changes have led here; it never falls."""

    cluster_id: str = ""
    nodes: dict[int, NodeRegistration] = msgspec.field(default_factory=dict)
    topics: dict[str, TopicImage] = msgspec.field(default_factory=dict)
    plan: dict[int, PlannedNode] = msgspec.field(default_factory=dict)
    next_node_id: int = FIRST_DEDICATED_NODE_ID
    """The first id that no dedicated node has ever had."""

    incarnations: dict[int, int] = msgspec.field(default_factory=dict)
    """The newest incarnation of each planned node that has ever registered; it outlives the node's session."""

    next_producer_id: int = 0
    """The first producer id that was never handed out."""

    draining: tuple[int, ...] = ()
    """Nodes that get no new replicas, because theirs are to move elsewhere."""

    deleted_topics: dict[bytes, int] = msgspec.field(default_factory=dict)
    """The ids of topics that were deleted, and when: only their files, and those of replicas that have moved away, are
    removed from a disk."""

    terms: tuple[TermBeginning, ...] = ()
    """Which controllers have made the changes that have led here, ascending, as far as that is kept."""

    credentials: dict[str, dict[int, ScramCredential]] = msgspec.field(default_factory=dict)
    """The SCRAM credentials of users by name and by the number of the mechanism; nodes alone have them."""

    first_leader_epoch: int = 0
    """At which leader epoch new partitions begin: above that of every partition that was deleted. So what is still said
    about a deleted topic is fenced by another of its name.
    """

    @property
    def term(self) -> int:
        """The term of the controller that made the last change."""
        return self.terms[-1].term if self.terms else 0

    @property
    def position(self) -> MetadataPosition:
        """Where this image stands in the metadata of its cluster."""
        return MetadataPosition(self.cluster_id, self.term, self.version)

    def includes(self, position: MetadataPosition) -> bool:
        """Whether an image at a position led to this one; not where it knew more, or what this one's log has lost."""
        if (position.cluster_id and position.cluster_id != self.cluster_id) or position.version > self.version:
            return False
        return term_at(self.terms, position.version) in (None, position.term)

    def find(self, partition: TopicPartition) -> PartitionImage | None:
        """Return what is known of a partition, if it exists."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def leader_of(self, partition: TopicPartition) -> int:
        """Return the node that leads a partition, or NO_NODE where there is no such partition."""
        found = self.find(partition)
        return NO_NODE if found is None else found.leader

    def leader_epoch_of(self, partition: TopicPartition) -> int:
        """Return the epoch of a partition's leader, or NO_EPOCH where there is no such partition."""
        found = self.find(partition)
        return NO_EPOCH if found is None else found.leader_epoch

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic, if it exists."""
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_with_id(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic that has this id, if any."""
        return self._topics_by_id.get(topic_id)

    def led_by(self, node_id: int) -> tuple[TopicPartition, ...]:
        """Return the partitions that a node leads; the first call on an image walks over all partitions."""
        return self._led_by_node.get(node_id, ())

    def kept_by(self, node_id: int) -> tuple[TopicPartition, ...]:
        """Return the partitions of which a node has a replica, or is to have one; it costs as much as `led_by`."""
        return self._kept_by_node.get(node_id, ())

    def nodes_with(self, role: str) -> tuple[int, ...]:
        """Return the planned nodes that have a role, dedicated ones too, in the order of their ids."""
        return tuple(sorted(node_id for node_id, node in self.plan.items() if role in node.roles))

    def apply(self, changes: Iterable[Change]) -> MetadataImage:
        """Return the image that these changes lead to; live, in replay and on followers alike."""
        draft = _Draft(self)
        for change in changes:
            draft.apply(change)
        return draft.finish()

    @cached_property
    def registered_incarnations(self) -> dict[int, int]:
        """The incarnations of the registered nodes."""
        return {node_id: node.incarnation for node_id, node in self.nodes.items()}

    @cached_property
    def _topics_by_id(self) -> dict[bytes, TopicImage]:
        return {topic.topic_id: topic for topic in self.topics.values()}

    @cached_property
    def _led_by_node(self) -> dict[int, tuple[TopicPartition, ...]]:
        led: dict[int, list[TopicPartition]] = {}
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                led.setdefault(partition.leader, []).append(TopicPartition(topic.name, number))
        return {node_id: tuple(partitions) for node_id, partitions in led.items()}

    @cached_property
    def _kept_by_node(self) -> dict[int, tuple[TopicPartition, ...]]:
        kept: dict[int, list[TopicPartition]] = {}
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                for node_id in partition.replicas:
                    kept.setdefault(node_id, []).append(TopicPartition(topic.name, number))
        return {node_id: tuple(partitions) for node_id, partitions in kept.items()}


EMPTY_IMAGE: Final = MetadataImage()


class _Draft:
    """An image in the making: one level of each dictionary is copied, once for all the changes."""

    def __init__(self, image: MetadataImage) -> None:
        self._version = image.version
        self._cluster_id = image.cluster_id
        self._nodes = dict(image.nodes)
        self._topics = dict(image.topics)
        self._plan = dict(image.plan)
        self._next_node_id = image.next_node_id
        self._incarnations = dict(image.incarnations)
        self._next_producer_id = image.next_producer_id
        self._draining = image.draining
        self._deleted_topics = image.deleted_topics
        self._terms = image.terms
        self._credentials = image.credentials
        self._first_leader_epoch = image.first_leader_epoch

    def apply(self, change: Change) -> None:
        _APPLY[type(change)](self, change)
        self._version += 1

    def finish(self) -> MetadataImage:
        return MetadataImage(
            self._version,
            self._cluster_id,
            self._nodes,
            self._topics,
            self._plan,
            self._next_node_id,
            self._incarnations,
            self._next_producer_id,
            self._draining,
            self._deleted_topics,
            self._terms,
            self._credentials,
            self._first_leader_epoch,
        )

    def create_cluster(self, change: ClusterCreated) -> None:
        self._cluster_id = change.cluster_id

    def plan_nodes(self, change: NodesPlanned) -> None:
        for node in change.nodes:
            self._plan[node.node_id] = node
            if node.dedicated_to is not None:
                self._next_node_id = max(self._next_node_id, node.node_id + 1)

    def unplan_nodes(self, change: NodesUnplanned) -> None:
        for node_id in change.node_ids:
            del self._plan[node_id]
            self._nodes.pop(node_id, None)
            self._incarnations.pop(node_id, None)
        self._draining = tuple(node_id for node_id in self._draining if node_id in self._plan)

    def join(self, change: NodeJoined) -> None:
        self._nodes[change.node.node_id] = change.node
        self._incarnations[change.node.node_id] = change.node.incarnation

    def create_topic(self, change: TopicCreated) -> None:
        self._topics[change.name] = TopicImage(change.name, change.topic_id, change.configs, change.partitions)

    def delete_topic(self, change: TopicDeleted) -> None:
        epochs = (partition.leader_epoch + 1 for partition in self._topics.pop(change.name).partitions)
        self._first_leader_epoch = max([self._first_leader_epoch, *epochs])
        self._deleted_topics = self._deleted_topics | {change.topic_id: change.deleted_ms}

    def forget_deleted(self, change: DeletedTopicsForgotten) -> None:
        gone = {*change.topic_ids}
        self._deleted_topics = {key: when for key, when in self._deleted_topics.items() if key not in gone}

    def begin_term(self, change: TermBegan) -> None:
        self._terms = (*self._terms, TermBeginning(change.term, self._version))[-TERMS_KEPT:]

    def add_partitions(self, change: PartitionsAdded) -> None:
        topic = self._topics[change.name]
        self._topics[change.name] = msgspec.structs.replace(topic, partitions=topic.partitions + change.partitions)

    def change_configs(self, change: TopicConfigsChanged) -> None:
        self._topics[change.name] = msgspec.structs.replace(self._topics[change.name], configs=change.configs)

    def leave(self, change: NodesLeft) -> None:
        for node_id in change.node_ids:
            self._nodes.pop(node_id, None)

    def change_replicas(self, change: ReplicasChanged) -> None:
        touched: dict[str, list[PartitionImage]] = {}
        for new in change.partitions:
            name, number = new.partition.topic, new.partition.partition
            partitions = touched.setdefault(name, list(self._topics[name].partitions))
            epoch = partitions[number].partition_epoch + 1
            partitions[number] = PartitionImage(
                new.leader, new.leader_epoch, new.replicas, new.isr, epoch, new.adding, new.removing
            )
        for name, partitions in touched.items():
            self._topics[name] = msgspec.structs.replace(self._topics[name], partitions=tuple(partitions))

    def take_producer_ids(self, change: ProducerIdsTaken) -> None:
        self._next_producer_id = change.next_id

    def drain(self, change: DrainingChanged) -> None:
        self._draining = change.node_ids

    def change_credential(self, change: CredentialChanged) -> None:
        of_user = {**self._credentials.get(change.user, {})}
        of_user.pop(change.mechanism, None)
        if change.credential is not None:
            of_user[change.mechanism] = change.credential
        others = {user: credentials for user, credentials in self._credentials.items() if user != change.user}
        self._credentials = {**others, change.user: of_user} if of_user else others


_APPLY: Final[dict[type, Callable[[_Draft, Any], None]]] = {
    ClusterCreated: _Draft.create_cluster,
    NodesPlanned: _Draft.plan_nodes,
    NodesUnplanned: _Draft.unplan_nodes,
    NodeJoined: _Draft.join,
    TopicCreated: _Draft.create_topic,
    TopicDeleted: _Draft.delete_topic,
    PartitionsAdded: _Draft.add_partitions,
    TopicConfigsChanged: _Draft.change_configs,
    NodesLeft: _Draft.leave,
    ReplicasChanged: _Draft.change_replicas,
    ProducerIdsTaken: _Draft.take_producer_ids,
    DrainingChanged: _Draft.drain,
    DeletedTopicsForgotten: _Draft.forget_deleted,
    TermBegan: _Draft.begin_term,
    CredentialChanged: _Draft.change_credential,
}
