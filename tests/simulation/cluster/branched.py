"""A driver of a simulated cluster: workers write into branches of its transactions, some of them late."""

from typing import TYPE_CHECKING, Any

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.partitions.events import ALL_IN_SYNC, Produce
from eagleray.broker.transactions.branches.tags import tag_in_series
from eagleray.broker.transactions.events import BeginBranched, EndBranched, OpenBranch
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch
from tests.simulation.cluster.places import INPUTS
from tests.simulation.cluster.producers import FENCED, PRODUCE_TIMEOUT_MS, Fenced, TransactionalProducer
from tests.simulation.schedule import Violation
from tests.support.batches import NOW_MS
from tests.support.history import Outcome, Payload, SentRecord, Transaction, TransactionName, encode_payload

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

OVER = FENCED | {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
"""What a branch is told that nothing knows any more."""
LATE_ATTEMPTS = 12


class BranchedProducer(TransactionalProducer):
    """Has two branches written in each transaction, of which one counts; then both of them go on writing.

    What comes late is refused, whether the partition still knows the branch or not, and however often it comes.
    """

    def __init__(self, harness: "Harness", name: str, transactions: int) -> None:
        super().__init__(harness, name, transactions)
        self._number = 0
        self._written: list[tuple[ProducerIdentity, TopicPartition, int]] = []
        """The branches of the transaction at hand, where they have written, and their next sequences there."""

    def _go_on_after(self, reply: Any) -> None:
        if reply is not None and reply.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            raise Fenced
        super()._go_on_after(reply)

    async def _transact(self) -> None:
        self._written = []
        try:
            await self._write_branches()
        except Fenced:
            await self._write_late()
            raise
        await self._write_late()

    async def _write_branches(self) -> None:
        self._number += 1
        timeout_ms = self.harness.fault_plan.transaction_timeout_ms
        owner = await self._coordinate(BeginBranched, tag_in_series(self.name, self._number), timeout_ms)
        await self._write_branch(owner, Outcome.ABORTED)
        branch = await self._write_branch(owner, Outcome.UNKNOWN)
        commits = self.harness.schedule.happens(0.7)
        await self._coordinate(EndBranched, owner, commits, (branch,) if commits else ())
        self.harness.schedule.fired["branch committed" if commits else "branch aborted"] += 1
        self._know(Outcome.COMMITTED if commits else Outcome.ABORTED)
        self._left -= 1

    async def _write_branch(self, owner: ProducerIdentity, outcome: Outcome) -> ProducerIdentity:
        places = [place for place in INPUTS if self.harness.schedule.happens(0.7)] or [INPUTS[0]]
        transaction = self._begin(places)
        self._know(outcome)
        self._identity, self._sequences = await self._coordinate(OpenBranch, owner), {}
        for place in places:
            records = [each for each in transaction.records if each.partition == place]
            self._written.append((self._identity, place, len(records)))
            await self._produce(place, records, self.name)
        return self._identity

    async def _write_late(self) -> None:
        """Go on writing where the marker of a branch is; a batch that comes before it still belongs to the branch."""
        for branch, place, sequence in self._written:
            for _ in range(LATE_ATTEMPTS):
                if self._is_over(branch, place):
                    await self._send_late(branch, place, sequence)
                    break
                await self.think(200)

    def _is_over(self, branch: ProducerIdentity, place: TopicPartition) -> bool:
        return any(marker[0] == branch.producer_id for marker in self.harness.watch.partitions[place].markers)

    async def _send_late(self, branch: ProducerIdentity, place: TopicPartition, sequence: int) -> None:
        name = TransactionName(self.name, self._incarnation, len(self.history))
        record = SentRecord(place, "", Payload(name, 0, "late"))
        self.history.append(Transaction(name, (record,), (), Outcome.ABORTED))
        data = build_batch(
            [NewRecord(encode_payload(record.payload), key=b"", timestamp=NOW_MS)],
            base_offset=0,
            producer_id=branch.producer_id,
            producer_epoch=branch.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        for _ in range(LATE_ATTEMPTS):
            leader = self.leader_of(place)
            reply = await self.ask(
                leader, Produce, place, data, ALL_IN_SYNC, self.name, IMPLICIT_VERSION, PRODUCE_TIMEOUT_MS
            )
            if reply is not None and reply.error_code is ErrorCode.NONE:
                raise Violation(f"{self.name}: a batch of {branch} was taken at {place} after the end of the branch")
            if reply is not None and reply.error_code in OVER:
                self.harness.schedule.fired[f"late batch told: {ErrorCode(reply.error_code).name}"] += 1
                return
            if reply is not None and not reply.error_code.is_retriable:
                raise Violation(f"{self.name}: a late batch was told {ErrorCode(reply.error_code).name}: {reply}")
            await self.look_around()
