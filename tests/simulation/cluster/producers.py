"""Producers of a simulated cluster: they repeat what they ask until they are answered, and remember what they know."""

from typing import TYPE_CHECKING, Any

from eagleray.actors.roles.coordinators import coordinator_of_transaction
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.partitions.events import ALL_IN_SYNC, Produce
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, InitProducerId
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch
from tests.simulation.cluster.client import Client
from tests.simulation.cluster.places import INPUTS
from tests.simulation.schedule import Violation
from tests.support.batches import NOW_MS
from tests.support.history import Outcome, Payload, SentRecord, Transaction, TransactionName, encode_payload

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

PRODUCE_TIMEOUT_MS = 600
DAWDLES = 0.3
LONGEST_DAWDLE_MS = 400
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE})
"""What a producer is told whose transaction was ended by others: it has been away for too long."""


class Fenced(Exception):
    """Another client has ended the transaction."""


class Producer(Client):
    """Writes transactions, and knows of each what it was told."""

    def __init__(self, harness: "Harness", name: str, transactions: int) -> None:
        super().__init__(harness, name)
        self.history: list[Transaction] = []
        self._left = transactions
        self._incarnation = 0
        self._identity = NO_PRODUCER
        self._sequences: dict[TopicPartition, int] = {}

    def _begin(self, places: list[TopicPartition]) -> Transaction:
        """Make up a transaction, and note what will be in it before anything is sent."""
        name = TransactionName(self.name, self._incarnation, len(self.history))
        records = []
        for place in places:
            for _ in range(self.chance.randint(1, 3)):
                body = "x" * self.chance.choice([0, 20, 200])
                records.append(SentRecord(place, "", Payload(name, len(records), body)))
        transaction = Transaction(name, tuple(records), (), Outcome.UNKNOWN)
        self.history.append(transaction)
        return transaction

    def _know(self, outcome: Outcome) -> None:
        last = self.history[-1]
        self.history[-1] = Transaction(last.name, last.records, last.offsets, outcome)

    async def _produce(self, partition: TopicPartition, records: list[SentRecord], name: str | None) -> None:
        """Send one batch, again and again with the same sequence number, until it is acknowledged."""
        identity, sequence = self._identity, self._sequences.get(partition, 0)
        data = build_batch(
            [NewRecord(encode_payload(each.payload), key=b"", timestamp=NOW_MS) for each in records],
            base_offset=0,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            transactional=name is not None,
        )
        while True:
            version = self.harness.fault_plan.transaction_version if name is not None else 1
            reply = await self.ask(
                self.leader_of(partition), Produce, partition, data, ALL_IN_SYNC, name, version, PRODUCE_TIMEOUT_MS
            )
            if reply is not None and reply.error_code is ErrorCode.NONE:
                break
            self._go_on_after(reply)
            await self.look_around()
        told = identity.producer_id, identity.epoch, sequence
        self.harness.watch.partitions[partition].was_told(told, len(records), reply.base_offset)
        self._sequences[partition] = sequence + len(records)

    def _go_on_after(self, reply: Any) -> None:
        """See whether to ask again after an error."""
        if reply is None:
            return
        self.harness.schedule.fired[f"client told: {ErrorCode(reply.error_code).name}"] += 1
        if reply.error_code in FENCED:
            raise Fenced
        if not reply.error_code.is_retriable:
            raise Violation(f"{self.name} was told {ErrorCode(reply.error_code).name}: {reply}")


class IdempotentProducer(Producer):
    """Writes batches one by one; each is there once, and for good when it is acknowledged."""

    async def run(self) -> None:
        await self.look_around()
        while self._identity is NO_PRODUCER:
            reply = await self.ask(self.any_node(), InitProducerId, None)
            if reply is not None and reply.error_code is ErrorCode.NONE:
                self._identity = reply.producer
            else:
                self._go_on_after(reply)
                await self.think(100)
        while self._left:
            partition = self.chance.choice(INPUTS)
            transaction = self._begin([partition])
            await self._produce(partition, list(transaction.records), None)
            self._know(Outcome.COMMITTED)
            self._left -= 1
            await self.think(self.harness.fault_plan.longest_pause_ms)
        self.is_done = True


class TransactionalProducer(Producer):
    """Writes whole transactions over several partitions, under one transactional id for all of its incarnations."""

    async def run(self) -> None:
        await self.look_around()
        while self._left:
            self._incarnation += 1
            self._identity = await self._initialize()
            try:
                while self._left:
                    await self._transact()
                    await self.think(self.harness.fault_plan.longest_pause_ms)
            except Fenced:
                self.harness.schedule.fired["producer fenced"] += 1
                self._left -= 1
        # What the last incarnation may have left open is ended too.
        await self._initialize()
        self.is_done = True

    async def _initialize(self) -> ProducerIdentity:
        self._sequences = {}
        timeout_ms = self.harness.fault_plan.transaction_timeout_ms
        return await self._coordinate(InitProducerId, timeout_ms)

    async def _transact(self) -> None:
        places = [place for place in INPUTS if self.harness.schedule.happens(0.7)]
        transaction = self._begin(places or [INPUTS[0]])
        await self._add(places or [INPUTS[0]])
        for place in places or [INPUTS[0]]:
            await self._produce(place, [each for each in transaction.records if each.partition == place], self.name)
        if self.is_version_1 and self.harness.schedule.happens(DAWDLES):
            # Long enough for a marker of the transaction before to come late.
            await self.think(LONGEST_DAWDLE_MS)
        commits = self.harness.schedule.happens(0.7)
        await self._end(commits=commits)
        self._know(Outcome.COMMITTED if commits else Outcome.ABORTED)
        self._left -= 1

    @property
    def is_version_1(self) -> bool:
        return self.harness.fault_plan.transaction_version < IMPLICIT_VERSION

    async def _add(self, places: list[TopicPartition]) -> None:
        """Tell the coordinator what the transaction writes to, which leaders do from version 2 on."""
        if self.is_version_1:
            await self._coordinate(AddPartitions, self._identity, tuple(places), 1)

    async def _end(self, *, commits: bool) -> None:
        version = self.harness.fault_plan.transaction_version
        identity = await self._coordinate(EndTransaction, self._identity, commits, version)
        if not self.is_version_1:
            self._identity, self._sequences = identity, {}

    async def _coordinate(self, message_type: Any, *fields: object) -> ProducerIdentity:
        """Ask the coordinator until it has answered with an identity."""
        producer: ProducerIdentity = (await self._ask_coordinator(message_type, *fields)).producer
        return producer

    async def _ask_coordinator(
        self, message_type: Any, *fields: object, or_told: frozenset[ErrorCode] = frozenset()
    ) -> Any:
        """Ask the coordinator until it has done it, or refuses it in a way that the caller takes for an answer."""
        while True:
            reply = await self.ask(coordinator_of_transaction(self.image, self.name), message_type, self.name, *fields)
            if reply is not None and (reply.error_code is ErrorCode.NONE or reply.error_code in or_told):
                return reply
            self._go_on_after(reply)
            await self.look_around()
