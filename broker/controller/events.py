"""What a controller is told, and what it asks for in return."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from eagleray.broker.controller.changes import Change
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.losses import NO_LOSS, Loss
from eagleray.broker.controller.nodes import NodeRegistration, PlannedNode
from eagleray.broker.controller.replica_events import (
    ChangeIsr,
    DrainAnswered,
    DrainNodes,
    ElectLeaders,
    IsrChanged,
    ListReassignments,
    NodeBeat,
    NodeBeatAnswered,
    PartitionMove,
    PartitionResult,
    PartitionsAnswered,
    Reassignment,
    ReassignmentsListed,
    ReassignPartitions,
)
from eagleray.broker.controller.topics import NO_TOPIC_ID
from eagleray.broker.messages import Message, RequestOf
from eagleray.protocol.errors import ErrorCode

__all__ = [
    "AlterTopicConfigs",
    "Answer",
    "ChangeIsr",
    "ChangesLogged",
    "ChangesLost",
    "ConfigsDescribed",
    "CreateTopics",
    "Decidable",
    "DeleteTopics",
    "DescribeConfigs",
    "DrainAnswered",
    "DrainNodes",
    "Effect",
    "ElectLeaders",
    "Event",
    "FollowMetadata",
    "GetMetadata",
    "GrowTopic",
    "IsrChanged",
    "ListReassignments",
    "LogChanges",
    "MetadataAnswered",
    "MetadataFollowed",
    "NewTopic",
    "NodeBeat",
    "NodeBeatAnswered",
    "NodeRegistered",
    "NodeRegistration",
    "PartitionMove",
    "PartitionResult",
    "PartitionsAnswered",
    "PlanAnswered",
    "PlanNodes",
    "PlannedNode",
    "ProducerIdsReserved",
    "ReassignPartitions",
    "Reassignment",
    "ReassignmentsListed",
    "RegisterNode",
    "ReserveProducerIds",
    "StartNodes",
    "StopNodes",
    "Tick",
    "TopicResult",
    "TopicsAnswered",
]

# What happens to a controller.


class PlanNodes(RequestOf["PlanAnswered"], frozen=True, tag="PlanNodes"):
    """Supervision says which nodes it keeps running; answered by `PlanAnswered`.

    Dedicated nodes are the controller's own and not named here: they stay in the plan as long as their topics do.
    """

    nodes: tuple[PlannedNode, ...]
    made_from: tuple[PlannedNode, ...] | None = None
    """The plan that this one is to replace: refused where it is another by now. None replaces whichever there is."""


class RegisterNode(RequestOf["NodeRegistered"], frozen=True, tag="RegisterNode"):
    """A node has started; answered by `NodeRegistered`. Asking again with the same incarnation changes nothing.

    Its directories are locked against its last life, and its incarnations ascend.
    """

    node: NodeRegistration
    loss: Loss = NO_LOSS
    """What may be gone of that which it had acknowledged."""


class ReserveProducerIds(RequestOf["ProducerIdsReserved"], frozen=True, tag="ReserveProducerIds"):
    """An allocator wants producer ids that were never given; answered by `ProducerIdsReserved`."""

    count: int


class NewTopic(Message, frozen=True):
    """A topic to create; -1 stands for the cluster's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    assignments: tuple[tuple[int, ...], ...] = ()
    """The replicas of each partition, where its creator chooses them; the numbers above are not given then."""


class CreateTopics(RequestOf["TopicsAnswered"], frozen=True, tag="CreateTopics"):
    """Somebody wants topics; each is created or refused on its own. Answered by `TopicsAnswered`."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False


class DeleteTopics(RequestOf["TopicsAnswered"], frozen=True, tag="DeleteTopics"):
    """Somebody wants topics gone; answered by `TopicsAnswered`."""

    names: tuple[str, ...]
    expected_ids: dict[str, bytes] = msgspec.field(default_factory=dict)
    """For some of the names, the id of the topic that is meant: one that has got its name since then stays."""


class GrowTopic(RequestOf["TopicsAnswered"], frozen=True, tag="GrowTopic"):
    """Somebody wants a topic to have this many partitions in all; answered by `TopicsAnswered`."""

    name: str
    partitions: int
    validate_only: bool = False
    assignments: tuple[tuple[int, ...], ...] = ()
    """The replicas of each new partition, where whoever asks chooses them."""


class AlterTopicConfigs(RequestOf["TopicsAnswered"], frozen=True, tag="AlterTopicConfigs"):
    """Somebody sets settings of a topic, or takes them back with None; answered by `TopicsAnswered`."""

    name: str
    changes: dict[str, str | None]
    validate_only: bool = False
    replaces: bool = False
    """Whether all settings that are not named go back to their defaults; where a topic's leaders are stays."""

    added: dict[str, str] = msgspec.field(default_factory=dict)
    removed: dict[str, str] = msgspec.field(default_factory=dict)
    """What to add to settings that are lists, and what to take out of them."""


Decidable: TypeAlias = (
    PlanNodes
    | RegisterNode
    | NodeBeat
    | ChangeIsr
    | ReserveProducerIds
    | CreateTopics
    | DeleteTopics
    | GrowTopic
    | AlterTopicConfigs
    | ReassignPartitions
    | DrainNodes
    | ElectLeaders
)
"""Requests that may change the metadata."""


class FollowMetadata(RequestOf["MetadataFollowed"], frozen=True, tag="FollowMetadata"):
    """A node knows the metadata as of a version and waits for news; answered by `MetadataFollowed`."""

    version: int
    max_wait_ms: int


class GetMetadata(RequestOf["MetadataAnswered"], frozen=True, tag="GetMetadata"):
    """Somebody asks for the metadata, of some topics or of all; any node answers it, by `MetadataAnswered`."""

    topics: tuple[str, ...] | None = None


class DescribeConfigs(RequestOf["ConfigsDescribed"], frozen=True, tag="DescribeConfigs"):
    """Somebody asks for the settings of a topic; any node answers it, by `ConfigsDescribed`."""

    topic: str


class ChangesLogged(Message, frozen=True, tag=True):
    """The metadata log has the changes."""

    token: int


class ChangesLost(Message, frozen=True, tag=True):
    """The metadata log does not have the changes, and never will; whoever asked has to ask again.

    Where nobody can tell whether the log will have them, this is not the event: the controller has to begin anew from
    what the log holds then.
    """

    token: int
    error_code: ErrorCode


class Tick(Message, frozen=True, tag=True):
    """Time has passed."""


Event: TypeAlias = (
    Decidable | FollowMetadata | GetMetadata | DescribeConfigs | ListReassignments | ChangesLogged | ChangesLost | Tick
)


# What a controller wants to happen.


class LogChanges(Message, frozen=True, tag=True):
    """Append changes to the metadata log, all or none; answered once, by `ChangesLogged` or `ChangesLost`.

    There is never more than one append under way.
    """

    token: int
    changes: tuple[Change, ...]


class StartNodes(Message, frozen=True, tag=True):
    """Have supervision start nodes that are planned from now on, and keep them running."""

    nodes: tuple[PlannedNode, ...]


class StopNodes(Message, frozen=True, tag=True):
    """Have supervision stop nodes that are no longer planned."""

    node_ids: tuple[int, ...]


class PlanAnswered(Message, frozen=True, tag="PlanAnswered"):
    """The answer to `PlanNodes`: all the nodes to keep running, the dedicated ones too."""

    request_id: int
    error_code: ErrorCode
    message: str | None = None
    nodes: tuple[PlannedNode, ...] = ()


class NodeRegistered(Message, frozen=True, tag="NodeRegistered"):
    """The answer to `RegisterNode`: the metadata with the node in it, or why the node may not join."""

    request_id: int
    error_code: ErrorCode
    image: MetadataImage | None = None
    message: str | None = None
    known_incarnation: int = -1
    """With STALE_BROKER_EPOCH: the newest life that is known of the node, which this one has to come after."""


class ProducerIdsReserved(Message, frozen=True, tag="ProducerIdsReserved"):
    """The answer to `ReserveProducerIds`: these are the asker's for good, whether it uses them or not."""

    request_id: int
    error_code: ErrorCode
    first_id: int = -1
    count: int = 0


class MetadataFollowed(Message, frozen=True, tag="MetadataFollowed"):
    """The answer to `FollowMetadata`: the changes since the follower's version, or an image to go on from."""

    request_id: int
    error_code: ErrorCode
    version: int
    """Where the follower is after this answer."""

    changes: tuple[Change, ...] = ()
    image: MetadataImage | None = None
    """The whole metadata, where the follower's version is too old, or newer than what there is."""


class MetadataAnswered(Message, frozen=True, tag="MetadataAnswered"):
    """The answer to `GetMetadata`: an image with no more than the topics that were asked for and exist."""

    request_id: int
    error_code: ErrorCode
    image: MetadataImage


class TopicResult(Message, frozen=True):
    """What became of one topic."""

    name: str
    error_code: ErrorCode
    message: str | None = None
    topic_id: bytes = NO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1


class TopicsAnswered(Message, frozen=True, tag="TopicsAnswered"):
    """The answer to a request about topics: one result for each name, in the order in which they first occur."""

    request_id: int
    results: tuple[TopicResult, ...]


class ConfigsDescribed(Message, frozen=True, tag="ConfigsDescribed"):
    """The answer to `DescribeConfigs`: every setting with the value that counts, and which of them were given."""

    request_id: int
    error_code: ErrorCode
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    explicit: tuple[str, ...] = ()


Answer: TypeAlias = (
    PlanAnswered
    | NodeRegistered
    | NodeBeatAnswered
    | IsrChanged
    | ProducerIdsReserved
    | MetadataFollowed
    | MetadataAnswered
    | TopicsAnswered
    | PartitionsAnswered
    | ReassignmentsListed
    | DrainAnswered
    | ConfigsDescribed
)
Effect: TypeAlias = LogChanges | StartNodes | StopNodes | Answer
