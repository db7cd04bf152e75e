"""What must always be so with topics that come and go, and with the directories of their replicas."""

import posixpath
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, PartitionLog
from eagleray.broker.log.names import DELETE_SUFFIX
from eagleray.broker.metadata.directories import partition_of
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.replication.partition import Partition
from tests.simulation.cluster.partition_watch import PartitionWatch
from tests.simulation.cluster.places import PASSING
from tests.simulation.schedule import Schedule, Violation

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness
    from tests.simulation.cluster.machine import SimulatedMachine


class PassingWatch:
    """Has the partitions watched of each topic that was created, until its deletion is in the metadata log."""

    def __init__(self, harness: "Harness", partitions: dict[TopicPartition, PartitionWatch]) -> None:
        self._harness = harness
        self._partitions = partitions
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._misled: set[bytes] = set()

    def misled(self, records: bytes) -> None:
        """A leader has taken a batch that has not heard yet that its topic was deleted.

        A producer names a topic, and not its id; so the batch may have been meant for one of the same name.
        """
        self._harness.schedule.fired["batch taken for a deleted topic"] += 1
        self._misled.add(records)

    def was_told(self, partition: TopicPartition, records: bytes, told: tuple[int, int, int], offset: int) -> None:
        """A producer was told that its batch of one record is safe."""
        if records not in self._misled:
            self._partitions[partition].was_told(told, 1, offset)

    def changed(self, after: MetadataImage) -> None:
        """Take another state of the metadata, which the quorum has committed."""
        gone = [each for each, topic_id in self._topic_ids.items() if after.topic_id(each.topic) != topic_id]
        for partition in gone:
            if self._topic_ids.pop(partition) not in after.deleted_topics:
                raise Violation(f"{partition} is gone, and no deletion of its topic was logged")
            del self._partitions[partition]
        for name in [each for each in after.topics if each.startswith(PASSING)]:
            topic = after.topics[name]
            for number in range(len(topic.partitions)):
                partition = TopicPartition(name, number)
                if partition not in self._topic_ids:
                    self._topic_ids[partition] = topic.topic_id
                    is_flushed = topic.configs["flush"] == Flush.COMMIT or len(self._harness.machines) > 1
                    watch = PartitionWatch if is_flushed else UnflushedWatch
                    self._partitions[partition] = watch(partition, self._harness.schedule)


class UnflushedWatch(PartitionWatch):
    """The invariants of a sole replica that acknowledges before it flushes.

    With the power it loses what it had not flushed. It says so, and how far it goes; and it loses nothing else.
    """

    def __init__(self, partition: TopicPartition, schedule: Schedule) -> None:
        super().__init__(partition, schedule)
        self._told_at: set[int] = set()
        self._flushed_end = -1
        """All before it was flushed when power was lost; -1 where none was since the log was last opened."""

    def was_told(self, told: tuple[int, int, int], count: int, base_offset: int) -> None:
        found = self.committed.get(base_offset)
        if found is not None and found.next_offset == base_offset + count:
            self._told_at.add(base_offset)
        elif base_offset < self.committed_end:
            self._fail(f"a producer was told {base_offset}, where {found} is")
        # Otherwise the power went before the answer came.

    def power_lost(self, log: PartitionLog | None) -> None:
        """The machine goes dark with a log, if it is open."""
        flushed_end = 0 if log is None else log.recovery_point
        self._flushed_end = max(self._flushed_end, flushed_end)

    def opened(self, log: PartitionLog, *, is_kept: bool) -> None:
        """A process has opened the log, and reported what it has lost, or an earlier one that died has kept it."""
        recovery, end_offset = log.recovery, log.log_end_offset
        flushed_end, self._flushed_end = self._flushed_end, -1
        if end_offset >= self.committed_end:
            return
        if flushed_end < 0:
            self._fail(f"its end at {self.committed_end} fell to {end_offset}, and no power was lost")
        if end_offset < flushed_end:
            self._fail(f"all before {flushed_end} was flushed, and the log ends at {end_offset}")
        was_cut_before = is_kept and not recovery.kept_files
        is_cut = was_cut_before or (recovery.verdict is not None and recovery.log_end_offset == end_offset)
        if not is_cut and recovery.uncertain_from != end_offset:
            self._fail(f"it has lost {end_offset} to {self.committed_end}, and says nothing of it: {recovery}")
        self._schedule.fired["unflushed end reported as cut" if is_cut else "unflushed end reported as uncertain"] += 1
        for base_offset in [each for each in self.committed if each >= end_offset]:
            del self.committed[base_offset]
            self.records.pop(base_offset, None)
            self._told_at.discard(base_offset)
        self.committed_end = end_offset
        self._last_base_offset = max(self.committed, default=-1)

    def check_in_sync(self, node_id: int, log: PartitionLog) -> None:
        """A sole replica is always in sync; `opened` has looked at what it has."""

    def look_at(
        self, node_id: int, incarnation: int, log: PartitionLog, replica: Partition | None, *, is_rotten: bool
    ) -> None:
        if self._flushed_end < 0:
            super().look_at(node_id, incarnation, log, replica, is_rotten=is_rotten)

    def finish(self, logs: Iterable[PartitionLog]) -> None:
        super().finish(logs)
        lost = [each for each in self._told_at if each not in self.committed]
        if lost:
            self._fail(f"producers were told {sorted(lost)}, where nothing is")


class DirectoryWatch:
    """Knows whose the directories of one machine are, whatever their files say, and that none goes without a reason.

    One that was opened for a topic goes when the deletion of the topic is in the metadata log, or when the replica is
    none of this machine's and others are in sync. Damaged files go when their copy is in sync.
    """

    def __init__(self, machine: "SimulatedMachine") -> None:
        self._machine = machine
        self._topic_ids: dict[str, bytes] = {}
        self._put_aside: list[tuple[str, bytes, bool]] = []
        """What was put aside, and not looked at since: directories, topic ids, and whether they were counted on."""

    def opened(self, directory: str, topic_id: bytes) -> None:
        """A log was opened in a directory, which a topic's replica has from now on."""
        self._topic_ids[directory] = topic_id

    def renamed(self, source: str, target: str) -> None:
        """A directory gets another name."""
        topic_id = self._topic_ids.pop(source, None)
        if topic_id is None:
            return
        self._topic_ids[target] = topic_id
        if target.endswith(DELETE_SUFFIX):
            self._machine.harness.schedule.fired["directory put aside"] += 1
            self._put_aside.append((source, topic_id, self._is_counted_on(source, topic_id)))

    def look_at(self) -> None:
        """See whether what was put aside might go, by the metadata that are committed by now."""
        put_aside, self._put_aside = self._put_aside, []
        for directory, topic_id, was_counted_on in put_aside:
            if was_counted_on and self._is_counted_on(directory, topic_id):
                raise Violation(f"node {self._machine.node_id} puts {directory} aside, which is counted on")

    def removed(self, path: str) -> None:
        """A directory and all that is in it is removed."""
        for directory in [each for each in self._topic_ids if each == path or each.startswith(f"{path}/")]:
            topic_id = self._topic_ids.pop(directory)
            if "/damaged/" in directory:
                self._check_has_copy(directory, topic_id)
            elif not directory.endswith(DELETE_SUFFIX):
                self._machine.harness.violate(Violation(f"{directory} is removed, and was not put aside"))

    def was_deleted(self, directory: str) -> bool:
        """Whether the topic that a directory was opened for is deleted."""
        return self._topic_ids.get(directory) in self._image.deleted_topics

    def deleted(self) -> list[str]:
        """What is still there of topics that are deleted."""
        deleted = self._image.deleted_topics
        return [directory for directory, topic_id in self._topic_ids.items() if topic_id in deleted]

    @property
    def _image(self) -> MetadataImage:
        return self._machine.harness.watch.image

    def _is_counted_on(self, directory: str, topic_id: bytes) -> bool:
        partition = partition_of(posixpath.basename(directory))
        state = None if partition is None else self._image.find(partition)
        if state is None or partition is None or topic_id in self._image.deleted_topics:
            return False
        return self._image.topic_id(partition.topic) == topic_id and self._machine.node_id in state.isr

    def _check_has_copy(self, directory: str, topic_id: bytes) -> None:
        """Damaged files may have the only copy of something until others have it for sure."""
        name = posixpath.basename(directory).partition(".")[0]
        partition = partition_of(name)
        state = None if partition is None else self._image.find(partition)
        if topic_id in self._image.deleted_topics or state is None or partition is None:
            return
        if self._image.topic_id(partition.topic) == topic_id and not state.isr:
            self._machine.harness.violate(Violation(f"{directory} is removed, and no replica is in sync: {state}"))
