"""What must always be so with a partition that is compacted: what is left of it comes to the same as all of it."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, PartitionLog
from eagleray.broker.replication.partition import Partition
from eagleray.protocol.records import RecordBatch, scan_batches
from tests.simulation.cluster.partition_watch import READ_BYTES, PartitionWatch, kept_of
from tests.simulation.committed import Committed
from tests.simulation.schedule import Schedule

Replay = Callable[[Iterable[RecordBatch]], Any]


class CompactedWatch(PartitionWatch):
    """The invariants of a coordinator's partition. Replicas compact it each for itself, so that no two are equal.

    `batches` has everything that was ever committed, as it was written. What a replica in sync has left of it is looked
    at again whenever a compaction has come to its end there, a process has opened it, or something has been elected or
    taken in. One that is not in sync may be about to be given what takes the place of what it never got.
    """

    def __init__(self, partition: TopicPartition, schedule: Schedule, replay: Replay) -> None:
        super().__init__(partition, schedule)
        self._replay = replay
        self.batches: dict[int, RecordBatch] = {}
        self._cleaned_up_to: dict[int, int] = {}
        self._looked_at: dict[int, tuple[object, ...]] = {}

    def look_at(
        self, node_id: int, incarnation: int, log: PartitionLog, replica: Partition | None, *, is_rotten: bool
    ) -> None:
        super().look_at(node_id, incarnation, log, replica, is_rotten=is_rotten)
        self._schedule.fired["log compacted"] += log.cleaned_up_to > self._cleaned_up_to.get(node_id, 0)
        self._cleaned_up_to[node_id] = log.cleaned_up_to

    def check_in_sync(self, node_id: int, log: PartitionLog) -> None:
        super().check_in_sync(node_id, log)
        now = log, log.segments[0], log.cleaned_up_to, self.state
        if log.is_online and self._looked_at.get(node_id) != now:
            self._looked_at[node_id] = now
            self._check_state(f"node {node_id}", log)

    def _note(self, base_offset: int, batch: RecordBatch) -> None:
        super()._note(base_offset, batch)
        self.batches[base_offset] = batch

    def _is_same(self, base_offset: int, batch: RecordBatch, found: Committed) -> bool:
        """A compaction takes records away, and changes nothing else that counts."""
        known = self.committed.get(base_offset)
        if known is None or msgspec.structs.replace(found, crc=known.crc) != known:
            return False
        return known.crc == found.crc or found.commits is not None or self._is_part(base_offset, batch)

    def _is_part(self, base_offset: int, batch: RecordBatch) -> bool:
        return set(kept_of(batch)) <= set(self.records[base_offset])

    def _check_state(self, whose: str, log: PartitionLog) -> None:
        """A coordinator that loaded this log would know what one knows that loads all that was ever committed."""
        left = _batches_of(log, self.committed_end)
        if left is None:
            # Bits have rotted; the node itself has to find this.
            return
        wanted, found = self._replay(self.batches.values()), self._replay(left)
        if found != wanted:
            self._fail(f"{whose}: its log up to {self.committed_end} comes to {found} instead of {wanted}")

    def finish(self, logs: Iterable[PartitionLog]) -> None:
        """After healing: all logs come to the same."""
        for number, log in enumerate(logs):
            self._check_state(f"replica {number} in the end", log)


def _batches_of(log: PartitionLog, end_offset: int) -> list[RecordBatch] | None:
    """What is left of a log up to an offset; None where it is damaged."""
    batches: list[RecordBatch] = []
    offset = log.log_start_offset
    while offset < end_offset:
        try:
            scan = scan_batches(log.read_for_replica(offset, max_bytes=READ_BYTES))
        except LogDamaged:
            return None
        if not scan.batches:
            return None
        batches += scan.batches
        offset = scan.batches[-1].header.next_offset
    return [batch for batch in batches if batch.header.next_offset <= end_offset]
