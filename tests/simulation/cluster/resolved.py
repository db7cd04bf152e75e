"""Clients whose transactions have a resolver, and the resolver: actors that die, that lie late, and the ledger.

The ledger is the other system again. What the resolver finds there is the outcome. Where it finds nothing, it notes
that the transaction is not to be, so that the producer cannot decide otherwise later: as an application has to do it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eagleray.actors.roles.resolver_calls import ResolverVerdict
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import EndTransaction, InitProducerId, PrepareTransaction
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.broker.transactions.resolver_events import AskResolver
from eagleray.testing.local_node import NoActors
from tests.simulation.cluster.places import INPUTS
from tests.simulation.cluster.prepared import Decision, PreparingProducer
from tests.simulation.cluster.producers import Fenced
from tests.simulation.schedule import Violation
from tests.support.history import Outcome

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness
    from tests.simulation.cluster.machine import SimulatedMachine

LEDGER = ResolverName(ResolverKind.ACTOR, "ledger", "shop", "resolve", 500, 300, 4, False)
SILENT = ResolverName(ResolverKind.ACTOR, "silent", "shop", "resolve", 300, 200, 2, True)
"""It never knows, and what it is asked about is aborted then."""

DIES, DOES_NOT_KNOW, IS_LATE = 0.25, 0.2, 0.3
LONGEST_DELAY_MS = 3000


class ResolvedProducer(PreparingProducer):
    """Prepares transactions with a resolver, and leaves their end to it whenever it dies or is silent for too long."""

    async def _take_over(self) -> ProducerIdentity:
        """Wait until the resolver has ended what was left."""
        self._sequences = {}
        reply = await self._ask_coordinator(InitProducerId, self.harness.fault_plan.transaction_timeout_ms)
        for decision in self.ledger.values():
            decision.is_completed = True
        producer: ProducerIdentity = reply.producer
        return producer

    async def _transact(self) -> None:
        schedule, resolver = self.harness.schedule, LEDGER
        if schedule.happens(0.25):
            resolver = SILENT
        transaction = self._begin([INPUTS[0]])
        self._know(Outcome.ABORTED)
        await self._produce(INPUTS[0], list(transaction.records), self.name)
        token = (await self._ask_coordinator(PrepareTransaction, self._identity, b"42", (), resolver)).producer
        if resolver is SILENT:
            await self._die("and its resolver does not know")
        if schedule.happens(0.3):
            await self._die("before it has told the other system, and is resolved")
        if schedule.happens(0.3):
            # What it does in the other system takes its time.
            await self.think(3 * LEDGER.first_after_ms)
        if token in self.ledger:
            schedule.fired["other system has refused what was resolved"] += 1
            raise Fenced
        decision = self._decide(token)
        if schedule.happens(0.4):
            await self._die("and is resolved")
        await self.think(self.harness.fault_plan.longest_pause_ms)
        reply = await self._ask_coordinator(EndTransaction, self._identity, decision.commit, IMPLICIT_VERSION)
        decision.is_completed = True
        self._identity, self._sequences = reply.producer, {}
        self._left -= 1

    def resolve(self, token: ProducerIdentity) -> bool:
        """Say as the other system how a transaction has to end; what it does not know, it will never commit."""
        decision = self.ledger.get(token)
        if decision is None:
            decision = self.ledger[token] = Decision(self, len(self.history) - 1, token, False)
        return decision.commit


class SimulatedResolvers(NoActors):
    """The actors that a node's coordinator asks."""

    def __init__(self, machine: "SimulatedMachine") -> None:
        self._machine = machine

    def ask_resolver(self, question: AskResolver, then: Callable[[ResolverVerdict], None]) -> None:
        harness, loop = self._machine.harness, self._machine.loop
        verdict = _verdict_on(harness, question)
        if verdict is None or loop is None:
            return
        schedule = harness.schedule
        is_late = schedule.happens(IS_LATE)
        delay_ms = schedule.chance.randint(1, LONGEST_DELAY_MS if is_late else 50)

        def answer() -> None:
            if self._machine.loop is loop:
                schedule.fired["resolver answered late" if is_late else "resolver answered"] += 1
                loop.run(then, verdict)

        schedule.after(delay_ms, answer)


def _verdict_on(harness: "Harness", question: AskResolver) -> ResolverVerdict | None:
    schedule = harness.schedule
    schedule.fired["resolver asked"] += 1
    if schedule.happens(DIES):
        schedule.fired["resolver died"] += 1
        return None
    if question.resolver == SILENT or schedule.happens(DOES_NOT_KNOW):
        return ResolverVerdict(None, "it does not know")
    producers: dict[str, Any] = {producer.name: producer for producer in harness.producers}
    producer = producers[question.transactional_id]
    if not hasattr(producer, "resolve"):
        raise Violation(f"a resolver was asked about {question.transactional_id}, which has named none")
    return ResolverVerdict(producer.resolve(question.prepared))
