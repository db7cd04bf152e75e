"""What must always be so with one partition, and the history of it."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from eagleray.broker.identities import LAST_EPOCH, TopicPartition
from eagleray.broker.log import LogDamaged, LogError, PartitionLog
from eagleray.broker.log.segment import Segment
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.partition import Partition
from eagleray.protocol.records import RecordBatch, scan_batches
from tests.simulation.committed import Committed, committed_of
from tests.simulation.schedule import Schedule, Violation
from tests.support.batches import whole_batches

READ_BYTES = 2**20


class Kept(msgspec.Struct, frozen=True):
    """A record as it is in the log."""

    offset: int
    key: bytes | None
    value: bytes | None


class _Seen:
    """What was last seen of a log in one process of a node."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.high_watermark = log.high_watermark
        self.start_offset = log.log_start_offset
        self.checked_offset = log.log_start_offset
        self.leader_epoch = -1
        self.incarnation = -1


class PartitionWatch:
    """The invariants of one partition. `committed` has every batch that was ever below a high watermark."""

    def __init__(self, partition: TopicPartition, schedule: Schedule) -> None:
        self.partition = partition
        self._schedule = schedule
        self.state: PartitionImage | None = None
        self.committed: dict[int, Committed] = {}
        self.records: dict[int, tuple[Kept, ...]] = {}
        self.markers: set[tuple[int, int, bool]] = set()
        self.committed_end = 0
        self.new: list[int] = []
        """The base offsets of what was committed since the watch has last looked at them."""
        self._last_base_offset = -1
        self._producer_epochs: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        self._ack_epoch = -1
        self._seen: dict[int, _Seen] = {}
        self._told: dict[tuple[int, int, int], int] = {}

    def _fail(self, message: str) -> None:
        raise Violation(f"{self.partition}: {message}")

    # What the controller says

    def changed(self, after: PartitionImage) -> None:
        """Take another state of the partition, which the quorum has committed."""
        before, self.state = self.state, after
        if before is None:
            return
        fired = self._schedule.fired
        if after.leader_epoch < before.leader_epoch or after.partition_epoch < before.partition_epoch:
            self._fail(f"an epoch fell: {before} became {after}")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            self._fail(f"two leaders have epoch {after.leader_epoch}: {before.leader} and {after.leader}")
        if not set(after.isr) <= set(after.replicas) or (after.leader != NO_NODE and after.leader not in after.isr):
            self._fail(f"the leader, or one in sync, keeps it not: {after}")
        fired["in-sync set shrunk"] += len(after.isr) < len(before.isr)
        fired["in-sync set grown"] += len(after.isr) > len(before.isr)
        fired["leader elected"] += after.leader not in (NO_NODE, before.leader)
        fired["partition without a leader"] += after.leader == NO_NODE != before.leader
        fired["move completed"] += bool(before.removing or before.adding) and not (after.removing or after.adding)

    # What leaders, producers and consumers say

    def acknowledged(self, node_id: int, leader_epoch: int, base_offset: int) -> None:
        """A leader says that a batch is safe."""
        if leader_epoch < self._ack_epoch:
            self._fail(f"node {node_id} acknowledges at epoch {leader_epoch}, after one of {self._ack_epoch} did")
        self._ack_epoch = leader_epoch
        self.leads(node_id, leader_epoch)
        if base_offset >= self.committed_end:
            self._fail(f"node {node_id} acknowledges offset {base_offset} beyond its high watermark")

    def leads(self, node_id: int, leader_epoch: int) -> None:
        if self._leaders.setdefault(leader_epoch, node_id) != node_id:
            self._fail(f"nodes {self._leaders[leader_epoch]} and {node_id} lead at epoch {leader_epoch}")

    def was_told(self, told: tuple[int, int, int], count: int, base_offset: int) -> None:
        """A producer was told that its batch, by producer, epoch and sequence, is safe."""
        found = self.committed.get(base_offset)
        if found is None or (found.key, found.next_offset) != (told, base_offset + count):
            self._fail(f"a producer was told {base_offset} for {told}, where {found} is")
        self._told[told] = base_offset

    def ended_by(self, base_offset: int) -> bool | None:
        """Whether a batch is committed by the first marker of its producer behind it; None where there is none."""
        producer_id = self.committed[base_offset].producer_id
        return next(
            (
                found.commits
                for offset, found in self.committed.items()
                if offset > base_offset and found.producer_id == producer_id and found.commits is not None
            ),
            None,
        )

    def found(self, batch: RecordBatch) -> Committed:
        """A consumer was given a batch."""
        found, base_offset = committed_of(batch), batch.header.base_offset
        if self.committed.get(base_offset) != found:
            self._fail(f"a consumer read at {base_offset} what is not committed there")
        return found

    # After every step

    def look_at(
        self, node_id: int, incarnation: int, log: PartitionLog, replica: Partition | None, *, is_rotten: bool
    ) -> None:
        seen = self._seen.get(node_id)
        if seen is None or seen.log is not log or log.log_start_offset < seen.start_offset:
            # It is a new process, or its log has lost everything and begins anew.
            seen = self._seen[node_id] = _Seen(log)
        if not log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset:
            self._fail(f"node {node_id}: the offsets of its log are out of order")
        if log.high_watermark < seen.high_watermark:
            self._fail(f"node {node_id}: the high watermark fell from {seen.high_watermark} to {log.high_watermark}")
        seen.high_watermark, seen.start_offset = log.high_watermark, log.log_start_offset
        if replica is not None:
            if seen.incarnation == incarnation and replica.leader_epoch < seen.leader_epoch:
                self._fail(f"node {node_id}: its leader epoch fell")
            seen.incarnation, seen.leader_epoch = incarnation, replica.leader_epoch
            if replica.leader is not None:
                self.leads(node_id, replica.leader.leader_epoch)
        if seen.checked_offset < log.high_watermark:
            self._look_at_new(node_id, seen, is_rotten=is_rotten)

    def _look_at_new(self, node_id: int, seen: _Seen, *, is_rotten: bool) -> None:
        """Compare what has come below a replica's high watermark with what the other replicas have there."""
        log = seen.log
        if not log.is_online:
            # Its disk has failed; the node is about to notice.
            return
        offset = max(seen.checked_offset, log.log_start_offset)
        while offset < log.high_watermark:
            try:
                scan = scan_batches(log.read_for_replica(offset, max_bytes=READ_BYTES))
            except LogError:
                scan = scan_batches(bytes(100))
            in_place = _in_place(scan.batches, offset)
            is_damaged = len(in_place) < len(scan.batches) or (scan.stopped_by is not None and not scan.missing_bytes)
            for batch in in_place:
                if batch.header.next_offset <= log.high_watermark:
                    self._commit(node_id, batch)
                    offset = batch.header.next_offset
                else:
                    offset = max(offset, log.high_watermark)
            if is_damaged or not scan.batches:
                if not is_rotten:
                    self._fail(f"node {node_id} has a damaged batch after {offset}, and a disk that has not rotted")
                # The node itself has to find this. What is new may lie behind it.
                offset = max(offset, self.committed_end if offset < self.committed_end else log.high_watermark)
        seen.checked_offset = offset

    def _commit(self, node_id: int, batch: RecordBatch) -> None:
        base_offset, found = batch.header.base_offset, committed_of(batch)
        if base_offset >= self.committed_end:
            self.committed[base_offset] = found
            self.committed_end = found.next_offset
            self._last_base_offset = base_offset
            self.new.append(base_offset)
            if found.producer_id >= 0:
                self._producer_epochs[found.producer_id] = found.producer_epoch
            self._note(base_offset, batch)
        elif not self._is_same(base_offset, batch, found):
            self._fail(
                f"node {node_id} has {found} below its high watermark at {base_offset}, where "
                f"{self.committed.get(base_offset)} was committed"
            )

    def _note(self, base_offset: int, batch: RecordBatch) -> None:
        """Remember what is in a batch that is committed now."""
        found = self.committed[base_offset]
        if found.commits is None:
            self.records[base_offset] = tuple(kept_of(batch))
        else:
            self.markers.add((found.producer_id, found.producer_epoch, found.commits))

    def _is_same(self, base_offset: int, batch: RecordBatch, found: Committed) -> bool:
        """Whether a replica has what was committed at an offset."""
        return self.committed.get(base_offset) == found

    def check_in_sync(self, node_id: int, log: PartitionLog) -> None:
        """A replica that may be elected has everything that was ever committed, and knows who wrote it.

        One that does not know a producer would refuse what it goes on with, or take what it has already.
        """
        if not self.committed:
            return
        has_it = log.log_end_offset >= self.committed_end
        if has_it and log.log_start_offset < self.committed_end:
            has_it = log.epochs.epoch_at(self.committed_end - 1) == self.committed[self._last_base_offset].epoch
        if not has_it:
            self._fail(f"node {node_id} is in sync, but lacks committed offsets up to {self.committed_end}")
        for producer_id, epoch in self._producer_epochs.items():
            entry = log.producers.get(producer_id)
            if entry is None and (epoch == LAST_EPOCH or self._has_ended(log, producer_id)):
                # Partitions forget it, and whatever may still come in its name is over.
                continue
            if entry is None or entry.epoch < epoch:
                self._fail(f"node {node_id} is in sync, but does not know epoch {epoch} of producer {producer_id}")

    def _has_ended(self, log: PartitionLog, producer_id: int) -> bool:
        """Whether a replica has the last marker of a producer behind what is committed."""
        return any(
            header.producer_id == producer_id and header.producer_epoch == LAST_EPOCH
            for segment in log.segments
            for _, header in segment.headers()
            if header.base_offset >= self.committed_end
        )

    # In the end

    def finish(self, logs: Iterable[PartitionLog]) -> None:
        """After healing: all logs are equal, everything told is there, and nothing is there twice."""
        logs = list(logs)
        start_offset = max(log.log_start_offset for log in logs)
        contents = [_contents(log, start_offset) for log in logs]
        if any(content != contents[0] for content in contents):
            self._fail("the logs differ in the end")
        seen: dict[tuple[int, int, int], int] = {}
        for base_offset, found in self.committed.items():
            if found.commits is None and found.producer_id >= 0:
                if found.key in seen:
                    self._fail(f"batch {found.key} is at {seen[found.key]} and at {base_offset}")
                seen[found.key] = base_offset
        if any(seen.get(key) != offset for key, offset in self._told.items()):
            self._fail("a batch that a producer was told of is not where it was")


def _in_place(batches: Iterable[RecordBatch], offset: int) -> list[RecordBatch]:
    """Return the batches up to the first whose offset is not behind those before it; no checksum covers it."""
    placed: list[RecordBatch] = []
    for batch in batches:
        if batch.header.next_offset <= offset or (placed and batch.header.base_offset < offset):
            break
        placed.append(batch)
        offset = batch.header.next_offset
    return placed


def kept_of(batch: RecordBatch) -> Iterator[Kept]:
    for record in batch.records():
        key, value = record.key, record.value
        yield Kept(record.offset, None if key is None else bytes(key), None if value is None else bytes(value))


def is_damaged(log: PartitionLog) -> bool:
    """Whether a log holds what was never written to it, or lacks the end of a segment."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            scan = scan_batches(log.read_for_replica(offset, max_bytes=READ_BYTES))
        except LogDamaged:
            # What a disk was said to have flushed is gone, and no batch begins where the index of the segment says.
            return True
        if not scan.batches:
            return True
        offset = scan.batches[-1].header.next_offset
    return any(_lacks_its_end(segment, following) for segment, following in pairwise(log.segments))


def _lacks_its_end(segment: Segment, following: Segment) -> bool:
    last = segment.last_location()
    return (segment.base_offset if last is None else last.last_offset + 1) != following.base_offset


def _contents(log: PartitionLog, start_offset: int) -> tuple[int, bytes]:
    data, offset = b"", start_offset
    while offset < log.log_end_offset:
        batches = whole_batches(log.read_for_replica(offset, max_bytes=READ_BYTES))
        data += b"".join(bytes(batch.view) for batch in batches)
        offset = batches[-1].header.next_offset
    return log.log_end_offset, data
