"""Topics that there are: how they grow, change their settings, and go."""

from __future__ import annotations

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.config_changes import changed_configs
from eagleray.broker.controller.decisions import Decision, Refusal, decide, refuse, repeated
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    DeleteTopics,
    GrowTopic,
    StopNodes,
    TopicResult,
    TopicsAnswered,
)
from eagleray.broker.controller.new_partitions import NewPartitions
from eagleray.broker.controller.reassignment_progress import target_of
from eagleray.broker.limits import shown
from eagleray.broker.metadata.changes import (
    Change,
    DeletedTopicsForgotten,
    NodesUnplanned,
    PartitionsAdded,
    TopicConfigsChanged,
    TopicDeleted,
)
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topic_configs import TopicConfig
from eagleray.broker.metadata.topics import INTERNAL_TOPICS, TopicImage
from eagleray.broker.settings import InvalidConfig
from eagleray.protocol.errors import ErrorCode


def delete_topics(
    request: DeleteTopics,
    image: MetadataImage,
    config: ControllerConfig,
    time_of_day_ms: int,
    *,
    may_forget: bool = True,
) -> Decision:
    """Delete each topic that exists, with the nodes that were dedicated to it.

    The ids of topics that were deleted long ago are forgotten with it, unless the clock is in doubt: so their number is
    bounded by what is deleted.
    """
    wrong = repeated(request.names)
    results = tuple(
        _delete(name, name in wrong, request.expected_ids.get(name), image) for name in request.topic_names()
    )
    answer = TopicsAnswered(request.request_id, results)
    deleted = [result for result in results if result.error_code is ErrorCode.NONE]
    changes: list[Change] = [TopicDeleted(result.name, result.topic_id, time_of_day_ms) for result in deleted]
    latest_ms = time_of_day_ms - config.deleted_topics_retention_ms
    forgotten = tuple(sorted(each for each, when_ms in image.deleted_topics.items() if when_ms < latest_ms))
    if changes and forgotten and may_forget:
        changes.append(DeletedTopicsForgotten(forgotten))
    node_ids = _dedicated_to({result.name for result in deleted}, image)
    if not node_ids:
        return decide(answer, changes)
    changes.append(NodesUnplanned(node_ids))
    return decide(answer, changes, StopNodes(node_ids))


def _delete(name: str, is_repeated: bool, expected_id: bytes | None, image: MetadataImage) -> TopicResult:
    if is_repeated:
        return TopicResult(name, ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
    found = _find(name, image, "deleted")
    if isinstance(found, Refusal):
        return TopicResult(name, *found)
    if expected_id not in (None, found.topic_id):
        return TopicResult(name, ErrorCode.UNKNOWN_TOPIC_ID, f"topic {name} has another id by now")
    return TopicResult(name, ErrorCode.NONE, None, found.topic_id, len(found.partitions))


def _dedicated_to(names: set[str], image: MetadataImage) -> tuple[int, ...]:
    nodes = (node for node in image.plan.values() if node.dedicated_to and node.dedicated_to.topic in names)
    return tuple(sorted(node.node_id for node in nodes))


def grow_topic(request: GrowTopic, image: MetadataImage, config: ControllerConfig) -> Decision:
    """Add partitions after those that a topic has."""
    topic = _find(request.name, image, "given partitions")
    if isinstance(topic, Refusal):
        return refuse(request, *topic)
    count, partitions = len(topic.partitions), NewPartitions(image, config)
    if request.partitions <= count:
        text = f"{request.name} has {count} partitions and was asked to have {request.partitions}; expected more"
        return refuse(request, ErrorCode.INVALID_PARTITIONS, text)
    is_dedicated = TopicConfig.parse(topic.configs).is_dedicated
    factor = len(target_of(topic.partitions[0]))
    refusal = _problem_with_growth(request, request.partitions - count, factor, partitions, is_dedicated)
    if refusal is not None:
        return refuse(request, *refusal)
    result = TopicResult(request.name, ErrorCode.NONE, None, topic.topic_id, request.partitions)
    answer = TopicsAnswered(request.request_id, (result,))
    if request.validate_only:
        return decide(answer)
    made = partitions.make(request.name, range(count, request.partitions), is_dedicated, factor, request.assignments)
    return partitions.decide(answer, [PartitionsAdded(request.name, made)])


def _problem_with_growth(
    request: GrowTopic, more: int, factor: int, partitions: NewPartitions, is_dedicated: bool
) -> Refusal | None:
    if request.assignments and len(request.assignments) != more:
        text = f"{more} partitions are to be added, with {len(request.assignments)} assignments; expected one for each"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if request.assignments and len(request.assignments[0]) != factor:
        text = f"a partition is assigned to {len(request.assignments[0])} nodes; expected {factor}, as for the others"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return partitions.problem_with(
        more, is_dedicated, None if request.assignments else factor
    ) or partitions.problem_with_assignments(request.assignments, is_dedicated)


def alter_configs(request: AlterTopicConfigs, image: MetadataImage) -> Decision:
    """Set settings of a topic and take others back: all of them, or none where one is not acceptable."""
    topic = _find(request.name, image, "configured")
    if isinstance(topic, Refusal):
        return refuse(request, *topic)
    try:
        configs = changed_configs(request, topic)
    except InvalidConfig as invalid:
        return refuse(request, ErrorCode.INVALID_CONFIG, str(invalid))
    result = TopicResult(request.name, ErrorCode.NONE, None, topic.topic_id, len(topic.partitions))
    answer = TopicsAnswered(request.request_id, (result,))
    if request.validate_only or configs == topic.configs:
        return decide(answer)
    return decide(answer, [TopicConfigsChanged(request.name, configs)])


def _find(name: str, image: MetadataImage, verb: str) -> TopicImage | Refusal:
    if name in INTERNAL_TOPICS:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{name} is the broker's own and cannot be {verb}")
    topic = image.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shown(name)}")
    return topic
