"""Clients that commit in two phases: a producer with a ledger outside of the cluster, and those who complete for it.

The ledger is the other system. Who has a token in it, with a decision, may complete the transaction; what is not in it
was never prepared to anybody's knowledge, and must never be seen.
"""

from typing import TYPE_CHECKING, NoReturn

import msgspec

from eagleray.actors.roles.coordinators import coordinator_of_transaction
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import (
    AddPartitions,
    CompleteTransaction,
    EndTransaction,
    InitProducerId,
    PrepareTransaction,
)
from eagleray.protocol.errors import ErrorCode
from tests.simulation.cluster.client import Client
from tests.simulation.cluster.places import INPUTS
from tests.simulation.cluster.producers import Fenced, TransactionalProducer
from tests.simulation.schedule import Violation
from tests.support.history import Outcome

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

ENDED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE})
LONGEST_DEATH_MS = 4000
FORGOTTEN = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class Decision(msgspec.Struct):
    """What the other system has decided about a transaction of this one."""

    producer: "PreparingProducer"
    place: int
    token: ProducerIdentity
    commit: bool
    is_completed: bool = False


class PreparingProducer(TransactionalProducer):
    """Prepares its transactions, and notes the token and the outcome elsewhere before it asks for that; or dies."""

    def __init__(self, harness: "Harness", name: str, transactions: int) -> None:
        super().__init__(harness, name, transactions)
        self.ledger: dict[ProducerIdentity, Decision] = {}

    async def _initialize(self) -> ProducerIdentity:
        while True:
            try:
                return await self._take_over()
            except Fenced:
                # The network has repeated its question, and each InitProducerId fences the one before.
                self.harness.schedule.fired["producer fenced while it took over"] += 1

    async def _take_over(self) -> ProducerIdentity:
        """Find what was left open: it ends as the ledger says, and is aborted where that says nothing."""
        self._sequences = {}
        reply = await self._ask_coordinator(
            InitProducerId, self.harness.fault_plan.transaction_timeout_ms, None, None, False, True
        )
        if reply.ongoing == NO_PRODUCER:
            # What it was not told the end of, before it died, has ended as the ledger says, or the history shows it.
            for decision in self.ledger.values():
                decision.is_completed = True
            producer: ProducerIdentity = reply.producer
            return producer
        self.harness.schedule.fired["transaction kept"] += 1
        decision = self.ledger.get(reply.ongoing)
        commit = decision is not None and decision.commit
        if self.harness.schedule.happens(0.5):
            producer = (await self._ask_coordinator(EndTransaction, reply.producer, commit, IMPLICIT_VERSION)).producer
        else:
            # What was never prepared may have timed out by now.
            or_told = ENDED if decision is None else frozenset()
            fields = reply.ongoing, commit, decision is None
            await self._ask_coordinator(CompleteTransaction, *fields, or_told=or_told)
            producer = await self._take_over()
        if decision is not None:
            decision.is_completed = True
        return producer

    async def _transact(self) -> None:
        places = [place for place in INPUTS if self.harness.schedule.happens(0.7)] or [INPUTS[0]]
        transaction = self._begin(places)
        self._know(Outcome.ABORTED)
        for place in places:
            await self._produce(place, [each for each in transaction.records if each.partition == place], self.name)
        token = (await self._ask_coordinator(PrepareTransaction, self._identity, b"42")).producer
        if self.harness.schedule.happens(0.2):
            await self._die("before it has told the other system")
        decision = self._decide(token)
        await self._add_too_late()
        if self.harness.schedule.happens(0.4):
            await self._die("and others complete what it has prepared")
        await self.think(self.harness.fault_plan.longest_pause_ms)
        reply = await self._ask_coordinator(EndTransaction, self._identity, decision.commit, IMPLICIT_VERSION)
        decision.is_completed = True
        self._identity, self._sequences = reply.producer, {}
        self._left -= 1

    async def _die(self, when: str) -> NoReturn:
        """Be away for a while, perhaps for longer than a transaction may last, and come back knowing nothing."""
        self.harness.schedule.fired[f"producer died {when}"] += 1
        await self.think(min(2 * self.harness.fault_plan.transaction_timeout_ms, LONGEST_DEATH_MS))
        raise Fenced

    def _decide(self, token: ProducerIdentity) -> Decision:
        if token in self.ledger:
            raise Violation(f"{self.name} was given the token {token} twice")
        decision = Decision(self, len(self.history) - 1, token, self.harness.schedule.happens(0.7))
        self.ledger[token] = decision
        self._know(Outcome.COMMITTED if decision.commit else Outcome.ABORTED)
        return decision

    async def _add_too_late(self) -> None:
        """Nothing joins what is prepared, also not by the producer that has prepared it."""
        coordinator = coordinator_of_transaction(self.image, self.name)
        reply = await self.ask(
            coordinator, AddPartitions, self.name, self._identity, tuple(INPUTS), IMPLICIT_VERSION, False
        )
        if reply is not None and reply.error_code is ErrorCode.NONE:
            raise Violation(f"{self.name} was let write in what it has prepared")


class Completer(Client):
    """Completes by their tokens what producers have prepared, again and again, and tries to have it the other way."""

    async def run(self) -> None:
        await self.look_around()
        while not self.is_done:
            for producer in self.harness.preparing:
                for decision in [*producer.ledger.values()]:
                    await self._complete(producer, decision)
            producers = self.harness.preparing
            self.is_done = all(each.is_done for each in producers) and all(
                decision.is_completed for each in producers for decision in each.ledger.values()
            )
            await self.think(2000)

    async def _complete(self, producer: PreparingProducer, decision: Decision) -> None:
        asks_other_way = decision.is_completed and self.harness.schedule.happens(0.5)
        if decision.is_completed and decision.place < len(producer.history) - 3:
            return
        commit = decision.commit is not asks_other_way
        coordinator = coordinator_of_transaction(self.image, producer.name)
        reply = await self.ask(coordinator, CompleteTransaction, producer.name, decision.token, commit)
        if reply is None or reply.error_code.is_retriable:
            await self.look_around()
        elif reply.error_code is ErrorCode.NONE and commit is decision.commit:
            self.harness.schedule.fired["transaction completed by its token"] += 1
            decision.is_completed = True
        elif reply.error_code is FORGOTTEN and decision.is_completed:
            self.harness.schedule.fired["outcome forgotten"] += 1
        elif reply.error_code is not ErrorCode.INVALID_TXN_STATE or not asks_other_way:
            raise Violation(f"{decision.token} of {producer.name}, {commit=}: {reply}, decided: {decision.commit}")
