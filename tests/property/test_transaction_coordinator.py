"""The coordinator among zombies, lost records, late markers and restarts, against a model of what may not happen."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, InitProducerId, MarkersForgotten
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinator_world import CoordinatorWorld

NAMES = st.sampled_from(["checkout", "billing"])
PLACES = st.integers(0, 50)
VERSIONS = st.sampled_from([1, 2])
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

    @rule()
    def markers_are_forgotten(self) -> None:
        self.world.send(MarkersForgotten())

    @precondition(lambda self: self.world.wanted_blocks)
    @rule(count=st.sampled_from([1, 2, 1000]))
    def block_arrives(self, count: int) -> None:
        self.world.give_block(count)

    # Time and trouble

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
