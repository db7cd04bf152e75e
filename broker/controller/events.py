"""What a controller is told, and what it asks for in return."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from eagleray.broker.controller.credential_events import AlterCredentials, CredentialsAltered
from eagleray.broker.controller.messages import CodedReply, ControllerReply, ControllerRequest
from eagleray.broker.controller.replica_events import (
    ChangeIsr,
    DrainAnswered,
    DrainNodes,
    ElectLeaders,
    IsrChanged,
    ListReassignments,
    NodeBeat,
    NodeBeatAnswered,
    PartitionsAnswered,
    ReassignmentsListed,
    ReassignPartitions,
)
from eagleray.broker.limits import IdCount, Int32, Int64, Text
from eagleray.broker.messages import Message
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.losses import NO_LOSS, Loss
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.positions import NO_POSITION, MetadataPosition
from eagleray.broker.metadata.topics import NO_TOPIC_ID
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import RequestFailed
from eagleray.protocol.errors import ErrorCode

# What happens to a controller.


class PlanNodes(ControllerRequest["PlanAnswered"], frozen=True, tag="PlanNodes"):
    """Supervision says which nodes it keeps running; answered by `PlanAnswered`.

    Dedicated nodes are the controller's own and not named here: they stay in the plan as long as their topics do.
    """

    nodes: tuple[PlannedNode, ...]
    made_from: tuple[PlannedNode, ...] | None = None
    """The plan that this one is to replace: refused where it is another by now. None replaces whichever there is."""

    def refused(self, error_code: ErrorCode, message: str | None = None) -> PlanAnswered:
        """Take over nothing of the plan."""
        return PlanAnswered(self.request_id, error_code, message)


class RegisterNode(ControllerRequest["NodeRegistered"], frozen=True, tag="RegisterNode"):
    """A node has started; answered by `NodeRegistered`. Asking again with the same incarnation changes nothing.

    Its directories are locked against its last incarnation, and its incarnations ascend.
    """

    node: NodeRegistration
    loss: Loss = NO_LOSS
    """What may be gone of that which it had acknowledged."""

    position: MetadataPosition = NO_POSITION
    """How much of the metadata the node knows, in this incarnation or an earlier one, and of which cluster."""

    def refused(self, error_code: ErrorCode, message: str | None = None) -> NodeRegistered:
        """Do not let the node join now."""
        return NodeRegistered(self.request_id, error_code, None, message)


class ReserveProducerIds(ControllerRequest["ProducerIdsReserved"], frozen=True, tag="ReserveProducerIds"):
    """An allocator wants producer ids that were never given; answered by `ProducerIdsReserved`."""

    count: IdCount

    def refused(self, error_code: ErrorCode, message: str | None = None) -> ProducerIdsReserved:  # noqa: ARG002
        """Give none."""
        return ProducerIdsReserved(self.request_id, error_code)


class NewTopic(Message, frozen=True):
    """A topic to create; -1 stands for the cluster's default."""

    name: Text
    partitions: Int32 = -1
    replication_factor: Int32 = -1
    configs: dict[Text, Text] = msgspec.field(default_factory=dict)
    assignments: tuple[tuple[Int64, ...], ...] = ()
    """The replicas of each partition, where its creator chooses them; the numbers above are not given then."""


class TopicRequest(ControllerRequest["TopicsAnswered"], frozen=True):
    """A request about topics."""

    def topic_names(self) -> list[str]:
        """Return the names that it is about, each once, in the order in which they first occur."""
        raise NotImplementedError

    def refused(self, error_code: ErrorCode, message: str | None = None) -> TopicsAnswered:
        """Refuse each of them."""
        results = (TopicResult(name, error_code, message) for name in self.topic_names())
        return TopicsAnswered(self.request_id, tuple(results))


class CreateTopics(TopicRequest, frozen=True, tag="CreateTopics"):
    """A client wants topics; each is created or refused on its own. Answered by `TopicsAnswered`."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False

    def topic_names(self) -> list[str]:
        """Return the names of the topics to create."""
        return list(dict.fromkeys(topic.name for topic in self.topics))


class DeleteTopics(TopicRequest, frozen=True, tag="DeleteTopics"):
    """A client wants topics deleted; answered by `TopicsAnswered`."""

    names: tuple[Text, ...]
    expected_ids: dict[Text, bytes] = msgspec.field(default_factory=dict)
    """For some of the names, the id of the topic that is meant: one that has got its name since then stays."""

    def topic_names(self) -> list[str]:
        """Return the names of the topics to delete."""
        return list(dict.fromkeys(self.names))


class GrowTopic(TopicRequest, frozen=True, tag="GrowTopic"):
    """A client wants a topic to have this many partitions in all; answered by `TopicsAnswered`."""

    name: Text
    partitions: Int32
    validate_only: bool = False
    assignments: tuple[tuple[Int64, ...], ...] = ()
    """The replicas of each new partition, where the client chooses them."""

    def topic_names(self) -> list[str]:
        """Return the one name."""
        return [self.name]


class AlterTopicConfigs(TopicRequest, frozen=True, tag="AlterTopicConfigs"):
    """A client sets settings of a topic, or takes them back with None; answered by `TopicsAnswered`."""

    name: Text
    changes: dict[Text, Text | None]
    validate_only: bool = False
    replaces: bool = False
    """Whether all settings that are not named go back to their defaults; where a topic's leaders are stays."""

    added: dict[Text, Text] = msgspec.field(default_factory=dict)
    removed: dict[Text, Text] = msgspec.field(default_factory=dict)
    """What to add to settings that are lists, and what to take out of them."""

    def topic_names(self) -> list[str]:
        """Return the one name."""
        return [self.name]


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
    | AlterCredentials
    | ElectLeaders
)
"""Requests that may change the metadata."""


class FollowMetadata(ControllerRequest["MetadataFollowed"], frozen=True, tag="FollowMetadata"):
    """A node knows the metadata as of a version and waits for news; answered by `MetadataFollowed`."""

    version: Int64
    max_wait_ms: Int32
    term: Int64 = 0
    """The term of the controller that made the last change which the node knows."""

    @property
    def position(self) -> MetadataPosition:
        """Where the node is in the metadata of this cluster."""
        return MetadataPosition("", self.term, self.version)

    def refused(self, error_code: ErrorCode, message: str | None = None) -> MetadataFollowed:  # noqa: ARG002
        """Leave the follower where it is."""
        return MetadataFollowed(self.request_id, error_code, self.version)


class GetMetadata(ControllerRequest["MetadataAnswered"], frozen=True, tag="GetMetadata"):
    """A question for the metadata, of some topics or of all; any node answers it, by `MetadataAnswered`."""

    topics: tuple[Text, ...] | None = None

    def refused(self, error_code: ErrorCode, message: str | None = None) -> MetadataAnswered:  # noqa: ARG002
        """Say nothing of the metadata."""
        return MetadataAnswered(self.request_id, error_code, EMPTY_IMAGE)


class DescribeConfigs(ControllerRequest["ConfigsDescribed"], frozen=True, tag="DescribeConfigs"):
    """A question for the settings of a topic; any node answers it, by `ConfigsDescribed`."""

    topic: Text

    def refused(self, error_code: ErrorCode, message: str | None = None) -> ConfigsDescribed:  # noqa: ARG002
        """Say nothing of the topic."""
        return ConfigsDescribed(self.request_id, error_code)


Request: TypeAlias = Decidable | FollowMetadata | GetMetadata | DescribeConfigs | ListReassignments


class ChangesCommitted(Message, frozen=True, tag=True):
    """The metadata log has all appends up to this position for good."""

    position: int


Event: TypeAlias = Request | ChangesCommitted | Tick


# What a controller wants to happen.


class LogChanges(Message, frozen=True, tag=True):
    """Append changes to the metadata log, all or none, behind those of all positions before.

    `ChangesCommitted` says when the log has them for good. Where it does not take them, the controller is ahead of the
    log, and has to `resign`.
    """

    position: int
    changes: tuple[Change, ...]


class StartNodes(Message, frozen=True, tag=True):
    """Have supervision start nodes that are planned from now on, and keep them running."""

    nodes: tuple[PlannedNode, ...]


class StopRuling(Message, frozen=True, tag=True):
    """Decide nothing more: most of the nodes know what the metadata log has lost."""

    reason: str


class StopNodes(Message, frozen=True, tag=True):
    """Have supervision stop nodes that are no longer planned."""

    node_ids: tuple[int, ...]


class PlanAnswered(CodedReply, frozen=True, tag="PlanAnswered"):
    """The answer to `PlanNodes`: all the nodes to keep running, the dedicated ones too."""

    message: str | None = None
    nodes: tuple[PlannedNode, ...] = ()


class NodeRegistered(CodedReply, frozen=True, tag="NodeRegistered"):
    """The answer to `RegisterNode`: the metadata with the node in it, or why the node may not join."""

    image: MetadataImage | None = None
    message: str | None = None
    known_incarnation: int = -1
    """With STALE_BROKER_EPOCH: the newest incarnation that is known of the node, which this one has to come after."""


class ProducerIdsReserved(CodedReply, frozen=True, tag="ProducerIdsReserved"):
    """The answer to `ReserveProducerIds`: these are the asker's for good, whether it uses them or not."""

    first_id: int = -1
    count: int = 0


class MetadataFollowed(CodedReply, frozen=True, tag="MetadataFollowed"):
    """The answer to `FollowMetadata`: the changes since the follower's version, or an image to go on from."""

    version: int
    """Where the follower is after this answer."""

    changes: tuple[Change, ...] = ()
    image: MetadataImage | None = None
    """The whole metadata, where the follower's version is too old."""


class MetadataAnswered(CodedReply, frozen=True, tag="MetadataAnswered"):
    """The answer to `GetMetadata`: an image with no more than the topics that were asked for and exist."""

    image: MetadataImage

    @property
    def has_image(self) -> bool:
        """Whether a node has answered with the metadata that it follows: as good from any node as the controller's."""
        return self.error_code in {ErrorCode.NONE, ErrorCode.NOT_CONTROLLER}


class TopicResult(Message, frozen=True):
    """What became of one topic."""

    name: str
    error_code: ErrorCode
    message: str | None = None
    topic_id: bytes = NO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1


class TopicsAnswered(ControllerReply, frozen=True, tag="TopicsAnswered"):
    """The answer to a request about topics: one result for each name, in the order in which they first occur."""

    results: tuple[TopicResult, ...]

    def says(self, error_code: ErrorCode) -> bool:
        """Whether this became of a topic: there is no code of the whole."""
        return any(result.error_code is error_code for result in self.results)


class ConfigsDescribed(CodedReply, frozen=True, tag="ConfigsDescribed"):
    """The answer to `DescribeConfigs`: every setting with the value that counts, and which of them were given."""

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
    | CredentialsAltered
    | ConfigsDescribed
)


class Respond(Message, frozen=True, tag=True):
    """Answer a request."""

    request: Request
    answer: Answer


Effect: TypeAlias = LogChanges | StartNodes | StopNodes | StopRuling | RequestFailed | Respond
