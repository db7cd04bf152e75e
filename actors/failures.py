"""Logs of a node that have failed, or that its disk has damaged, and what that costs."""

from __future__ import annotations

import logging

from eagleray.actors.disk import PartitionLocked
from eagleray.actors.logs import Logs
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.losses import Fate, Loss
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogError

_log = logging.getLogger(__name__)


class Failures:
    """Says of the logs of a node which of them others can count on no longer, when a life of it begins.

    Owns: what has failed or was found damaged. Persists: nothing; what is said is told to the controller by the life
    that begins. A log that has failed is opened again. One that cannot be, or ends before it did, is lost; otherwise it
    is in doubt, and left to others in sync where there are some. A damaged one is lost until it was dropped.
    """

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._failed: set[TopicPartition] = set()
        self.damaged: set[TopicPartition] = set()

    def failed(self, partition: TopicPartition) -> None:
        """Note that a log did not do what it was asked to; one that is offline need not be named."""
        self._failed.add(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Note that a log is gone, and all that was wrong with it."""
        self._failed.discard(partition)
        self.damaged.discard(partition)

    def lost(self, image: MetadataImage, now_ms: int) -> Loss:
        """Open again what has failed, close what is damaged, and say what is lost."""
        failed = self._all_failed()
        self._failed.clear()
        whole = {each for each in failed - self.damaged if self._is_whole_again(each, image, now_ms)}
        for partition in self.damaged:
            if partition in self._logs:
                self._logs.close(partition)
        return Loss(tuple(sorted(self.damaged | failed - whole)), tuple(sorted(whole)))

    def are_more_than(self, told: Loss) -> bool:
        """Whether something has failed of which the controller was not told when this life registered."""
        return bool(self._all_failed()) or any(told.of(each) is not Fate.LOST for each in self.damaged)

    def _all_failed(self) -> set[TopicPartition]:
        return self._failed | {partition for partition in self._logs if not self._logs[partition].is_online}

    def _is_whole_again(self, partition: TopicPartition, image: MetadataImage, now_ms: int) -> bool:
        """Open a log again, and see whether it has what it had."""
        topic = image.topics.get(partition.topic)
        if topic is None or partition not in self._logs:
            return False
        end_offset = self._logs[partition].log_end_offset
        self._logs.close(partition)
        try:
            log = self._logs.open(partition, topic.configs, topic.topic_id, now_ms=now_ms)
        except (PartitionLocked, LogError, OSError) as error:
            _log.error("%s cannot be opened again: %s", partition, error)
            return False
        return log.log_end_offset >= end_offset
