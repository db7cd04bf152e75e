"""Markers among leaders that move, fail and stay silent: reported when written everywhere, and always in the end."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.events import BranchMarkers, MarkersWritten, SendMarkers
from eagleray.broker.transactions.marker_events import (
    NO_LEADER,
    LeadersLearned,
    MarkerCall,
    MarkerCallAnswered,
    MarkerCallUnanswered,
    MarkerEvent,
    PartitionsDeleted,
    ResolveLeaders,
)
from eagleray.broker.transactions.markers import DONE, MarkerChannelManager, MarkerConfig
from eagleray.protocol.errors import ErrorCode

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("c", 0)]
NAMES = ["t", "u", "v"]
MAX_MARKERS = 3
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
ANSWERS = st.sampled_from(
    [ErrorCode.NONE] * 4
    + [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_PRODUCER_EPOCH, FENCED]
)


class MarkerMachine(RuleBasedStateMachine):
    """Three transactional ids, four partitions, three leaders, and no mercy."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = MarkerChannelManager(MarkerConfig(max_call_markers=MAX_MARKERS, max_call_bytes=10_000))
        self.now_ms = 0
        self.calls: dict[int, MarkerCall] = {}
        self.ended_calls: list[MarkerCall] = []
        self.deleted: set[TopicPartition] = set()
        self.history: list[SendMarkers] = []
        self.latest: dict[str, SendMarkers] = {}
        self.unreported: dict[str, SendMarkers] = {}
        self.settled: dict[ProducerIdentity, set[TopicPartition]] = {}
        self.asked: set[TopicPartition] = set()

    def tell(self, event: MarkerEvent) -> None:
        for effect in self.manager.handle(event, self.now_ms):
            if isinstance(effect, MarkerCall):
                assert effect.leader not in self.calls, "one call in flight to a leader"
                assert 0 < sum(len(marker.partitions) for marker in effect.markers) <= MAX_MARKERS
                self.calls[effect.leader] = effect
            elif isinstance(effect, ResolveLeaders):
                self.asked.update(effect.partitions)
            else:
                self.see_reported(effect)

    def see_reported(self, report: MarkersWritten) -> None:
        request = self.unreported.pop(report.transactional_id)
        assert (request.coordinator_epoch, request.decision) == (report.coordinator_epoch, report.decision)
        for part in (request, *request.branches):
            done = self.settled.get(part.producer, set()) | self.deleted
            assert part.partitions <= done, "a partition lacks its marker"

    # Coordinators

    @rule(
        name=st.sampled_from(NAMES),
        partitions=st.frozensets(st.sampled_from(PARTITIONS)),
        of_branches=st.lists(st.frozensets(st.sampled_from(PARTITIONS)), max_size=3),
        moves=st.booleans(),
    )
    def decided(
        self,
        name: str,
        partitions: frozenset[TopicPartition],
        of_branches: list[frozenset[TopicPartition]],
        moves: bool,
    ) -> None:
        before = self.latest.get(name)
        epoch = (1 if before is None else before.coordinator_epoch) + moves
        decision = (0 if before is None else before.decision) + 1
        producer = ProducerIdentity(NAMES.index(name), decision)
        branches = tuple(
            BranchMarkers(ProducerIdentity(NAMES.index(name) + 10 * (place + 1), decision), bool(place % 2), written)
            for place, written in enumerate(of_branches)
        )
        request = SendMarkers(name, 0, epoch, decision, producer, True, partitions, 2, branches)
        self.history.append(request)
        self.latest[name] = self.unreported[name] = request
        self.tell(request)

    @precondition(lambda self: self.latest)
    @rule(name=st.sampled_from(NAMES))
    def asks_again(self, name: str) -> None:
        if name in self.latest:
            self.unreported[name] = self.latest[name]
            self.tell(self.latest[name])

    @precondition(lambda self: self.history)
    @rule(place=st.integers(0, 20))
    def asks_for_something_old(self, place: int) -> None:
        request = self.history[place % len(self.history)]
        under_way = self.unreported.get(request.transactional_id)
        # While something newer is under way, no coordinator listens.
        if under_way is None or request.decision > under_way.decision:
            self.unreported[request.transactional_id] = request
        self.tell(request)

    # Leaders

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), all_written=st.booleans())
    def answers(self, data: st.DataObject, all_written: bool) -> None:
        leader = data.draw(st.sampled_from(sorted(self.calls)))
        call = self.calls.pop(leader)
        self.ended_calls.append(call)
        error_codes = []
        for marker in call.markers:
            for partition in marker.partitions:
                self.see_outcome(marker)
                error_code = ErrorCode.NONE if all_written else data.draw(ANSWERS)
                error_codes.append(error_code)
                if error_code in DONE:
                    self.settled.setdefault(marker.producer, set()).add(partition)
                if error_code is FENCED:
                    self.give_up(marker.producer)
        self.tell(MarkerCallAnswered(leader, call.call_id, () if all_written else tuple(error_codes)))

    def give_up(self, producer: ProducerIdentity) -> None:
        name = NAMES[producer.producer_id % 10]
        if name in self.unreported and self.unreported[name].decision == producer.epoch:
            del self.unreported[name]

    def see_outcome(self, marker: Marker) -> None:
        """Branches take turns in how they end; the owner commits always."""
        place = marker.producer.producer_id // 10
        assert marker.commit is (place == 0 or place % 2 == 0)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def stays_silent(self, data: st.DataObject) -> None:
        leader = data.draw(st.sampled_from(sorted(self.calls)))
        call = self.calls.pop(leader)
        self.ended_calls.append(call)
        self.tell(MarkerCallUnanswered(leader, call.call_id))

    @precondition(lambda self: self.ended_calls)
    @rule(place=st.integers(0, 20), is_answer=st.booleans())
    def answers_too_late(self, place: int, is_answer: bool) -> None:
        call = self.ended_calls[place % len(self.ended_calls)]
        event = MarkerCallAnswered if is_answer else MarkerCallUnanswered
        self.tell(event(call.leader, call.call_id))

    # The cluster

    @rule(leaders=st.dictionaries(st.sampled_from(PARTITIONS), st.sampled_from([1, 2, 3, NO_LEADER])))
    def leaders_move(self, leaders: dict[TopicPartition, int]) -> None:
        alive = {partition: leader for partition, leader in leaders.items() if partition not in self.deleted}
        self.tell(LeadersLearned(alive))

    @rule(partition=st.sampled_from(PARTITIONS[2:]))
    def deleted_partition(self, partition: TopicPartition) -> None:
        self.deleted.add(partition)
        self.tell(PartitionsDeleted((partition,)))

    @rule(after_ms=st.sampled_from([1, 20, 100, 2000]))
    def time_passes(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self.tell(Tick())

    @invariant()
    def it_works_on_what_is_not_reported(self) -> None:
        assert len(self.manager) == len(self.unreported)

    def teardown(self) -> None:
        """Once leaders are known and answer, everything is written and reported."""
        for _ in range(100):
            if not self.unreported and not self.calls:
                break
            for partition in sorted(self.asked):
                if partition in self.deleted:
                    self.tell(PartitionsDeleted((partition,)))
                else:
                    self.tell(LeadersLearned({partition: 1}))
            self.asked.clear()
            for leader in sorted(self.calls):
                call = self.calls.pop(leader)
                for marker in call.markers:
                    self.settled.setdefault(marker.producer, set()).update(marker.partitions)
                self.tell(MarkerCallAnswered(leader, call.call_id))
            self.now_ms += 1000
            self.tell(Tick())
        assert not self.unreported, "never written"
        assert len(self.manager) == 0


TestMarkers = MarkerMachine.TestCase
