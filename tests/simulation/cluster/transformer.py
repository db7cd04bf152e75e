"""Who reads, transforms and writes, all in one transaction: exactly once, whatever happens to it or to others."""

from typing import TYPE_CHECKING, Any

from eagleray.broker.groups.events import CommitTransactionOffsets, FetchOffsets, OffsetToCommit
from eagleray.broker.groups.membership import NO_GENERATION, NO_MEMBER
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import Fetch, FetchPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import scan_batches
from tests.simulation.cluster.places import INPUTS, OFFSETS, OUTPUT, TRANSFORM_GROUP
from tests.simulation.cluster.producers import Fenced, TransactionalProducer
from tests.support.history import (
    FoundRecord,
    GroupOffset,
    Outcome,
    Payload,
    Place,
    SentRecord,
    Transaction,
    TransactionName,
    transformed,
)

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

COMMITS = 0.85
DAWDLES = 0.1


class Transformer(TransactionalProducer):
    """Makes one record of the output from each of the input, and takes note of how far it is in the same transaction.

    In each of its incarnations it begins where its group is; `identities` tells by which producer each transaction was
    written.
    """

    def __init__(self, harness: "Harness") -> None:
        super().__init__(harness, "transformer", 0)
        self.identities: dict[TransactionName, tuple[int, int]] = {}
        self._positions: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        await self.look_around()
        while True:
            self._incarnation += 1
            self._identity = await self._initialize()
            try:
                self._positions = await self._committed()
                while True:
                    await self.think(self.harness.fault_plan.longest_pause_ms)
                    await self._transform(self.chance.choice(INPUTS))
            except Fenced:
                self.harness.schedule.fired["producer fenced"] += 1

    async def _committed(self) -> dict[TopicPartition, int]:
        """Ask where the group is, until no transaction can change that any more."""
        while True:
            reply = await self.ask(self.leader_of(OFFSETS), FetchOffsets, TRANSFORM_GROUP, INPUTS, True)
            if reply is not None and reply.error_code is ErrorCode.NONE:
                if all(each.error_code is ErrorCode.NONE for each in reply.offsets):
                    return {each.partition: max(each.offset, 0) for each in reply.offsets}
                await self.think(60)
                continue
            self._go_on_after(reply)
            await self.look_around()

    async def _transform(self, partition: TopicPartition) -> None:
        """Transform what comes next, if there is something."""
        position = self._positions[partition]
        reply = await self.ask(
            self.leader_of(partition), Fetch, (FetchPartition(partition, position, 1000),), Isolation.READ_COMMITTED, 50
        )
        found = None if reply is None else reply.partitions[0]
        if found is None or found.error_code is not ErrorCode.NONE:
            await self.look_around()
            return
        records, next_position = _visible(found, position)
        if next_position == position:
            return
        transaction = self._begin_transform(partition, records, next_position)
        commits = self.harness.schedule.happens(COMMITS)
        await self._add([OUTPUT, OFFSETS] if transaction.records else [OFFSETS])
        for step in self.chance.sample([self._write, self._commit_offsets], 2):
            await step(transaction)
        if self.harness.schedule.happens(DAWDLES):
            # Long enough for others to go on, and for logs to be compacted.
            await self.think(1500)
        await self._end(commits=commits)
        self.harness.schedule.fired["transform committed" if commits else "transform aborted"] += 1
        self._know(Outcome.COMMITTED if commits else Outcome.ABORTED)
        if commits:
            self._positions[partition] = next_position

    def _begin_transform(self, partition: TopicPartition, records: list[FoundRecord], position: int) -> Transaction:
        name = TransactionName(self.name, self._incarnation, len(self.history))
        sent = []
        for record in records:
            payload = record.payload()
            assert payload is not None, "producers write nothing else"
            source = Place(partition, record.offset)
            made = Payload(name, len(sent), transformed(payload.body), TRANSFORM_GROUP, source)
            sent.append(SentRecord(OUTPUT, "", made))
        offsets = (GroupOffset(TRANSFORM_GROUP, partition, position),)
        transaction = Transaction(name, tuple(sent), offsets, Outcome.UNKNOWN)
        self.identities[name] = self._identity.producer_id, self._identity.epoch
        self.history.append(transaction)
        return transaction

    async def _write(self, transaction: Transaction) -> None:
        if transaction.records:
            await self._produce(OUTPUT, list(transaction.records), self.name)

    async def _commit_offsets(self, transaction: Transaction) -> None:
        (offset,) = transaction.offsets
        wanted = (OffsetToCommit(offset.partition, offset.offset, metadata=str(transaction.name)),)
        while True:
            membership = NO_GENERATION, NO_MEMBER, None
            version = self.harness.fault_plan.transaction_version
            of_group = TRANSFORM_GROUP, self.name, self._identity, wanted, *membership, version
            reply = await self.ask(self.leader_of(OFFSETS), CommitTransactionOffsets, *of_group)
            if reply is not None and reply.error_code is ErrorCode.NONE:
                return
            self._go_on_after(reply)
            await self.look_around()


def _visible(found: Any, position: int) -> tuple[list[FoundRecord], int]:
    """What a consumer of committed records is shown of what it was sent, and where it goes on."""
    records: list[FoundRecord] = []
    for batch in scan_batches(found.records).batches:
        header = batch.header
        is_left_out = header.is_transactional and any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in found.aborted_transactions
        )
        if not header.is_control and not is_left_out:
            new = [record for record in batch.records() if record.offset >= position]
            records += [FoundRecord(record.offset, "", bytes(record.value or b"")) for record in new]
        position = max(position, header.next_offset)
    return records, position
