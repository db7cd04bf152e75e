"""The coordinator among zombies, lost records, late markers and restarts, against a model of what may not happen."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.events import (
    AddPartitions,
    CompleteTransaction,
    EndTransaction,
    HoldLimitsKnown,
    InitProducerId,
    MarkersForgotten,
    PrepareTransaction,
    TakePoolOver,
)
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.property.coordinator_world import CoordinatorWorld

POOLS = st.sampled_from(["checkout", "billing"])
SLOTS = st.sampled_from([f"{pool}.__slot-{number}" for pool in ("checkout", "billing") for number in (0, 1)])
NAMES = POOLS | SLOTS
PLACES = st.integers(0, 50)
VERSIONS = st.sampled_from([1, 2])
_ORDERS = ResolverName(ResolverKind.ACTOR, "orders", "shop", "resolve", 1000, 500, 2, False)
RESOLVERS = st.sampled_from([None, _ORDERS, replace(_ORDERS, aborts_when_exhausted=True)])
PARTITIONS = st.lists(
    st.sampled_from([TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)]),
    min_size=1,
    max_size=2,
    unique=True,
)


class CoordinatorMachine(RuleBasedStateMachine):
    """Anything may happen to a coordinator at any time."""

    completion_log_delay_ms = 0

    @initialize(epoch=st.sampled_from([0, 5, 32763, 32764, 32765, 32766]), state=st.sampled_from([0, 2, 3, 5]))
    def begin(self, epoch: int, state: int) -> None:
        billing = Snapshot(
            state=TransactionState(state),
            producer_id=7,
            producer_epoch=epoch,
            timeout_ms=60_000,
            partitions=frozenset({TopicPartition("orders", 0)} if state in (2, 3) else ()),
            start_ms=0 if state else -1,
            updated_ms=0,
            client_version=1,
        )
        self.world = CoordinatorWorld({"billing": billing}, self.completion_log_delay_ms)
        self.request_id = 0

    def _next_id(self) -> int:
        self.request_id += 1
        return self.request_id

    def _who(self, name: str, place: int) -> ProducerIdentity:
        """Mostly the newest identity that somebody was given, sometimes a zombie's, sometimes a stranger's."""
        known = self.world.identities.get(name, [])
        if place < 30 and known:
            return known[-1]
        if place < 45 and known:
            return known[-1 - (place - 30) % min(len(known), 4)]
        return ProducerIdentity(7, place)

    # Requests

    @rule(name=NAMES | st.none(), timeout_ms=st.sampled_from([60_000, 600_000]))
    def new_producer(self, name: str | None, timeout_ms: int) -> None:
        self.world.request(InitProducerId(self._next_id(), name, timeout_ms))

    @rule(name=NAMES, place=PLACES)
    def producer_goes_on(self, name: str, place: int) -> None:
        self.world.request(InitProducerId(self._next_id(), name, 60_000, self._who(name, place)))

    @rule(name=NAMES, place=PLACES, partitions=PARTITIONS, version=VERSIONS, verify=st.booleans())
    def add(self, name: str, place: int, partitions: list[TopicPartition], version: int, verify: bool) -> None:
        who = self._who(name, place)
        self.world.request(AddPartitions(self._next_id(), name, who, tuple(partitions), version, verify))

    @rule(name=NAMES, place=PLACES, commit=st.booleans(), version=VERSIONS)
    def end(self, name: str, place: int, commit: bool, version: int) -> None:
        self.world.request(EndTransaction(self._next_id(), name, self._who(name, place), commit, version))

    @rule(name=NAMES, two_phase=st.booleans(), place=PLACES | st.none())
    def producer_keeps_what_is_open(self, name: str, two_phase: bool, place: int | None) -> None:
        expected = None if place is None else self._who(name, place)
        self.world.request(
            InitProducerId(self._next_id(), name, 60_000, expected, two_phase=two_phase, keep_prepared=True)
        )

    @rule(name=NAMES, place=PLACES, context=st.sampled_from([b"", b"42"]), resolver=RESOLVERS)
    def prepare(self, name: str, place: int, context: bytes, resolver: ResolverName | None) -> None:
        who = self._who(name, place)
        self.world.request(PrepareTransaction(self._next_id(), name, who, context, resolver=resolver))

    @rule(name=NAMES, place=PLACES, commit=st.booleans(), is_unprepared=st.booleans())
    def complete(self, name: str, place: int, commit: bool, is_unprepared: bool) -> None:
        tokens = self.world.tokens.get(name, [])
        token = tokens[-1 - place % min(len(tokens), 3)] if tokens and place < 40 else self._who(name, place % 40)
        self.world.request(CompleteTransaction(self._next_id(), name, token, commit, is_unprepared))

    @rule(
        name=NAMES,
        partitions=PARTITIONS,
        dies=st.booleans(),
        keeps=st.booleans(),
        commit=st.booleans(),
        resolver=RESOLVERS,
        waits_ms=st.sampled_from([0, 1000, 1500, 5000]),
    )
    def prepared_transaction(
        self,
        name: str,
        partitions: list[TopicPartition],
        dies: bool,
        keeps: bool,
        commit: bool,
        resolver: ResolverName | None,
        waits_ms: int,
    ) -> None:
        """One is prepared, perhaps kept by a second producer, and perhaps completed by its token."""
        self.world.request(InitProducerId(self._next_id(), name))
        self.world.settle()
        if self.world.identities.get(name):
            who = self.world.identities[name][-1]
            self.world.request(AddPartitions(self._next_id(), name, who, tuple(partitions), 2))
            self.world.request(PrepareTransaction(self._next_id(), name, who, resolver=resolver))
            self.world.settle()
            self.world.tick(waits_ms)
            self.world.settle()
            if dies:
                self.world.crash(0)
            if keeps:
                self.world.request(InitProducerId(self._next_id(), name, keep_prepared=True))
            self.world.settle()
            self.world.request(CompleteTransaction(self._next_id(), name, who, commit))

    @rule(
        name=NAMES,
        resolver=RESOLVERS.filter(lambda each: each is not None),
        answers=st.lists(st.sampled_from([None, "unknown", "commit", "abort", "crash", "init"]), max_size=4),
        answers_again=st.booleans(),
    )
    def transaction_with_a_resolver(
        self, name: str, resolver: ResolverName, answers: list[str | None], answers_again: bool
    ) -> None:
        """One is prepared and left alone, but for what happens after each question."""
        self.world.settle()
        self.world.request(InitProducerId(self._next_id(), name))
        self.world.settle()
        if not self.world.identities.get(name):
            return
        who = self.world.identities[name][-1]
        self.world.request(AddPartitions(self._next_id(), name, who, (TopicPartition("orders", 0),), 2))
        self.world.request(PrepareTransaction(self._next_id(), name, who, resolver=resolver))
        self.world.settle()
        for answer in [*answers, None]:
            self.world.tick(resolver.first_after_ms + 8 * resolver.interval_ms)
            self.world.settle()
            if answer == "crash":
                self.world.crash(0)
            elif answer == "init":
                self.world.request(InitProducerId(self._next_id(), name))
            elif answer is not None:
                self.world.answer(0, commit={"commit": True, "abort": False, "unknown": None}[answer])
            self.world.settle()
        if answers_again:
            self.world.request(InitProducerId(self._next_id(), name))
            self.world.settle()
            who = self.world.identities[name][-1]
            self.world.request(AddPartitions(self._next_id(), name, who, (TopicPartition("orders", 0),), 2))
            self.world.settle()
            self.world.answer(0, commit=True)

    # Pools

    @rule(pool=POOLS)
    def program_takes_a_pool_over(self, pool: str) -> None:
        self.world.request(TakePoolOver(self._next_id(), pool))

    @rule(slot=SLOTS, place=PLACES, named=PLACES | st.none(), keeps=st.booleans())
    def producer_wants_a_slot(self, slot: str, place: int, named: int | None, keeps: bool) -> None:
        owner = self._who(slot.partition(".")[0], place)
        expected = None if named is None else self._who(slot, named)
        self.world.request(InitProducerId(self._next_id(), slot, 60_000, expected, keep_prepared=keeps, owner=owner))

    @rule(
        pool=POOLS,
        partitions=PARTITIONS,
        prepares=st.booleans(),
        then=st.sampled_from(["take over", "take over and settle", "crash", "new producer", "nothing"]),
        kept=st.integers(0, 3),
        commit=st.booleans(),
    )
    def slots_side_by_side(
        self, pool: str, partitions: list[TopicPartition], prepares: bool, then: str, kept: int, commit: bool
    ) -> None:
        """An owner has two slots open, of which one may be prepared, when something happens; then it goes on."""
        self.world.settle()
        self.world.request(TakePoolOver(self._next_id(), pool))
        self.world.settle()
        owner = self.world.identities.get(pool, [self._who(pool, 0)])[-1]
        slots = [f"{pool}.__slot-{number}" for number in (0, 1)]
        for slot in slots:
            self.world.request(InitProducerId(self._next_id(), slot, owner=owner))
            self.world.settle()
        producers = [self._who(slot, 0) for slot in slots]
        for slot, producer in zip(slots, producers, strict=True):
            self.world.request(AddPartitions(self._next_id(), slot, producer, tuple(partitions), 2))
        if prepares:
            self.world.request(PrepareTransaction(self._next_id(), slots[0], producers[0]))
        self.world.settle()
        if then.startswith("take over"):
            self.world.request(TakePoolOver(self._next_id(), pool))
        elif then == "crash":
            self.world.request(TakePoolOver(self._next_id(), pool))
            self.world.crash(kept)
        elif then == "new producer":
            self.world.request(InitProducerId(self._next_id(), pool))
        if then.endswith("settle"):
            self.world.settle()
        for slot, producer in zip(slots, producers, strict=True):
            self.world.request(EndTransaction(self._next_id(), slot, producer, commit, 2))

    @precondition(lambda self: self.world.requests)
    @rule(place=PLACES)
    def ask_again(self, place: int) -> None:
        recent = self.world.requests[-8:]
        self.world.request(replace(recent[place % len(recent)], request_id=self._next_id()))

    @rule(name=NAMES, partitions=PARTITIONS, commit=st.booleans(), version=VERSIONS)
    def whole_transaction(self, name: str, partitions: list[TopicPartition], commit: bool, version: int) -> None:
        if not self.world.identities.get(name):
            self.world.request(InitProducerId(self._next_id(), name))
            self.world.settle()
        if self.world.identities.get(name):
            who = self.world.identities[name][-1]
            self.world.request(AddPartitions(self._next_id(), name, who, tuple(partitions), version))
            self.world.settle()
            self.world.request(EndTransaction(self._next_id(), name, who, commit, version))

    # The log, the markers, the ids

    @precondition(lambda self: self.world.unwritten)
    @rule()
    def log_is_replicated(self) -> None:
        self.world.write()

    @precondition(lambda self: self.world.undelivered)
    @rule(place=PLACES)
    def log_answers(self, place: int) -> None:
        self.world.deliver(place)

    @precondition(lambda self: self.world.unwritten)
    @rule()
    def log_is_replicated_and_answers(self) -> None:
        self.world.write()
        self.world.deliver(-1)

    @rule(refusal=st.sampled_from([ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]))
    def log_refuses_or_not(self, refusal: ErrorCode) -> None:
        self.world.refusal = refusal

    @rule()
    def log_will_fail(self) -> None:
        self.world.fails_next = True

    @precondition(lambda self: self.world.is_lost)
    @rule()
    def load_again(self) -> None:
        self.world.load_again()

    @precondition(lambda self: self.world.stale)
    @rule(place=PLACES)
    def log_answers_too_late(self, place: int) -> None:
        self.world.send(self.world.stale[place % len(self.world.stale)])

    @precondition(lambda self: self.world.markers)
    @rule(back=st.integers(1, 4))
    def markers_are_written(self, back: int) -> None:
        self.world.report(-min(back, len(self.world.markers)))

    @precondition(lambda self: self.world.questions)
    @rule(place=PLACES, commit=st.sampled_from([True, False, None]))
    def resolver_answers(self, place: int, commit: bool | None) -> None:
        self.world.answer(place, commit=commit)

    @rule()
    def markers_are_forgotten(self) -> None:
        self.world.send(MarkersForgotten())

    @precondition(lambda self: self.world.wanted_blocks)
    @rule(count=st.sampled_from([1, 2, 1000]))
    def block_arrives(self, count: int) -> None:
        self.world.give_block(count)

    # Time and trouble

    @rule(limits_ms=st.dictionaries(st.sampled_from(["orders", "payments"]), st.sampled_from([1, 500, 30_000])))
    def topics_set_limits(self, limits_ms: dict[str, int]) -> None:
        self.world.send(HoldLimitsKnown(limits_ms))

    @rule(after_ms=st.sampled_from([0, 1, 100, 500, 1000, 30_000, 61_000, 700_000, 1_000_000]))
    def time_passes(self, after_ms: int) -> None:
        self.world.tick(after_ms)

    @rule(kept=st.integers(0, 7))
    def crash(self, kept: int) -> None:
        self.world.crash(kept)

    @rule(kept=st.integers(0, 7))
    def resign(self, kept: int) -> None:
        if self.world.is_led:
            self.world.lose_leadership(kept)

    @rule()
    def lead_again(self) -> None:
        if not self.world.is_led:
            self.world.lead()

    @rule()
    def peace(self) -> None:
        self.world.settle()

    @invariant()
    def whoever_is_quiet_knows_what_the_log_says(self) -> None:
        is_quiet = not self.world.unwritten and not self.world.undelivered
        if self.world.is_led and not self.world.is_lost and is_quiet:
            self.world.check_quiet()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.see_everything_end()


class LateLoggingMachine(CoordinatorMachine):
    """The same, with a log that hears of the end of a transaction later, or by the next one."""

    completion_log_delay_ms = 1000


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinatorThatLogsEndsLate = LateLoggingMachine.TestCase
