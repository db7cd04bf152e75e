"""Leaders with followers, of whom pushes and answers come late, twice or never: each is answered once, and truly."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eagleray.broker.log import Isolation
from tests.property.replicated_world import ReplicatedWorld, newest
from tests.support.replicas import CONFIG

PLACES = st.integers(0, 10)
RARELY = st.sampled_from([False, False, False, True])


class ReplicatedLeadersMachine(RuleBasedStateMachine):
    """Anything may happen between leader, followers, controller and clients at any time."""

    @initialize(least_in_sync=st.integers(1, 3))
    def begin(self, least_in_sync: int) -> None:
        self.world = ReplicatedWorld(least_in_sync)

    @rule()
    def turn(self) -> None:
        self.world.turn()

    # Clients

    @rule(
        acks=st.sampled_from([-1, -1, -1, 1, 0]), transactional=st.booleans(), timeout_ms=st.sampled_from([30, 30_000])
    )
    def produce(self, acks: int, transactional: bool, timeout_ms: int) -> None:
        self.world.produce(acks=acks, transactional=transactional, timeout_ms=timeout_ms)

    @precondition(lambda self: self.world.sent)
    @rule(place=PLACES)
    def repeat(self, place: int) -> None:
        self.world.repeat(newest(self.world.sent, place))

    @rule(place=st.none() | PLACES)
    def markers(self, place: int | None) -> None:
        begun = self.world.begun
        self.world.write_markers(ends=None if place is None or not begun else newest(begun, place))

    @rule(back=st.integers(0, 3), isolation=st.sampled_from(Isolation))
    def fetch(self, back: int, isolation: Isolation) -> None:
        log = self.world.replication.log
        self.world.fetch(max(log.log_end_offset - back, log.log_start_offset), isolation)

    @rule(back=st.integers(0, 2), is_meant=RARELY)
    def delete_records(self, back: int, is_meant: bool) -> None:
        if is_meant:
            self.world.delete_records(max(self.world.replication.log.high_watermark - back, 0))

    # The network

    @precondition(lambda self: self.world.pushes)
    @rule(place=PLACES, again=RARELY)
    def push_arrives(self, place: int, again: bool) -> None:
        self.world.deliver_push(newest(self.world.pushes, place), again=again)

    @precondition(lambda self: self.world.answers)
    @rule(place=PLACES, again=RARELY)
    def answer_arrives(self, place: int, again: bool) -> None:
        self.world.deliver_answer(newest(self.world.answers, place), again=again)

    @precondition(lambda self: self.world.pushes)
    @rule(place=PLACES)
    def push_is_lost(self, place: int) -> None:
        self.world.pushes.remove(newest(self.world.pushes, place))

    @precondition(lambda self: self.world.answers)
    @rule(place=PLACES)
    def answer_is_lost(self, place: int) -> None:
        self.world.answers.remove(newest(self.world.answers, place))

    @rule()
    def everything_arrives(self) -> None:
        self.world.catch_up()

    # The controller

    @precondition(lambda self: self.world.proposals)
    @rule(place=PLACES, is_lost=RARELY)
    def proposal_arrives(self, place: int, is_lost: bool) -> None:
        proposal = newest(self.world.proposals, place)
        if is_lost:
            self.world.proposals.remove(proposal)
        else:
            self.world.decide(proposal)

    @precondition(lambda self: self.world.decisions)
    @rule(place=PLACES)
    def decision_arrives(self, place: int) -> None:
        self.world.deliver_decision(newest(self.world.decisions, place))

    @rule()
    def metadata_arrives(self) -> None:
        self.world.deliver_metadata()

    @rule(milliseconds=st.sampled_from([1, 35, 110, CONFIG.leader_lease_ms]), is_parted=RARELY)
    def pass_time(self, milliseconds: int, is_parted: bool) -> None:
        self.world.pass_time(milliseconds, renews_lease=not is_parted)

    @rule(replication_first=st.booleans(), turn_between=st.booleans(), is_meant=RARELY)
    def resign(self, replication_first: bool, turn_between: bool, is_meant: bool) -> None:
        if is_meant:
            self.world.resign(replication_first=replication_first, turn_between=turn_between)

    # What may not happen

    @invariant()
    def offsets_are_in_order(self) -> None:
        self.world.check_offsets()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.check_everybody_is_answered()


TestReplicatedLeaders = ReplicatedLeadersMachine.TestCase
TestReplicatedLeaders.settings = settings(stateful_step_count=80)
