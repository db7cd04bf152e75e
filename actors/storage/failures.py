"""Failed and damaged logs of a node, and what an incarnation has lost by them."""

from __future__ import annotations

import logging

from eagleray.actors.storage.disk import PartitionLocked
from eagleray.actors.storage.log_manager import LogManager
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogError, Surroundings
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.losses import Fate, Loss
from eagleray.broker.metadata.topics import PartitionImage

_log = logging.getLogger(__name__)


class Failures:
    """Says which logs of a node can no longer be counted on when an incarnation of it starts.

    Owns: what has failed or was found damaged. Persists: nothing; the incarnation that starts reports it to the
    controller. A log that has failed is opened again. One that cannot be, or ends before it did, is lost; otherwise it
    is in doubt, and other replicas in sync take over where there are some. A damaged one is lost until it was dropped.
    """

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._failed: set[TopicPartition] = set()
        self.damaged: set[TopicPartition] = set()
        self.served: dict[TopicPartition, str] = {}
        """Partitions that are damaged and go on serving, because no other replica is in sync; and what is wrong."""
        self.strays: set[TopicPartition] = set()
        """Partitions whose directories are not theirs: lost here as long as that is so, and left as they are."""

    def failed(self, partition: TopicPartition) -> None:
        """Note that a log has failed; one that is offline need not be named."""
        self._failed.add(partition)

    def strayed(self, partition: TopicPartition, why: str, state: PartitionImage | None, node_id: int) -> bool:
        """Note that a directory is not the partition's; return whether that has to be reported, as a loss.

        It does not where it was before, nor where no other replica is in sync to take over.
        """
        if partition in self.strays:
            return False
        _log.error("%s", why)
        self.strays.add(partition)
        return state is not None and node_id in state.isr and state.isr != (node_id,)

    def forget(self, partition: TopicPartition) -> None:
        """Note that a log is gone, and with it all that was wrong with it."""
        self._failed.discard(partition)
        self.damaged.discard(partition)
        self.served.pop(partition, None)
        self.strays.discard(partition)

    def lost(self, image: MetadataImage, now_ms: int) -> Loss:
        """Open again what has failed, close what is damaged, and return what is lost."""
        failed = self._all_failed()
        self._failed.clear()
        whole = {each for each in failed - self.damaged if self._is_whole_again(each, image, now_ms)}
        for partition in self.damaged:
            if partition in self._logs:
                self._logs.close(partition)
        return Loss(tuple(sorted(self.damaged | self.strays | failed - whole)), tuple(sorted(whole)))

    def are_more_than(self, told: Loss) -> bool:
        """Whether something has failed that was not reported when this incarnation registered."""
        return bool(self._all_failed()) or any(told.of(each) is not Fate.LOST for each in self.damaged | self.strays)

    def _all_failed(self) -> set[TopicPartition]:
        return self._failed | {partition for partition in self._logs if not self._logs[partition].is_online}

    def _is_whole_again(self, partition: TopicPartition, image: MetadataImage, now_ms: int) -> bool:
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


def surroundings_of(state: PartitionImage, node_id: int) -> Surroundings:
    """What the metadata tells of a replica that is about to be opened."""
    return Surroundings(
        others_in_sync=any(other != node_id for other in state.isr),
        is_counted_on=node_id in state.isr,
        latest_epoch=state.leader_epoch,
    )
