"""The marker channel manager, where a transaction has several producers."""

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.events import BranchMarkers, MarkersWritten, SendMarkers
from eagleray.broker.transactions.marker_events import (
    LeadersLearned,
    MarkerCall,
    MarkerCallAnswered,
    MarkerCallUnanswered,
    PartitionsDeleted,
)
from eagleray.broker.transactions.markers import MarkerChannelManager, MarkerConfig
from eagleray.protocol.errors import ErrorCode

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OWNER, FIRST, SECOND = ProducerIdentity(1, 3), ProducerIdentity(10, 1), ProducerIdentity(11, 1)
WRITTEN = [MarkersWritten("job", 4, 1, 1)]


def send(*own: TopicPartition, decision: int = 1, **branches: frozenset) -> SendMarkers:
    """One branch that commits and one that aborts, which share partitions."""
    ends = (
        BranchMarkers(FIRST, True, branches.get("first", frozenset({A0, B0}))),
        BranchMarkers(SECOND, False, branches.get("second", frozenset({A0}))),
    )
    return SendMarkers("job", 4, 1, decision, OWNER, True, frozenset(own), 2, ends)


class Manager:
    """A manager that knows its leaders, and the calls that are in flight."""

    def __init__(self, config: MarkerConfig | None = None) -> None:
        self.machine = MarkerChannelManager(config or MarkerConfig())
        self.now_ms = 0
        self.calls: dict[int, MarkerCall] = {}
        self.learn()

    def tell(self, event):
        effects = self.machine.handle(event, self.now_ms)
        self.calls.update({effect.leader: effect for effect in effects if isinstance(effect, MarkerCall)})
        return [effect for effect in effects if isinstance(effect, MarkersWritten)]

    def learn(self):
        return self.tell(LeadersLearned({A0: 1, A1: 1, B0: 2}))

    def answer(self, leader: int, *error_codes: ErrorCode):
        return self.tell(MarkerCallAnswered(leader, self.calls.pop(leader).call_id, error_codes))


@pytest.fixture
def manager() -> Manager:
    return Manager()


def marker(producer: ProducerIdentity, commit: bool, *partitions: TopicPartition) -> Marker:
    return Marker(producer, commit, 1, 2, partitions)


def test_each_producer_has_its_own_outcome_in_the_same_partition(manager):
    manager.tell(send(A0))

    assert manager.calls[1].markers == (marker(OWNER, True, A0), marker(FIRST, True, A0), marker(SECOND, False, A0))
    assert manager.calls[2].markers == (marker(FIRST, True, B0),)


def test_one_report_follows_when_all_are_written(manager):
    manager.tell(send(A1))
    assert manager.answer(1) == []
    assert len(manager.machine) == 1
    assert manager.answer(2) == WRITTEN
    assert len(manager.machine) == 0


def test_the_owner_need_not_have_written_anything(manager):
    manager.tell(send())
    assert manager.calls[1].markers == (marker(FIRST, True, A0), marker(SECOND, False, A0))
    manager.answer(1)
    assert manager.answer(2) == WRITTEN


def test_nor_need_anybody(manager):
    assert manager.tell(send(first=frozenset(), second=frozenset())) == WRITTEN


def test_only_what_failed_is_written_again(manager):
    manager.tell(send())
    assert manager.answer(1, ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT) == []
    assert manager.answer(2) == []
    manager.now_ms += 1000
    manager.tell(Tick())
    manager.learn()

    assert manager.calls[1].markers == (marker(SECOND, False, A0),)
    assert manager.answer(1) == WRITTEN


def test_a_call_without_an_answer_is_made_again_for_all(manager):
    manager.tell(send(A1))
    manager.tell(MarkerCallUnanswered(1, manager.calls.pop(1).call_id))
    manager.answer(2)
    manager.now_ms += 1000
    manager.tell(Tick())
    manager.learn()

    assert {each.producer for each in manager.calls[1].markers} == {OWNER, FIRST, SECOND}
    assert manager.answer(1) == WRITTEN


def test_the_bound_of_a_call_holds(manager):
    manager = Manager(MarkerConfig(max_call_markers=2))
    manager.tell(send(A0))
    assert sum(len(each.partitions) for each in manager.calls[1].markers) == 2
    manager.answer(2)
    assert manager.answer(1) == []
    assert manager.answer(1) == WRITTEN


def test_a_deleted_partition_is_missed_by_no_branch(manager):
    manager.tell(send())
    assert manager.tell(PartitionsDeleted((A0,))) == []
    assert manager.answer(2) == WRITTEN
    assert manager.answer(1) == []


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_coordinator_that_is_fenced_for_one_is_fenced_for_all(manager, place):
    manager.tell(send(A0))
    errors = [ErrorCode.NONE] * 3
    errors[place] = ErrorCode.TRANSACTION_COORDINATOR_FENCED

    assert manager.answer(1, *errors) == []
    assert len(manager.machine) == 0
    assert manager.answer(2) == []


def test_something_newer_takes_the_place_of_all(manager):
    manager.tell(send(A0))
    newer = SendMarkers("job", 4, 1, 2, ProducerIdentity(1, 4), False, frozenset({B0}), 2)
    manager.tell(newer)
    assert manager.answer(1) == []
    assert manager.answer(2) == []
    assert manager.calls[2].markers == (marker(ProducerIdentity(1, 4), False, B0),)
    assert manager.answer(2) == [MarkersWritten("job", 4, 1, 2)]


def test_a_request_that_is_repeated_meanwhile_changes_nothing(manager):
    manager.tell(send(A0))
    manager.answer(1)
    manager.tell(send(A0))
    assert 1 not in manager.calls
    assert manager.answer(2) == WRITTEN
