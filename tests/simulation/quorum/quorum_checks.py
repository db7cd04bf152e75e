"""What must always be so in a simulated quorum, looked at after every step, and what must be so in the end."""

from typing import TYPE_CHECKING

from eagleray.broker.log import PartitionLog
from eagleray.broker.quorum.events import VoteAnswered
from eagleray.protocol.records import RecordBatch
from tests.simulation.schedule import Violation
from tests.support.batches import whole_batches

if TYPE_CHECKING:
    from tests.simulation.quorum.quorum_harness import QuorumHarness
    from tests.simulation.quorum.voter import SimulatedVoter


class QuorumChecks:
    """The invariants of one quorum, and the history that they are about."""

    def __init__(self, harness: "QuorumHarness") -> None:
        self._harness = harness
        self.committed: dict[int, tuple[int, int, int]] = {}
        self.committed_end = 0
        self.acknowledged_end = 0
        self.acknowledgements = 0
        self._acknowledged: dict[int, bytes] = {}
        self._values: dict[int, bytes] = {}
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        self._terms: dict[int, int] = {}
        self._checked: dict[int, tuple[PartitionLog, int, int]] = {}

    # What happens

    def elected(self, voter: "SimulatedVoter", term: int) -> None:
        self._harness.schedule.fired["leader elected"] += 1
        if self._leaders.setdefault(term, voter.node_id) != voter.node_id:
            raise Violation(f"nodes {self._leaders[term]} and {voter.node_id} were both elected in term {term}")
        self._harness.elected(voter)
        log = voter.log
        assert log is not None
        if log.log_end_offset < self.committed_end:
            raise Violation(f"node {voter.node_id} leads with {log.log_end_offset} of {self.committed_end} entries")

    def replaced(self, node_id: int) -> None:
        """A voter has lost everything, also what it has voted for; its votes count for less until it has caught up."""
        self._terms.pop(node_id, None)
        self._votes = {cast: candidate for cast, candidate in self._votes.items() if cast[1] != node_id}

    def voted(self, candidate: int, vote: VoteAnswered) -> None:
        if not vote.is_granted or vote.is_pre_vote:
            return
        if self._votes.setdefault((vote.asked_term, vote.voter), candidate) != candidate:
            raise Violation(f"node {vote.voter} voted twice in term {vote.asked_term}")

    def acknowledged(self, voter: "SimulatedVoter", offset: int, value: bytes) -> None:
        """A leader tells a client that a value is there for good."""
        self._look_at(voter)
        if offset >= self.committed_end or self._values[offset] != value:
            raise Violation(f"node {voter.node_id} acknowledges {value!r} at {offset}, where something else is")
        self._acknowledged[offset] = value
        self.acknowledged_end = max(self.acknowledged_end, offset + 1)
        self.acknowledgements += 1
        self._harness.schedule.fired["value acknowledged"] += 1

    # After every step

    def step(self) -> None:
        voters = self._harness.voters.values()
        for voter in voters:
            if voter.log is not None:
                self._look_at(voter)
        holders = [voter for voter in voters if voter.holds()]
        if len(holders) > 1:
            raise Violation(f"two hold at once: {[voter.node_id for voter in holders]}")
        for voter in holders:
            member = voter.member
            if member is not None and member.is_settled and member.committed_offset < self.acknowledged_end:
                raise Violation(f"node {voter.node_id} holds, and does not know what was acknowledged")

    def _look_at(self, voter: "SimulatedVoter") -> None:
        log, member = voter.log, voter.member
        assert log is not None
        if member is not None:
            if member.term < self._terms.get(voter.node_id, 0):
                raise Violation(f"node {voter.node_id}: its term fell")
            self._terms[voter.node_id] = member.term
        known, checked_offset, high_watermark = self._checked.get(voter.node_id, (None, 0, 0))
        if known is not log:
            checked_offset = high_watermark = 0
        if log.high_watermark < high_watermark:
            raise Violation(f"node {voter.node_id}: what is committed shrank from {high_watermark}")
        if log.high_watermark == high_watermark and known is log:
            return
        offset = max(checked_offset, log.log_start_offset)
        while offset < log.high_watermark:
            for batch in whole_batches(log.read_for_replica(offset, max_bytes=2**20)):
                if batch.header.next_offset <= log.high_watermark:
                    self._commit(voter.node_id, batch)
                offset = batch.header.next_offset
        self._checked[voter.node_id] = (log, min(offset, log.high_watermark), log.high_watermark)

    def _commit(self, node_id: int, batch: RecordBatch) -> None:
        header = batch.header
        found = (header.next_offset, header.partition_leader_epoch, header.crc)
        if header.base_offset >= self.committed_end:
            self.committed[header.base_offset] = found
            self.committed_end = header.next_offset
            self._values |= {record.offset: bytes(record.value or b"") for record in batch.records()}
        elif self.committed.get(header.base_offset) != found:
            raise Violation(
                f"node {node_id} has {found} committed at {header.base_offset}, where "
                f"{self.committed.get(header.base_offset)} was"
            )

    # In the end

    def finish(self) -> None:
        """After healing: all logs are equal, and what was acknowledged is in them."""
        logs = [voter.log for voter in self._harness.voters.values() if voter.log is not None]
        start_offset = max(log.log_start_offset for log in logs)
        contents = [_contents(log, start_offset) for log in logs]
        if any(content != contents[0] for content in contents):
            raise Violation("the logs differ in the end")
        if any(self._values.get(offset) != value for offset, value in self._acknowledged.items()):
            raise Violation("what was acknowledged is not there in the end")


def _contents(log: PartitionLog, start_offset: int) -> bytes:
    data, offset = b"", start_offset
    while offset < log.log_end_offset:
        batches = whole_batches(log.read_for_replica(offset, max_bytes=2**20))
        data += b"".join(bytes(batch.view) for batch in batches)
        offset = batches[-1].header.next_offset
    return data
