"""The group coordinator: its machine, with the offsets log and the transaction coordinators at hand."""

from __future__ import annotations

import logging
import uuid
from typing import Any, ClassVar

from eagleray.actors.internal_topic import InternalTopic
from eagleray.actors.messages import WriteGroupMarkers
from eagleray.actors.settings import group_config
from eagleray.actors.shell import Host, Shell
from eagleray.actors.verifying import Verifier
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import Role
from eagleray.broker.controller.topics import CONSUMER_OFFSETS
from eagleray.broker.groups.consumer.events import TopicsKnown
from eagleray.broker.groups.coordinator import GroupCoordinator
from eagleray.broker.groups.events import (
    LogMarkers,
    LogOffsets,
    MarkersLogged,
    OffsetsAssigned,
    OffsetsLoaded,
    OffsetsLogged,
    OffsetsLost,
    OffsetsOfTopicDeleted,
    OffsetsResigned,
)
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.log import Appended, LogWriteFailed, Origin, PartitionLog
from eagleray.broker.messages import Message
from eagleray.broker.partitions.events import Tick, VerifyTransaction, WriteMarkers
from eagleray.broker.partitions.marking import new_marker
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, RecordBatch, build_batch, split_batches

_log = logging.getLogger(__name__)


class GroupCoordinatorShell(Shell):
    """Coordinates the groups whose partitions of `__consumer_offsets` the metadata gives to its node.

    Owns: what is written to the logs of these partitions. Commits that a turn brings to one partition are appended with
    one write where no marker lies between them; once they are replicated the machine is told: with one replica in the
    same turn.
    """

    role: ClassVar = Role.GROUPS
    rest_ms: ClassVar = 50

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._machine = GroupCoordinator(group_config(host.spec.settings), lambda: str(uuid.uuid4()))
        self._topic = InternalTopic(
            host,
            CONSUMER_OFFSETS,
            post=self.post,
            assigned=OffsetsAssigned,
            loaded=self._loaded,
            resigned=OffsetsResigned,
            replay=self._machine.replay,
        )
        self._verifier = Verifier(host, self.post)
        self._topics: dict[str, tuple[bytes, int]] = {}

    def handle(self, events: list[Any]) -> None:
        """Let the machine take what happened, until nothing follows from it any more."""
        events = self._topic.admit(events)
        while events:
            events = self._append(self._decide(events))

    def _decide(self, events: list[Any]) -> dict[int, list[LogOffsets | LogMarkers]]:
        now_ms = self.host.now_ms()
        appends: dict[int, list[LogOffsets | LogMarkers]] = {}
        for event in events:
            for effect in self._machine.handle(_as_event(event), now_ms):
                if isinstance(effect, LogOffsets | LogMarkers):
                    appends.setdefault(effect.offsets_partition, []).append(effect)
                elif isinstance(effect, VerifyTransaction):
                    self._verifier.verify(effect)
                else:
                    self.host.answer(effect)
        return appends

    def _loaded(self, number: int, epoch: int, state: OffsetsState) -> OffsetsLoaded:
        """Have what groups knew of topics forgotten that were deleted while nobody led the partition."""
        deleted = tuple(topic for topic in state.topics() if topic not in self.host.image.topics)
        if deleted:
            self.host.loop.call_soon(self.post, OffsetsOfTopicDeleted(deleted))
        return OffsetsLoaded(number, epoch, state)

    # The offsets log

    def _append(self, appends: dict[int, list[LogOffsets | LogMarkers]]) -> list[Any]:
        """Append what each partition is to hold; return what the machine has to know by now."""
        lost: list[Any] = []
        logged: dict[int, list[Message]] = {}
        steady_ms = self.host.steady_ms()
        for number, of_partition in appends.items():
            for run in _runs(of_partition):
                log = self._topic.log_to_write(number, run[0].epoch, steady_ms)
                if isinstance(log, ErrorCode):
                    lost += [OffsetsLost(effect.token, log) for effect in run]
                    continue
                append = self._append_markers if isinstance(run[0], LogMarkers) else self._append_offsets
                for outcome in append(log, run):
                    if isinstance(outcome, OffsetsLost):
                        lost.append(outcome)
                    else:
                        logged.setdefault(number, []).append(outcome)
        return [*lost, *self._topic.replicate(logged)]

    def _append_offsets(self, log: PartitionLog, effects: list[Any]) -> list[Any]:
        now_ms = self.host.now_ms()
        batches = [_batch_of(effect, now_ms) for effect in effects]
        try:
            results = log.append(batches, leader_epoch=effects[0].epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
        except LogWriteFailed as error:
            _log.error("%s", error)
            return [OffsetsLost(effect.token, ErrorCode.COORDINATOR_NOT_AVAILABLE) for effect in effects]
        return [
            OffsetsLogged(effect.token)
            if isinstance(result, Appended)
            else OffsetsLost(effect.token, result.error_code)
            for effect, result in zip(effects, results, strict=True)
        ]

    def _append_markers(self, log: PartitionLog, effects: list[Any]) -> list[Any]:
        markers = [new_marker(marker) for effect in effects for marker in effect.markers]
        try:
            results = log.append_markers(markers, leader_epoch=effects[0].epoch, now_ms=self.host.now_ms())
        except LogWriteFailed as error:
            _log.error("%s", error)
            return [OffsetsLost(effect.token, ErrorCode.KAFKA_STORAGE_ERROR) for effect in effects]
        codes = iter([ErrorCode.NONE if isinstance(result, Appended) else result.error_code for result in results])
        return [MarkersLogged(effect.token, tuple(next(codes) for _ in effect.markers)) for effect in effects]

    # Its life

    def metadata_changed(self, previous: MetadataImage) -> None:
        """Take over and give up partitions of the offsets log; tell groups which topics there are, and are no more."""
        image = self.host.image
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

    def next_due_ms(self) -> int:
        """When the machine has something to do, or what waits for the lease may be taken."""
        return self._topic.next_due_ms or self._steady(self._machine.next_due_ms)

    def on_due(self) -> None:
        """Let the machine look after time, and take what has waited for the lease."""
        self.handle([Tick()])

    def close(self) -> None:
        """Stop to load."""
        self._topic.close()


def _as_event(message: Any) -> Any:  # noqa: ANN401 - an event, or a message that stands for one
    if type(message) is WriteGroupMarkers:
        return WriteMarkers(message.request_id, message.markers)
    return message


def _topics_of(image: MetadataImage) -> dict[str, tuple[bytes, int]]:
    """Give the topics that members may be assigned, each with its id and how many partitions it has."""
    return {
        topic.name: (topic.topic_id, len(topic.partitions)) for topic in image.topics.values() if not topic.is_internal
    }


def _runs(effects: list[LogOffsets | LogMarkers]) -> list[list[LogOffsets | LogMarkers]]:
    """Cut what is to be appended into runs of one kind and one epoch, in order."""
    runs: list[list[LogOffsets | LogMarkers]] = []
    for effect in effects:
        if runs and type(runs[-1][0]) is type(effect) and runs[-1][0].epoch == effect.epoch:
            runs[-1].append(effect)
        else:
            runs.append([effect])
    return runs


def _batch_of(effect: LogOffsets, now_ms: int) -> RecordBatch:
    records = [NewRecord(value, key=key, timestamp=now_ms) for key, value in effect.records]
    if effect.producer is None:
        raw = build_batch(records)
    else:
        raw = build_batch(
            records,
            producer_id=effect.producer.producer_id,
            producer_epoch=effect.producer.epoch,
            transactional=True,
        )
    (batch,) = split_batches(raw, verify_crc=False)
    return batch
