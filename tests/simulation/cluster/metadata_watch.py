"""What must always be so with the quorum that keeps the metadata, and the metadata as it has committed them."""

from typing import TYPE_CHECKING

from eagleray.actors.roles.controller import ControllerRole
from eagleray.broker.log import PartitionLog
from eagleray.broker.metadata import log_records
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.quorum.member import QuorumMember
from tests.simulation.cluster.partition_watch import READ_BYTES
from tests.simulation.schedule import Violation
from tests.support.batches import whole_batches

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness
    from tests.simulation.cluster.machine import SimulatedMachine


class MetadataWatch:
    """The invariants of the quorum. `image` is what all that it has ever committed leads to."""

    def __init__(self, harness: "Harness") -> None:
        self._harness = harness
        self.image: MetadataImage = EMPTY_IMAGE
        self.committed: dict[int, tuple[int, int, int]] = {}
        self.committed_end = 0
        self._deciding_term = -1
        self._leaders: dict[int, int] = {}
        self._terms: dict[int, int] = {}
        self._checked: dict[int, tuple[PartitionLog, int]] = {}

    def decides(self, machine: "SimulatedMachine") -> None:
        """A controller answers as such; no earlier one may do that after it."""
        if machine.backups.are_in_place:
            return
        role = machine.role(ControllerRole)
        assert role is not None
        term = role._quorum._member.term
        if term < self._deciding_term:
            raise Violation(f"node {machine.node_id} decides in term {term}, after one of {self._deciding_term} did")
        self._deciding_term = term

    def replaced(self, node_id: int) -> None:
        """A voter has lost everything, and what it knew of terms with it."""
        self._terms.pop(node_id, None)

    def look_at(self, machine: "SimulatedMachine") -> None:
        role = machine.role(ControllerRole)
        if role is None or machine.backups.are_in_place:
            return
        member, log = role._quorum._member, role._quorum._log
        self._look_at_member(machine.node_id, member)
        known, checked_offset = self._checked.get(machine.node_id, (None, 0))
        if known is not log:
            checked_offset = 0
        elif log.high_watermark < checked_offset:
            raise Violation(f"node {machine.node_id}: committed metadata shrank from {checked_offset}")
        if log.high_watermark > checked_offset:
            self._look_at_new(machine.node_id, log, checked_offset)
        self._checked[machine.node_id] = log, log.high_watermark
        if role._state_machine is not None and role._state_machine.image.version > self.image.version:
            raise Violation(f"node {machine.node_id} publishes metadata that are not committed")
        if role._state_machine is not None and member.holds(machine.clock.now_ms()):
            self._look_at_holder(machine)

    def _look_at_member(self, node_id: int, member: QuorumMember) -> None:
        if member.term < self._terms.get(node_id, 0):
            raise Violation(f"node {node_id}: its term fell")
        self._terms[node_id] = member.term
        if member.is_leader and self._leaders.setdefault(member.term, node_id) != node_id:
            raise Violation(f"nodes {self._leaders[member.term]} and {node_id} both lead in term {member.term}")

    def _look_at_holder(self, machine: "SimulatedMachine") -> None:
        """The controller that decides is alone with it."""
        for other in self._harness.machines.values():
            role = None if other is machine else other.role(ControllerRole)
            if role is not None and role._quorum._member.holds(other.clock.now_ms()):
                raise Violation(f"nodes {machine.node_id} and {other.node_id} are both the controller")

    def _look_at_new(self, node_id: int, log: PartitionLog, offset: int) -> None:
        offset = max(offset, log.log_start_offset)
        while offset < log.high_watermark:
            for batch in whole_batches(log.read_for_replica(offset, max_bytes=READ_BYTES)):
                header = batch.header
                offset = header.next_offset
                if offset > log.high_watermark:
                    continue
                found = (header.next_offset, header.partition_leader_epoch, header.crc)
                if header.base_offset >= self.committed_end:
                    self.committed[header.base_offset] = found
                    self.committed_end = header.next_offset
                    values = [bytes(record.value) for record in batch.records() if record.value is not None]
                    self._apply(log_records.replay(values, self.image))
                elif self.committed.get(header.base_offset) != found:
                    raise Violation(
                        f"node {node_id} has {found} committed at {header.base_offset} of the metadata, where "
                        f"{self.committed.get(header.base_offset)} was"
                    )

    def _apply(self, image: MetadataImage) -> None:
        before, self.image = self.image, image
        self._harness.watch.metadata_changed(before, image)
