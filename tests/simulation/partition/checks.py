"""What must always be so in a simulated world, looked at after every step, and what must be so in the end."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.log import AbortedTransaction, PartitionLog
from eagleray.protocol.records import RecordBatch
from tests.simulation.committed import Committed, committed_of
from tests.simulation.schedule import Violation
from tests.support.batches import whole_batches

if TYPE_CHECKING:
    from tests.simulation.partition.harness import PartitionHarness
    from tests.simulation.partition.node import SimulatedNode


class _Watch:
    """What was last seen of one process of a node."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.high_watermark = log.high_watermark
        self.start_offset = log.log_start_offset
        self.checked_offset = log.log_start_offset
        self.leader_epoch = -1
        self.incarnation = -1


class Checks:
    """The invariants of one world, and the history that they are about."""

    def __init__(self, harness: "PartitionHarness") -> None:
        self._harness = harness
        self.committed: dict[int, Committed] = {}
        self.committed_end = 0
        self._last_base_offset = -1
        self._ack_epoch = -1
        self._acknowledging: dict[int, int] = {}
        self._told: dict[tuple[int, int, int], int] = {}
        self._decided: dict[tuple[int, int], bool] = {}
        self._watches: dict[int, _Watch] = {}

    # What happens

    def acknowledged(self, node_id: int, leader_epoch: int, base_offset: int) -> None:
        """A leader tells a producer that its batch is safe."""
        if leader_epoch < self._ack_epoch:
            raise Violation(
                f"two leaders: node {node_id} acknowledges at epoch {leader_epoch}, after one of {self._ack_epoch} did"
            )
        self._ack_epoch = leader_epoch
        if self._acknowledging.setdefault(leader_epoch, node_id) != node_id:
            raise Violation(f"two nodes acknowledge at leader epoch {leader_epoch}")
        self._look_at(self._harness.nodes[node_id])
        if base_offset >= self.committed_end:
            raise Violation(f"node {node_id} acknowledges offset {base_offset} beyond its high watermark")

    def decided(self, producer_id: int, producer_epoch: int, *, commits: bool) -> None:
        """A transaction's coordinator has decided, and is about to write a marker, until it is there."""
        self._decided[producer_id, producer_epoch] = commits

    def was_told(self, told: tuple[int, int, int], count: int, base_offset: int) -> None:
        """A producer was told that its batch, by producer, epoch and sequence, is safe."""
        self._told[told] = base_offset
        found = self.committed.get(base_offset)
        if found is None or (found.key, found.next_offset) != (told, base_offset + count):
            raise Violation(f"a producer was told {base_offset} for {told}, where {found} is")

    def was_read(self, batch: RecordBatch, aborted: Iterable[AbortedTransaction]) -> None:
        """A consumer that reads committed records was given a batch, and whose records to leave out."""
        found, base_offset = committed_of(batch), batch.header.base_offset
        if self.committed.get(base_offset) != found:
            raise Violation(f"a consumer read at {base_offset} what is not committed there")
        if found.commits is not None or not found.is_transactional:
            return
        commits = self._decided.get((found.producer_id, found.producer_epoch))
        is_left_out = any(
            each.producer_id == found.producer_id and each.first_offset <= base_offset <= each.last_offset
            for each in aborted
        )
        if commits is None or commits is is_left_out:
            raise Violation(f"a consumer was shown {found}, decided: {commits}, to be left out: {is_left_out}")

    def state_changed(self, before: PartitionImage, after: PartitionImage) -> None:
        """The controller has logged another state of the partition."""
        fired = self._harness.schedule.fired
        if after.leader_epoch < before.leader_epoch or after.partition_epoch < before.partition_epoch:
            raise Violation(f"an epoch fell: {before} became {after}")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            raise Violation(f"two leaders have epoch {after.leader_epoch}: {before.leader} and {after.leader}")
        fired["in-sync set shrunk"] += len(after.isr) < len(before.isr)
        fired["in-sync set grown"] += len(after.isr) > len(before.isr)
        fired["leader elected"] += after.leader not in (NO_NODE, before.leader)
        fired["partition without a leader"] += after.leader == NO_NODE != before.leader
        fired["move completed"] += bool(before.removing) and not after.removing

    # After every step

    def step(self) -> None:
        for node in self._harness.nodes.values():
            if node.log is not None:
                self._look_at(node)
        self._check_in_sync()

    def _look_at(self, node: "SimulatedNode") -> None:
        log = node.log
        assert log is not None
        watch = self._watches.get(node.node_id)
        if watch is None or watch.log is not log or log.log_start_offset < watch.start_offset:
            # It is a new process, or its log has lost everything and begins anew.
            watch = self._watches[node.node_id] = _Watch(log)
        if not log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset:
            raise Violation(f"node {node.node_id}: the offsets of its log are out of order")
        if log.high_watermark < watch.high_watermark:
            raise Violation(
                f"node {node.node_id}: the high watermark fell from {watch.high_watermark} to {log.high_watermark}"
            )
        watch.high_watermark, watch.start_offset = log.high_watermark, log.log_start_offset
        self._look_at_epoch(node, watch)
        self._look_at_new(node, watch)

    def _look_at_epoch(self, node: "SimulatedNode", watch: _Watch) -> None:
        if node.replica is None:
            return
        if watch.incarnation == node.incarnation and node.replica.leader_epoch < watch.leader_epoch:
            raise Violation(f"node {node.node_id}: its leader epoch fell")
        watch.incarnation, watch.leader_epoch = node.incarnation, node.replica.leader_epoch

    def _look_at_new(self, node: "SimulatedNode", watch: _Watch) -> None:
        """Compare what has come below a replica's high watermark with what all others have there."""
        log = watch.log
        offset = max(watch.checked_offset, log.log_start_offset)
        while offset < log.high_watermark:
            for batch in whole_batches(log.read_for_replica(offset, max_bytes=2**20)):
                if batch.header.next_offset <= log.high_watermark:
                    self._commit(node.node_id, batch)
                    offset = batch.header.next_offset
                else:
                    offset = max(offset, log.high_watermark)
        watch.checked_offset = offset

    def _commit(self, node_id: int, batch: RecordBatch) -> None:
        base_offset, found = batch.header.base_offset, committed_of(batch)
        if base_offset >= self.committed_end:
            self.committed[base_offset] = found
            self.committed_end = found.next_offset
            self._last_base_offset = base_offset
        elif self.committed.get(base_offset) != found:
            raise Violation(
                f"node {node_id} has {found} below its high watermark at {base_offset}, where "
                f"{self.committed.get(base_offset)} was committed"
            )

    def _check_in_sync(self) -> None:
        """Each replica that may be elected has everything that was ever committed."""
        if not self.committed:
            return
        image = self._harness.controller.image
        last = self.committed[self._last_base_offset]
        for node_id in self._harness.controller.state.isr:
            node = self._harness.nodes[node_id]
            registered = image.nodes.get(node_id)
            if node.log is None or registered is None or registered.incarnation != node.incarnation:
                continue
            log = node.log
            has_it = log.log_end_offset >= self.committed_end
            if has_it and log.log_start_offset < self.committed_end:
                has_it = log.epochs.epoch_at(self.committed_end - 1) == last.epoch
            if not has_it:
                raise Violation(f"node {node_id} is in sync, but lacks committed offsets up to {self.committed_end}")

    # In the end

    def finish(self) -> None:
        """After healing: all logs are equal, everything told is there, and nothing is there twice."""
        logs = [node.log for node in self._harness.keepers()]
        contents = [_contents(log, max(each.log_start_offset for each in logs if each)) for log in logs if log]
        if any(content != contents[0] for content in contents):
            raise Violation("the logs differ in the end")
        seen: dict[tuple[int, int, int], int] = {}
        for base_offset, found in self.committed.items():
            if found.commits is None and found.key in seen:
                raise Violation(f"batch {found.key} is at {seen[found.key]} and at {base_offset}")
            seen[found.key] = base_offset
        if any(seen.get(key) != offset for key, offset in self._told.items()):
            raise Violation("a batch that a producer was told of is not where it was")


def _contents(log: PartitionLog, start_offset: int) -> tuple[int, bytes]:
    data, offset = b"", start_offset
    while offset < log.log_end_offset:
        batches = whole_batches(log.read_for_replica(offset, max_bytes=2**20))
        data += b"".join(bytes(batch.view) for batch in batches)
        offset = batches[-1].header.next_offset
    return log.log_end_offset, data
