"""Owners of one pool who take it from each other, with transactions that are open side by side."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from eagleray.actors.roles.coordinators import coordinator_of_transaction
from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import (
    CompleteTransaction,
    EndTransaction,
    InitProducerId,
    PrepareTransaction,
    TakePoolOver,
)
from eagleray.broker.transactions.pools.names import slot_name
from eagleray.protocol.errors import ErrorCode
from tests.simulation.cluster.places import INPUTS
from tests.simulation.cluster.producers import Fenced, Producer
from tests.simulation.schedule import Violation
from tests.support.history import Outcome, Payload, SentRecord, Transaction, TransactionName

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

POOL: Final = "pool"
MOST_SIDE_BY_SIDE: Final = 4
FORGOTTEN: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
DIES_PREPARED, PREPARES, IS_SLOW = 0.4, 0.4, 0.2


class Lane(msgspec.Struct):
    """A slot as its owner uses it."""

    number: int
    identity: ProducerIdentity
    sequences: dict[TopicPartition, int] = {}
    place: int = -1
    """Where in the history its open transaction is."""

    token: ProducerIdentity | None = None


class PoolOwner(Producer):
    """Takes the pool over, has a few transactions open at the same time, and ends them in any order, or dies.

    The ledger is the other system of those that are prepared. All owners have the same, and complete by it what they
    find; what they do not find there they note as aborted, so that it will never be committed.
    """

    def __init__(self, harness: "Harness", name: str, transactions: int) -> None:
        super().__init__(harness, name, transactions)
        self._owner = NO_PRODUCER
        self._lanes: dict[int, Lane] = {}
        self._occupied: set[int] = set()

    async def run(self) -> None:
        await self.look_around()
        while self._left > 0:
            try:
                await self._take_over()
                while self._left > 0:
                    await self._side_by_side()
                    await self.think(self.harness.fault_plan.longest_pause_ms)
            except Fenced:
                self.harness.schedule.fired["pool or slot fenced"] += 1
                self._left -= 1
                await self.think(2000)
        await self._take_over_at_last()
        self.is_done = True

    async def _take_over_at_last(self) -> None:
        """Leave nothing open."""
        while True:
            try:
                await self._take_over()
            except Fenced:
                await self.think(500)
            else:
                return

    async def _take_over(self) -> None:
        self._incarnation += 1
        self._lanes, self._occupied = {}, set()
        reply = await self._ask_about(POOL, TakePoolOver, self.harness.fault_plan.transaction_timeout_ms)
        self._owner = reply.producer
        self.harness.schedule.fired["pool taken over"] += 1
        for left in reply.left:
            self.harness.schedule.fired["prepared transaction recovered"] += 1
            await self._complete(left.transactional_id, left.producer)

    async def _complete(self, name: str, token: ProducerIdentity) -> None:
        commit = self.harness.pool_ledger.setdefault((name, token), False)
        reply = await self._ask_about(name, CompleteTransaction, token, commit, or_told=frozenset({FORGOTTEN}))
        if reply.error_code is FORGOTTEN and self.harness.watch.prepared.outcomes.get((name, token)) is None:
            raise Violation(f"{token} of {name} is forgotten, and was never decided")

    async def _side_by_side(self) -> None:
        """Open some, then end them in another order."""
        lanes = [await self._lane() for _ in range(self.chance.randint(1, MOST_SIDE_BY_SIDE))]
        for lane in lanes:
            await self._write(lane)
        self.harness.schedule.fired[f"{len(lanes)} open side by side"] += 1
        self.chance.shuffle(lanes)
        for lane in lanes:
            if self.harness.schedule.happens(IS_SLOW):
                await self.think(2 * self.harness.fault_plan.longest_pause_ms)
            await self._end(lane)
        self._left -= len(lanes)

    async def _lane(self) -> Lane:
        """Give a slot that has nothing open, or begin with another."""
        for lane in self._lanes.values():
            if lane.place < 0:
                lane.place = len(self.history)
                return lane
        number = 0
        while True:
            if number not in self._lanes and number not in self._occupied:
                reply = await self._init(number)
                if reply.error_code is ErrorCode.NONE:
                    lane = self._lanes[number] = Lane(number, reply.producer, {}, len(self.history))
                    return lane
                self._occupied.add(number)
            number += 1

    async def _init(self, number: int) -> Any:
        timeout_ms = self.harness.fault_plan.transaction_timeout_ms
        fields = timeout_ms, None, None, False, False, None, self._owner
        occupied = frozenset({ErrorCode.INVALID_TXN_STATE})
        return await self._ask_about(slot_name(POOL, number), InitProducerId, *fields, or_told=occupied)

    async def _write(self, lane: Lane) -> None:
        lane.place, lane.token = len(self.history), None
        places = [place for place in INPUTS if self.harness.schedule.happens(0.7)] or [INPUTS[0]]
        transaction = self._begin_in(lane, places)
        self._identity, self._sequences = lane.identity, lane.sequences
        for place in places:
            records = [each for each in transaction.records if each.partition == place]
            await self._produce(place, records, slot_name(POOL, lane.number))

    def _begin_in(self, lane: Lane, places: list[TopicPartition]) -> Transaction:
        # Those of one slot come one after the other, and so each slot is a producer of its own to the checker.
        name = TransactionName(f"{self.name}/{lane.number}", self._incarnation, len(self.history))
        records = [
            SentRecord(place, "", Payload(name, index, "x" * self.chance.choice([0, 20, 200])))
            for index, place in enumerate(place for place in places for _ in range(self.chance.randint(1, 2)))
        ]
        transaction = Transaction(name, tuple(records), (), Outcome.UNKNOWN)
        self.history.append(transaction)
        return transaction

    async def _end(self, lane: Lane) -> None:
        commit = self.harness.schedule.happens(0.7)
        name, place = slot_name(POOL, lane.number), lane.place
        if self.harness.schedule.happens(PREPARES):
            lane.token = (await self._ask_about(name, PrepareTransaction, lane.identity, b"42")).producer
            assert lane.token is not None
            if self.harness.schedule.happens(DIES_PREPARED / 2):
                await self._die("before it has told the other system of a slot")
            if self.harness.schedule.happens(IS_SLOW):
                await self.think(10 * self.harness.fault_plan.longest_pause_ms)
            if self.harness.pool_ledger.setdefault((name, lane.token), commit) is not commit:
                self.harness.schedule.fired["another owner has decided"] += 1
                raise Fenced
            self._know_of(place, commit=commit)
            if self.harness.schedule.happens(DIES_PREPARED):
                await self._die("and another owner completes its slot")
        reply = await self._ask_about(name, EndTransaction, lane.identity, commit, IMPLICIT_VERSION)
        self._know_of(place, commit=commit)
        lane.identity, lane.sequences, lane.place = reply.producer, {}, -1

    def _know_of(self, place: int, *, commit: bool) -> None:
        known = self.history[place]
        outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
        self.history[place] = Transaction(known.name, known.records, known.offsets, outcome)

    async def _die(self, when: str) -> None:
        self.harness.schedule.fired[f"owner died {when}"] += 1
        await self.think(2000)
        raise Fenced

    async def _ask_about(
        self, name: str, message_type: Any, *fields: object, or_told: frozenset[ErrorCode] = frozenset()
    ) -> Any:
        """Ask the coordinator until it has answered."""
        while True:
            reply = await self.ask(coordinator_of_transaction(self.image, name), message_type, name, *fields)
            if reply is not None and (reply.error_code is ErrorCode.NONE or reply.error_code in or_told):
                return reply
            self._go_on_after(reply)
            await self.look_around()
