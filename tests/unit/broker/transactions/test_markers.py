"""The marker channel manager: one call to each leader at a time, until every partition has its marker."""

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.events import MarkersWritten, SendMarkers
from eagleray.broker.transactions.marker_events import (
    NO_LEADER,
    LeadersLearned,
    MarkerCall,
    MarkerCallAnswered,
    MarkerCallUnanswered,
    MarkerEffect,
    MarkerEvent,
    PartitionsDeleted,
    ResolveLeaders,
)
from eagleray.broker.transactions.markers import DONE, MarkerChannelManager, MarkerConfig
from eagleray.protocol.errors import ErrorCode

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RETRIED = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def send(name: str, *partitions: TopicPartition, epoch: int = 1, decision: int = 1, version: int = 1) -> SendMarkers:
    """A request for markers; each name has a producer id of its own."""
    producer = ProducerIdentity(sum(name.encode()), 3)
    return SendMarkers(name, 4, epoch, decision, producer, True, frozenset(partitions), version)


def written(request: SendMarkers) -> MarkersWritten:
    return MarkersWritten(request.transactional_id, request.log_partition, request.coordinator_epoch, request.decision)


class Manager:
    """A manager, its clock, and the calls that are in flight."""

    def __init__(self, config: MarkerConfig | None = None, leaders: dict[TopicPartition, int] | None = None) -> None:
        self.machine = MarkerChannelManager(config or MarkerConfig())
        self.now_ms = 0
        self.calls: dict[int, MarkerCall] = {}
        self.tell(LeadersLearned({A0: 1, A1: 1, B0: 2} if leaders is None else leaders))

    def tell(self, event: MarkerEvent) -> list[MarkerEffect]:
        effects = self.machine.handle(event, self.now_ms)
        for effect in effects:
            if isinstance(effect, MarkerCall):
                assert effect.leader not in self.calls, "one call at a time"
                self.calls[effect.leader] = effect
        return effects

    def answer(self, leader: int, *error_codes: ErrorCode) -> list[MarkerEffect]:
        call = self.calls.pop(leader)
        return self.tell(MarkerCallAnswered(leader, call.call_id, error_codes))

    def no_answer(self, leader: int) -> list[MarkerEffect]:
        return self.tell(MarkerCallUnanswered(leader, self.calls.pop(leader).call_id))

    def tick(self, after_ms: int) -> list[MarkerEffect]:
        self.now_ms += after_ms
        due_ms = self.machine.next_due_ms
        effects = self.tell(Tick())
        assert not effects or due_ms <= self.now_ms, "what time makes necessary was said to be due"
        return effects

    def told(self, leader: int) -> list[set[TopicPartition]]:
        return [set(marker.partitions) for marker in self.calls[leader].markers]


@pytest.fixture
def manager() -> Manager:
    return Manager()


def test_a_transaction_on_two_leaders(manager: Manager):
    request = send("t", A0, A1, B0, version=2)

    manager.tell(request)

    [marker] = manager.calls[1].markers
    assert set(marker.partitions) == {A0, A1}
    assert manager.calls[2].markers == (Marker(request.producer, True, 1, 2, (B0,)),)
    assert manager.answer(1) == []
    assert manager.answer(2) == [written(request)]
    assert len(manager.machine) == 0


def test_a_marker_of_version_1_has_the_number_and_the_id_of_its_decision(manager: Manager):
    request = send("t", A0, decision=12)

    manager.tell(request)

    assert manager.calls[1].markers == (Marker(request.producer, True, 1, 1, (A0,), 12, "t"),)


def test_a_leader_that_has_to_ask_the_coordinator_first_is_asked_again_and_one_that_knows_of_the_end_is_not(
    manager: Manager,
):
    request = send("t", A0)
    manager.tell(request)

    assert manager.answer(1, ErrorCode.CONCURRENT_TRANSACTIONS) == []
    manager.tick(20)
    manager.tell(LeadersLearned({A0: 1}))

    assert manager.answer(1, ErrorCode.INVALID_PRODUCER_EPOCH) == [written(request)]


def test_a_late_answer_to_a_call_that_was_tried_again_changes_nothing(manager: Manager):
    request = send("t", A0)
    manager.tell(request)
    late = manager.calls[1].call_id
    manager.no_answer(1)
    manager.tick(20)
    manager.tell(LeadersLearned({A0: 1}))

    assert manager.tell(MarkerCallAnswered(1, late, (ErrorCode.NONE,))) == []
    assert manager.answer(1) == [written(request)]


def test_a_manager_that_begins_anew_repeats_a_decision_under_its_number(manager: Manager):
    request = send("t", A0, decision=12)
    manager.tell(request)
    successor = Manager()

    successor.tell(request)

    assert successor.calls[1].markers == manager.calls[1].markers


def test_markers_that_come_while_a_call_is_in_flight_go_together_into_the_next(manager: Manager):
    manager.tell(send("first", A0))
    for name in ("second", "third", "fourth"):
        assert manager.tell(send(name, A0, A1)) == []

    effects = manager.answer(1)

    assert effects[0] == written(send("first", A0))
    assert manager.told(1) == [{A0, A1}] * 3
    assert manager.answer(1) == [written(send(name, A0)) for name in ("second", "third", "fourth")]


def test_leaders_do_not_wait_for_each_other(manager: Manager):
    manager.tell(send("first", A0))

    manager.tell(send("second", B0))

    assert manager.calls.keys() == {1, 2}


def test_a_call_is_bounded_by_count():
    manager = Manager(MarkerConfig(max_call_markers=3))
    for number in range(8):
        manager.tell(send(str(number), A0))

    sizes = []
    while 1 in manager.calls:
        sizes.append(sum(len(marker.partitions) for marker in manager.calls[1].markers))
        manager.answer(1)

    assert sizes == [1, 3, 3, 1]
    assert len(manager.machine) == 0


def test_a_call_is_bounded_by_bytes_but_never_empty():
    long_name = TopicPartition("x" * 200, 0)
    manager = Manager(MarkerConfig(max_call_bytes=500), {long_name: 1, A0: 1})
    manager.tell(send("first", A0))
    for number in range(4):
        manager.tell(send(str(number), long_name))
    tight = Manager(MarkerConfig(max_call_bytes=1))
    tight.tell(send("t", A0, A1))

    manager.answer(1)
    assert len(manager.calls[1].markers) == 2
    assert len(tight.calls[1].markers[0].partitions) == 1


def test_one_transaction_may_need_several_calls_to_one_leader():
    partitions = [TopicPartition("a", number) for number in range(5)]
    manager = Manager(MarkerConfig(max_call_markers=2), dict.fromkeys(partitions, 1))
    request = send("t", *partitions)
    manager.tell(request)

    assert manager.answer(1)[-1:] != [written(request)]
    manager.answer(1)
    assert manager.answer(1) == [written(request)]


def test_without_partitions_there_is_nothing_to_write(manager: Manager):
    assert manager.tell(send("t")) == [written(send("t"))]


# Errors


@pytest.mark.parametrize("error_code", RETRIED)
def test_marker_that_failed_is_tried_again_after_a_pause_and_its_leader_looked_up(
    manager: Manager, error_code: ErrorCode
):
    request = send("t", A0)
    manager.tell(request)

    assert manager.answer(1, error_code) == []
    assert manager.tick(19) == []
    assert manager.tick(1) == [ResolveLeaders((A0,))]
    [call] = manager.tell(LeadersLearned({A0: 9}))

    assert isinstance(call, MarkerCall)
    assert call.leader == 9
    assert manager.answer(9) == [written(request)]


def test_only_what_failed_is_tried_again(manager: Manager):
    manager.tell(send("t", A0, A1))
    first, _ = manager.calls[1].markers[0].partitions

    manager.answer(1, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE)
    manager.tick(20)
    manager.tell(LeadersLearned({first: 1}))

    assert manager.told(1) == [{first}]


def test_pauses_grow_up_to_a_bound():
    manager = Manager(MarkerConfig(retry_backoff_ms=20, retry_backoff_max_ms=100))
    manager.tell(send("t", A0))

    for pause_ms in (20, 40, 80, 100, 100):
        manager.answer(1, ErrorCode.NOT_ENOUGH_REPLICAS)
        assert manager.tick(pause_ms - 1) == []
        assert manager.tick(1) == [ResolveLeaders((A0,))]
        manager.tell(LeadersLearned({A0: 1}))


def test_a_leader_that_was_learned_meanwhile_is_not_doubted(manager: Manager):
    manager.tell(send("t", A0))
    manager.tell(LeadersLearned({A0: 2}))

    manager.answer(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    manager.tick(20)

    assert manager.told(2) == [{A0}]


@pytest.mark.parametrize("error_code", sorted(DONE))
def test_some_answers_mean_that_no_marker_is_needed(manager: Manager, error_code: ErrorCode):
    request = send("t", A0)
    manager.tell(request)

    assert manager.answer(1, error_code) == [written(request)]


def test_a_fenced_coordinator_is_not_served_any_more(manager: Manager):
    fenced, other = send("fenced", A0, B0), send("other", A0)
    manager.tell(fenced)
    manager.tell(other)

    effects = manager.answer(1, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    assert [type(effect) for effect in effects] == [MarkerCall], "the other goes on"
    assert manager.answer(2) == [], "what still comes for the fenced one is of no interest"
    assert manager.answer(1) == [written(other)]
    assert len(manager.machine) == 0
    assert manager.tick(10_000) == []


def test_several_partitions_may_say_that_the_coordinator_is_fenced(manager: Manager):
    manager.tell(send("t", A0, A1))

    assert manager.answer(1, *[ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 2) == []
    assert len(manager.machine) == 0


def test_a_call_without_an_answer_lets_those_behind_it_look_for_another_leader(manager: Manager):
    manager.tell(send("first", A0))
    manager.tell(send("second", A1))

    assert manager.no_answer(1) == [ResolveLeaders((A1,))]
    assert manager.tick(20) == [ResolveLeaders((A0,))]
    manager.tell(LeadersLearned({A0: 3, A1: 3}))

    manager.answer(3)
    assert len(manager.machine) == 0


def test_an_answer_to_a_call_that_is_long_over_is_not_taken_for_another(manager: Manager):
    manager.tell(send("t", A0))
    old = manager.calls[1]
    manager.no_answer(1)
    manager.tick(20)
    manager.tell(LeadersLearned({A0: 1}))

    assert manager.tell(MarkerCallAnswered(1, old.call_id, (ErrorCode.TRANSACTION_COORDINATOR_FENCED,))) == []
    assert manager.tell(MarkerCallUnanswered(1, old.call_id)) == []

    assert manager.answer(1) == [written(send("t", A0))]


# Leaders


def test_an_unknown_leader_is_asked_for_once_and_again_after_a_while():
    manager = Manager(leaders={})
    assert manager.tell(send("first", A0)) == [ResolveLeaders((A0,))]
    assert manager.tell(send("second", A0, A1)) == [ResolveLeaders((A1,))]
    assert manager.tick(199) == []

    [question] = manager.tick(1)

    assert set(question.partitions) == {A0, A1}
    manager.tell(LeadersLearned({A0: 1, A1: 1}))
    assert manager.told(1) in ([{A0}, {A0}, {A1}], [{A0}, {A0, A1}])
    assert manager.tick(10_000) == []


def test_a_partition_without_a_leader_waits_for_one(manager: Manager):
    manager.tell(LeadersLearned({A0: NO_LEADER}))

    assert manager.tell(send("t", A0)) == [ResolveLeaders((A0,))]
    assert manager.tell(LeadersLearned({A0: NO_LEADER})) == []
    manager.tell(LeadersLearned({A0: 5}))

    assert manager.answer(5) == [written(send("t", A0))]


def test_a_deleted_partition_needs_no_marker(manager: Manager):
    unresolved, queued, in_flight = TopicPartition("u", 0), A1, A0
    request = send("t", unresolved, in_flight)
    behind = send("behind", queued, in_flight)
    manager.tell(request)
    manager.tell(behind)

    assert manager.tell(PartitionsDeleted((unresolved, queued))) == []
    assert manager.tell(PartitionsDeleted((in_flight,))) == [written(request), written(behind)]

    assert manager.answer(1) == [], "and what was in flight is of no interest"
    assert manager.tick(10_000) == []


# The same transactional id again


def test_the_same_request_again_is_not_done_twice(manager: Manager):
    manager.tell(send("t", A0))

    assert manager.tell(send("t", A0)) == []
    assert manager.answer(1) == [written(send("t", A0))]


@pytest.mark.parametrize(("epoch", "decision"), [(2, 1), (1, 2)])
def test_a_newer_request_takes_the_place_of_an_older(manager: Manager, epoch: int, decision: int):
    newer = send("t", A0, epoch=epoch, decision=decision)
    manager.tell(send("t", A0, B0))
    manager.tell(newer)

    effects = manager.answer(1)

    assert [type(effect) for effect in effects] == [MarkerCall], "nothing is reported for the older"
    assert manager.answer(2) == []
    assert manager.answer(1) == [written(newer)]


@pytest.mark.parametrize(("epoch", "decision"), [(1, 9), (2, 1)])
def test_an_older_request_is_ignored(manager: Manager, epoch: int, decision: int):
    newer = send("t", A0, epoch=2, decision=2)
    manager.tell(newer)

    assert manager.tell(send("t", A0, B0, epoch=epoch, decision=decision)) == []
    assert manager.answer(1) == [written(newer)]


def test_fence_that_was_meant_for_the_older_does_not_stop_the_newer(manager: Manager):
    newer = send("t", A0, epoch=2)
    manager.tell(send("t", A0))
    manager.tell(newer)

    manager.answer(1, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    assert manager.answer(1) == [written(newer)]


def test_queued_markers_of_a_replaced_request_are_not_sent(manager: Manager):
    manager.tell(send("in-flight", A0))
    manager.tell(send("t", A0, A1))
    manager.tell(send("t", A1, epoch=2))

    manager.answer(1)

    assert manager.told(1) == [{A1}]
