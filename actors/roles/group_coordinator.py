"""The group coordinator: its state machine, with the offsets log and the transaction coordinators at hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from eagleray.actors.common.settings import config_of
from eagleray.actors.lanes.messages import WriteGroupMarkers
from eagleray.actors.roles.coordinator_role import CoordinatorContext, CoordinatorRole
from eagleray.actors.roles.verification import Verifier
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.consumer.events import TopicsKnown
from eagleray.broker.groups.coordinator import GroupCoordinator
from eagleray.broker.groups.events import OffsetsOfTopicDeleted
from eagleray.broker.groups.log_writer import append_entries
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.messages import Message
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS
from eagleray.broker.partitions.coordinator_epochs import newest_coordinator_epoch
from eagleray.broker.partitions.events import AskLastDecision, VerifyTransaction, WriteMarkers
from eagleray.broker.runtime.coordinator_events import PartitionLoaded
from eagleray.protocol.errors import ErrorCode

_NO_PRODUCERS = ProducerState()


class GroupCoordinatorRole(CoordinatorRole):
    """Coordinates the groups whose partitions of `__consumer_offsets` the metadata gives to its node."""

    process_role: ClassVar = ProcessRole.GROUPS

    def __init__(self, context: CoordinatorContext) -> None:
        self._state_machine = GroupCoordinator(
            config_of(GroupConfig, context.spec.settings), lambda: str(uuid.uuid4()), self
        )
        super().__init__(context, CONSUMER_OFFSETS, replay=self._state_machine.replay, write=append_entries)
        verifier = Verifier(context, self.post)
        self._performers: dict[type, Callable[[Any], None]] = {
            VerifyTransaction: verifier.verify,
            AskLastDecision: verifier.ask_last_decision,
            **self._performers_of_failures(),
        }
        self._topics: dict[str, tuple[bytes, int]] = {}

    def _admit(self, events: list[Message]) -> list[Message]:
        return [each for event in super()._admit(events) for each in self._as_events(event)]

    def _as_events(self, event: Message) -> Iterator[Message]:
        if type(event) is WriteGroupMarkers:
            yield WriteMarkers(event.request_id, event.markers)
            return
        yield event
        if type(event) is PartitionLoaded:
            # Topics may have been deleted while no node led the partition.
            deleted = tuple(topic for topic in event.state.topics() if topic not in self.context.image.topics)
            yield OffsetsOfTopicDeleted(deleted)

    # The offsets log, as the state machine sees it

    def check_append(self, partition: int, epoch: int) -> ErrorCode:
        """Say whether a partition can be appended to in this turn."""
        return self._topic.check_append(partition, epoch)

    def producers(self, partition: int) -> ProducerState:
        """What the log of a partition knows of producers; one that was never written to knows none."""
        log = self._topic.log_of(partition)
        return _NO_PRODUCERS if log is None else log.producers

    def largest_batch(self, partition: int) -> int:
        """How large a batch the log of a partition takes that can be appended to."""
        return self._topic.writable[partition].log.max_batch_bytes

    def newest_coordinator_epoch(self) -> int:
        """The newest epoch that a transaction coordinator has had."""
        return newest_coordinator_epoch(self.context.image)

    # Starting and stopping

    def metadata_changed(self, previous: MetadataImage) -> None:
        """Take over and give up partitions of the offsets log; tell groups which topics there are, and are no more."""
        image = self.context.image
        topics = _topics_of(image)
        if topics != self._topics:
            self._topics = topics
            self.post(TopicsKnown(topics, image.version))
        self._topic.metadata_changed()
        deleted = tuple(
            topic.name for topic in previous.topics.values() if image.topic_id(topic.name) != topic.topic_id
        )
        if deleted:
            self.post(OffsetsOfTopicDeleted(deleted))


def _topics_of(image: MetadataImage) -> dict[str, tuple[bytes, int]]:
    """Give the topics that members may be assigned, each with its id and how many partitions it has."""
    return {
        topic.name: (topic.topic_id, len(topic.partitions)) for topic in image.topics.values() if not topic.is_internal
    }
