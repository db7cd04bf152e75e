"""New topics; Kafka's rules for what they may be like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.decisions import Decision, Refusal, decide, repeated
from eagleray.broker.controller.events import CreateTopics, NewTopic, TopicResult, TopicsAnswered
from eagleray.broker.controller.new_partitions import NewPartitions, with_min_isr
from eagleray.broker.metadata.changes import TopicCreated
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topic_configs import TopicConfig
from eagleray.broker.metadata.topic_names import collision_key, problem_with
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.broker.settings import InvalidConfig
from eagleray.protocol.errors import ErrorCode

_DEFAULT: Final = -1
_REPEATED: Final = Refusal(ErrorCode.INVALID_REQUEST, "the request names this topic more than once")


def create_topics(
    request: CreateTopics, image: MetadataImage, config: ControllerConfig, new_topic_id: Callable[[], bytes]
) -> Decision:
    """Create each topic that nothing speaks against; the others are refused, each on its own."""
    creation = _Creation(image, config, None if request.validate_only else new_topic_id)
    wrong = repeated(topic.name for topic in request.topics)
    by_name = {topic.name: topic for topic in request.topics}
    results = [
        TopicResult(name, *_REPEATED) if name in wrong else creation.add(by_name[name])
        for name in request.topic_names()
    ]
    answer = TopicsAnswered(request.request_id, tuple(results))
    return decide(answer) if request.validate_only else creation.partitions.decide(answer, creation.topics)


def _topics_of_users(image: MetadataImage) -> int:
    return len(image.topics) - sum(name in image.topics for name in INTERNAL_TOPICS)


class _Creation:
    """The topics of one request, each checked against those that exist and those before it."""

    def __init__(
        self, image: MetadataImage, config: ControllerConfig, new_topic_id: Callable[[], bytes] | None
    ) -> None:
        self.partitions = NewPartitions(image, config)
        self.topics: list[TopicCreated] = []
        self._image = image
        self._config = config
        self._new_topic_id = new_topic_id
        self._topics_left = config.max_topics_per_cluster - _topics_of_users(image)
        self._names = {collision_key(name): name for name in image.topics}

    def add(self, topic: NewTopic) -> TopicResult:
        refusal = (
            self._problem_with_name(topic.name) or self._problem_with_numbers(topic) or self._problem_with_one_more()
        )
        if refusal is not None:
            return TopicResult(topic.name, *refusal)
        try:
            config = TopicConfig.parse(topic.configs)
        except InvalidConfig as invalid:
            return TopicResult(topic.name, ErrorCode.INVALID_CONFIG, str(invalid))
        count, factor = self._count(topic), self._factor(topic, config.is_dedicated)
        refusal = self.partitions.problem_with(count, config.is_dedicated, None if topic.assignments else factor)
        refusal = refusal or self.partitions.problem_with_assignments(topic.assignments, config.is_dedicated)
        return self._create(topic, count, factor, config) if refusal is None else TopicResult(topic.name, *refusal)

    def _count(self, topic: NewTopic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return self._config.num_partitions if topic.partitions == _DEFAULT else topic.partitions

    def _factor(self, topic: NewTopic, is_dedicated: bool) -> int:
        if topic.assignments:
            return len(topic.assignments[0])
        if topic.replication_factor != _DEFAULT:
            return topic.replication_factor
        # Who asks for nodes of its own has not asked for more than one to a partition, whatever the others get.
        return 1 if is_dedicated else self._config.default_replication_factor

    def _problem_with_name(self, name: str) -> Refusal | None:
        if name in INTERNAL_TOPICS:
            return Refusal(ErrorCode.INVALID_REQUEST, f"{name} is the broker's own and cannot be created")
        if name in self._image.topics:
            return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
        text = problem_with(name)
        other = self._names.get(collision_key(name))
        if text is None and other is not None:
            text = f"{name} collides with topic {other}, because '.' and '_' are the same in the names of metrics"
        return None if text is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def _problem_with_one_more(self) -> Refusal | None:
        if self._topics_left > 0:
            return None
        most = self._config.max_topics_per_cluster
        text = f"the cluster has as many topics as it may have; expected at most {most}, by max.topics.per.cluster"
        return Refusal(ErrorCode.POLICY_VIOLATION, text)

    def _problem_with_numbers(self, topic: NewTopic) -> Refusal | None:
        factor = topic.replication_factor
        if topic.assignments and (topic.partitions, factor) != (_DEFAULT, _DEFAULT):
            text = "both numbers and assignments are given; expected -1 partitions and factor -1 with assignments"
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        if topic.partitions != _DEFAULT and topic.partitions < 1:
            text = f"{topic.partitions} partitions make no topic; expected 1 or more, or -1 for the default"
            return Refusal(ErrorCode.INVALID_PARTITIONS, text)
        if factor != _DEFAULT and factor < 1:
            text = f"the replication factor is {factor}; expected 1 or more, or -1 for the default"
            return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        return None

    def _create(self, topic: NewTopic, count: int, factor: int, config: TopicConfig) -> TopicResult:
        self._names[collision_key(topic.name)] = topic.name
        self._topics_left -= 1
        partitions = self.partitions.make(topic.name, range(count), config.is_dedicated, factor, topic.assignments)
        if self._new_topic_id is None:
            return TopicResult(topic.name, ErrorCode.NONE, partitions=count, replication_factor=factor)
        topic_id = self._new_topic_id()
        configs = with_min_isr(topic.configs, self._config.min_insync_replicas, factor)
        self.topics.append(TopicCreated(topic.name, topic_id, configs, partitions))
        return TopicResult(topic.name, ErrorCode.NONE, None, topic_id, count, factor)
