"""Leaders among repeats, zombies, late words of coordinators and readers that wait, against a model."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Isolation
from tests.property.leaders_world import PARTITIONS, LeadersWorld

PARTITION = st.sampled_from(PARTITIONS)
NAMES = st.sampled_from(["one", "two"])
ACKS = st.sampled_from([-1, -1, -1, 1, 0])
GAPS = st.sampled_from([0, 0, 0, 0, 0, 1])
PLACES = st.integers(0, 30)
ISOLATIONS = st.sampled_from(Isolation)


class LeadersMachine(RuleBasedStateMachine):
    """Anything may happen to leaders at any time; what happens between two turns comes to them together."""

    @initialize()
    def begin(self) -> None:
        self.world = LeadersWorld()

    @rule()
    def turn(self) -> None:
        self.world.turn()

    # Producers

    @rule(
        partition=PARTITION, producer_id=st.sampled_from([None, 100, 101]), epoch=st.integers(0, 2), acks=ACKS, gap=GAPS
    )
    def produce(self, partition: TopicPartition, producer_id: int | None, epoch: int, acks: int, gap: int) -> None:
        producer = None if producer_id is None else ProducerIdentity(producer_id, epoch)
        self.world.produce(partition, producer, acks=acks, gap=gap)

    @rule(name=NAMES, partition=PARTITION, acks=ACKS, gap=GAPS)
    def produce_in_transaction(self, name: str, partition: TopicPartition, acks: int, gap: int) -> None:
        self.world.produce_in_transaction(name, partition, acks=acks, gap=gap)

    @precondition(lambda self: self.world.sent)
    @rule(place=PLACES, acks=ACKS)
    def repeat(self, place: int, acks: int) -> None:
        self.world.repeat(self.world.sent[-1 - place % min(len(self.world.sent), 10)], acks=acks)

    # Coordinators

    @precondition(lambda self: self.world.questions)
    @rule(place=PLACES, refuse=st.sampled_from([False, False, False, True]))
    def coordinator_answers(self, place: int, refuse: bool) -> None:
        questions = self.world.questions
        self.world.decide_question(questions[-1 - place % min(len(questions), 4)], refuse=refuse)

    @precondition(lambda self: self.world.words)
    @rule(place=PLACES)
    def answer_arrives(self, place: int) -> None:
        self.world.deliver(self.world.words[-1 - place % min(len(self.world.words), 4)])

    @rule()
    def settle(self) -> None:
        self.world.settle()

    @rule(name=NAMES, partitions=st.lists(PARTITION, min_size=1, max_size=3), commit=st.booleans(), last=st.booleans())
    def transaction(self, name: str, partitions: list[TopicPartition], commit: bool, last: bool) -> None:
        """Write and end a transaction; its last batch may come in one turn with whatever comes next."""
        for partition in partitions:
            self.world.produce_in_transaction(name, partition, acks=-1)
            self.world.settle()
        if last:
            self.world.produce_in_transaction(name, partitions[0], acks=-1)
        self.world.end(name, commit=commit, fences=False)

    @rule(name=NAMES, partition=PARTITION, commit=st.booleans(), goes_on=st.booleans())
    def word_comes_when_all_is_over(self, name: str, partition: TopicPartition, commit: bool, goes_on: bool) -> None:
        """A coordinator confirms a batch, but the end of the transaction overtakes what it has said."""
        self.world.settle()
        asked = len(self.world.questions)
        self.world.produce_in_transaction(name, partition, acks=-1)
        self.world.turn()
        words = len(self.world.words)
        for question in self.world.questions[asked:]:
            self.world.decide_question(question, refuse=False)
        late = self.world.words[words:]
        self.world.end(name, commit=commit, fences=False)
        self.world.finish_endings()
        if goes_on:
            self.world.produce_in_transaction(name, partition, acks=-1)
        for word in late:
            self.world.deliver(word)

    @rule(name=NAMES, commit=st.booleans(), fences=st.sampled_from([False, False, True]))
    def end(self, name: str, commit: bool, fences: bool) -> None:
        self.world.end(name, commit=commit, fences=fences)

    @precondition(lambda self: self.world.endings)
    @rule(place=PLACES, is_stale=st.sampled_from([False, False, True]))
    def markers_arrive(self, place: int, is_stale: bool) -> None:
        endings = self.world.endings
        self.world.send_markers(endings[-1 - place % min(len(endings), 3)], is_stale=is_stale)

    @precondition(lambda self: self.world.marker_questions)
    @rule(is_silent=st.sampled_from([False, False, True]))
    def coordinator_says_what_is_over(self, is_silent: bool) -> None:
        self.world.tell_last_decisions(is_silent=is_silent)

    @rule()
    def new_coordinator(self) -> None:
        self.world.new_coordinator()

    # Readers

    @rule(
        wanted=st.dictionaries(PARTITION, st.sampled_from([0, 0, 0, 0.5, 1, 1]), min_size=1),
        astray=st.sampled_from([0, 0, 0, 0, -1, 1]),
        isolation=ISOLATIONS,
        max_wait_ms=st.sampled_from([0, 100, 500]),
    )
    def fetch(self, wanted: dict[TopicPartition, float], astray: int, isolation: Isolation, max_wait_ms: int) -> None:
        """Read from the beginning, the middle or the end, or from a little beside it."""
        offsets = {partition: self.world.offset_at(partition, share) + astray for partition, share in wanted.items()}
        self.world.fetch(offsets, isolation, max_wait_ms)

    @rule(partition=PARTITION, share=st.sampled_from([0, 0.2, 0.5, 1]), is_meant=st.sampled_from([False, False, True]))
    def delete_records(self, partition: TopicPartition, share: float, is_meant: bool) -> None:
        if is_meant:
            self.world.delete_records(partition, self.world.offset_at(partition, share))

    @rule(milliseconds=st.sampled_from([1, 99, 100, 400]))
    def pass_time(self, milliseconds: int) -> None:
        self.world.pass_time(milliseconds)

    # Leaders

    @rule(partition=PARTITION, reopen=st.booleans(), leads_on=st.sampled_from([True, True, True, False]))
    def resign(self, partition: TopicPartition, reopen: bool, leads_on: bool) -> None:
        if partition not in self.world.leaders:
            self.world.lead(partition)
            return
        self.world.resign(partition, reopen=reopen)
        if leads_on:
            self.world.lead(partition)

    # What may not happen

    @invariant()
    def logs_agree_with_the_answers(self) -> None:
        self.world.check_logs()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.check_everybody_is_answered()


TestPartitionLeaders = LeadersMachine.TestCase
# What goes wrong between two transactions needs two of them.
TestPartitionLeaders.settings = settings(stateful_step_count=80)
