"""What a leader answers when others keep the partition too: to whom, when, and never twice."""

import msgspec
import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import (
    EARLIEST_TIMESTAMP,
    LARGEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    DeleteRecords,
    Fetch,
    Fetched,
    FetchPartition,
    ListOffset,
    MarkersAnswered,
    OffsetListed,
    PartitionAdvanced,
    Produced,
    RecordsDeleted,
    VerifyTransaction,
)
from eagleray.broker.partitions.leader import MARKERS_TIMEOUT_MS
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.events import BrokerHeartbeatAnswered, PartitionFailed, Replicated, Resigned, SendPush
from eagleray.broker.replication.lease import Lease
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, offsets_of
from tests.support.faults import Fault, Operation, Outcome
from tests.support.leading import (
    ORDERS,
    PAYMENTS,
    alone,
    fetch,
    in_transaction,
    markers,
    open_log,
    plain,
    replied,
    verified,
)
from tests.support.replicas import CONFIG, INCARNATIONS, has_all, held_lease, leader_of, pushes_in
from tests.support.simulated_disk import SimulatedDisk

STEADY_MS = 5000
"""By another clock than the logs', so that no test mistakes one for the other."""


class Led:
    """`ORDERS` led with two followers that are told what to answer, and `PAYMENTS` led alone."""

    def __init__(self, lease: Lease | None = None, **options: int) -> None:
        self.disk = SimulatedDisk()
        self.lease = lease or held_lease(STEADY_MS)
        self.replication = leader_of(open_log(self.disk), lease=self.lease, **options)
        self.log = self.replication.log
        self.leaders = PartitionLeaders()
        self.leaders.lead(ORDERS, self.replication)
        self.leaders.lead(PAYMENTS, alone(open_log(self.disk, PAYMENTS), partition=PAYMENTS))
        self._pushes = pushes_in(self.replication.learn(self.replication.state, INCARNATIONS, STEADY_MS))
        self.handle()
        self.followers_answer()

    def handle(self, *events, steady_ms=STEADY_MS):
        """Take a turn; keep the pushes, and return the rest."""
        effects = replied(self.leaders.handle(events, NOW_MS, steady_ms))
        self._pushes |= pushes_in(effects)
        return [effect for effect in effects if not isinstance(effect, SendPush)]

    def resign(self):
        """Stop leading, and return what is answered."""
        _, effects = self.leaders.resign(ORDERS)
        return [effect for effect in replied(effects) if not isinstance(effect, Resigned)]

    def followers_answer(self, *node_ids, steady_ms=STEADY_MS):
        """Let followers have everything, and tell the leaders what comes of it; by default both, until all is quiet."""
        effects = []
        while due := [node_id for node_id in self._pushes if not node_ids or node_id in node_ids]:
            for node_id in due:
                answer = has_all(self._pushes.pop(node_id), node_id)
                effects += self.told(self.replication.push_answered(answer, steady_ms), steady_ms)
        return effects

    def told(self, effects, steady_ms=STEADY_MS):
        """Answer what a replication gives back, and tell the leaders that it has moved, as a node does."""
        self._pushes |= pushes_in(effects)
        answers = replied(effect for effect in effects if isinstance(effect, Replicated))
        return [*answers, *self.handle(PartitionAdvanced(ORDERS), steady_ms=steady_ms)]

    def follow_up(self, log):
        """Lead the same log at the next epoch."""
        self.replication = leader_of(log, epoch=self.replication.leader_epoch + 1, lease=self.lease)
        self.leaders.lead(ORDERS, self.replication)
        self._pushes = pushes_in(self.replication.learn(self.replication.state, INCARNATIONS, STEADY_MS))

    def tick(self, steady_ms):
        return self.told(self.replication.tick(steady_ms), steady_ms)


@pytest.fixture
def led():
    return Led()


def codes(effects):
    return {effect.request_id: effect.error_code for effect in effects if isinstance(effect, Produced)}


def marked(effects):
    return {effect.request_id: effect.error_codes for effect in effects if isinstance(effect, MarkersAnswered)}


# Produce


def test_producer_that_waits_for_all_is_answered_when_the_last_in_sync_has_the_batch(led):
    assert led.handle(plain(1), plain(2, acks=1), plain(3, acks=0)) == [Produced(2, ErrorCode.NONE, 1, -1, 0)]
    assert led.followers_answer(2) == []
    assert led.followers_answer(3) == [Produced(1, ErrorCode.NONE, 0, -1, 0)]
    assert led.log.log_end_offset == 3


def test_each_waits_for_its_own_batch_alone(led):
    led.handle(plain(1))
    led.handle(plain(2))
    assert codes(led.followers_answer(2)) == {}
    push = led._pushes.pop(3)
    assert codes(led.told(led.replication.push_answered(has_all(push, 3), STEADY_MS))) == {1: ErrorCode.NONE}
    assert codes(led.followers_answer()) == {2: ErrorCode.NONE}


def test_batches_written_together_wait_as_one_and_are_answered_each(led):
    led.handle(plain(1), plain(2), plain(3))
    assert len(led.replication._waiters) == 1
    assert [answer.base_offset for answer in led.followers_answer()] == [0, 1, 2]


def test_batches_written_together_are_told_each_that_the_outcome_is_unknown(led):
    led.handle(plain(1), plain(2))
    answers = led.resign()
    assert codes(answers) == dict.fromkeys((1, 2), ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_repeat_of_what_is_not_replicated_waits_like_the_first(led):
    led.handle(plain(1, producer_id=7))
    assert led.handle(plain(2, producer_id=7)) == []
    answers = led.followers_answer()
    assert {(one.request_id, one.error_code, one.base_offset) for one in answers} == {
        (1, ErrorCode.NONE, 0),
        (2, ErrorCode.NONE, 0),
    }


def test_a_repeat_of_what_is_replicated_is_answered_at_once_whatever_else_waits(led):
    led.handle(plain(1, producer_id=7))
    led.followers_answer()
    led.handle(plain(2))
    assert codes(led.handle(plain(3, producer_id=7))) == {3: ErrorCode.NONE}


def test_a_refusal_of_the_log_does_not_wait(led):
    led.handle(plain(1, producer_id=7))
    assert codes(led.handle(plain(2, producer_id=7, sequence=5))) == {2: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


def test_without_a_lease_nothing_is_appended():
    led = Led(Lease(CONFIG))
    assert codes(led.handle(plain(1), plain(2, acks=1), plain(3, acks=0), plain(4, PAYMENTS))) == {
        1: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        2: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        4: ErrorCode.NONE,
    }
    assert led.log.log_end_offset == 0


def test_leader_that_may_have_been_replaced_says_of_no_offset_that_it_is_out_of_range(led):
    beyond = Fetch(1, (FetchPartition(ORDERS, 100, max_bytes=1000),))
    (fetched,) = led.handle(beyond)
    assert fetched.partitions[0].error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    (fetched,) = led.handle(beyond, steady_ms=STEADY_MS + CONFIG.leader_lease_ms)
    assert fetched.partitions[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_lease_that_ends_holds_waiting_answers_back_until_there_is_one(led):
    led.handle(plain(1))
    later_ms = STEADY_MS + CONFIG.leader_lease_ms
    assert led.followers_answer(steady_ms=later_ms) == []
    led.lease.answered(BrokerHeartbeatAnswered(1, INCARNATIONS[1], later_ms, ErrorCode.NONE, 0))
    assert codes(led.tick(later_ms)) == {1: ErrorCode.NONE}


def test_with_too_few_in_sync_only_who_does_not_wait_for_all_is_taken():
    led = Led(min_insync_replicas=3)
    led.handle(plain(1, acks=1))
    late_ms = STEADY_MS + CONFIG.replica_lag_time_max_ms + 1
    effects = led.handle(plain(2), plain(3, acks=1), plain(4, acks=0), markers(5, ORDERS), steady_ms=late_ms)
    assert codes(effects) == {2: ErrorCode.NOT_ENOUGH_REPLICAS, 3: ErrorCode.NONE}
    assert marked(effects) == {5: (ErrorCode.NOT_ENOUGH_REPLICAS,)}
    assert led.log.log_end_offset == 3


def test_producer_that_waits_when_too_few_are_left_in_sync_is_told():
    led = Led(min_insync_replicas=3)
    led.handle(plain(1))
    late_ms = STEADY_MS + CONFIG.replica_lag_time_max_ms + 1
    assert codes(led.tick(late_ms)) == {1: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


def test_producer_that_waits_for_too_long_is_told_and_not_answered_again(led):
    events = plain(1), plain(2)
    led.handle(events[0], type(events[1])(2, ORDERS, events[1].records, timeout_ms=20))
    assert codes(led.tick(STEADY_MS + 19)) == {}
    assert codes(led.tick(STEADY_MS + 20)) == {2: ErrorCode.REQUEST_TIMED_OUT}
    assert codes(led.followers_answer(steady_ms=STEADY_MS + 21)) == {1: ErrorCode.NONE}


def test_a_confirmed_batch_waits_to_be_replicated_too(led):
    (question,) = led.handle(in_transaction(1))
    assert led.handle(verified(question)) == []
    assert codes(led.followers_answer()) == {1: ErrorCode.NONE}


def test_a_leader_that_has_resigned_does_not_add_itself_to_transactions(led):
    led.replication.resign()
    effects = led.handle(in_transaction(1, version=2))
    assert codes(effects) == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert not any(isinstance(effect, VerifyTransaction) for effect in effects)


# Markers


def test_markers_are_answered_when_every_partition_has_replicated_its_own(led):
    assert led.handle(markers(1, ORDERS, PAYMENTS)) == []
    assert led.followers_answer(2) == []
    assert led.followers_answer(3) == [MarkersAnswered(1)]


def test_a_marker_that_is_refused_is_not_done_before_what_refuses_it_is_replicated(led):
    """Coordinators take it for done when a later epoch of the producer was there before."""
    led.handle(markers(1, ORDERS, producer=ProducerIdentity(7, 2), version=2))
    assert led.handle(markers(2, ORDERS, producer=ProducerIdentity(7, 1), version=2)) == []
    assert marked(led.followers_answer()) == {1: (), 2: (ErrorCode.INVALID_PRODUCER_EPOCH,)}


def test_markers_without_a_lease_are_not_written():
    led = Led(Lease(CONFIG))
    assert led.handle(markers(1, PAYMENTS, ORDERS)) == [
        MarkersAnswered(1, (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    ]
    assert led.log.log_end_offset == 0


def test_markers_that_wait_for_too_long_are_told_by_partition(led):
    led.handle(markers(1, ORDERS, PAYMENTS))
    late_ms = STEADY_MS + MARKERS_TIMEOUT_MS
    led.replication.min_insync_replicas = 1
    assert marked(led.tick(late_ms)) == {1: (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE)}
    assert marked(led.followers_answer(steady_ms=late_ms)) == {}


# Readers


def test_a_fetch_that_waits_is_answered_when_the_high_watermark_has_moved(led):
    assert led.handle(fetch(1), plain(2, acks=1)) == [Produced(2, ErrorCode.NONE, 0, -1, 0)]
    (fetched,) = led.followers_answer()
    assert isinstance(fetched, Fetched)
    assert offsets_of(fetched.partitions[0].records) == [0]
    assert led.handle(Tick(), steady_ms=STEADY_MS + 10_000) == []


def test_a_committed_reader_sees_a_transaction_when_its_marker_is_replicated(led):
    (question,) = led.handle(in_transaction(1))
    led.handle(verified(question))
    led.followers_answer()
    led.handle(markers(2, ORDERS))
    (fetched,) = led.handle(fetch(3, isolation=Isolation.READ_COMMITTED, max_wait_ms=0))
    assert (fetched.partitions[0].records, fetched.partitions[0].last_stable_offset) == (b"", 0)
    led.followers_answer()
    (fetched,) = led.handle(fetch(4, isolation=Isolation.READ_COMMITTED, max_wait_ms=0))
    assert offsets_of(fetched.partitions[0].records) == [0, 1]


@pytest.fixture
def successor(led):
    """A new leader of a log in which the high watermark has not come up to the end."""
    led.handle(plain(1, acks=1))
    led.followers_answer()
    led.handle(plain(2, acks=1, timestamps_ms=[NOW_MS + 5]))
    log, _ = led.leaders.resign(ORDERS)
    led.follow_up(log)
    return led


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(LATEST_TIMESTAMP, 2), (NOW_MS + 5, 1), (LARGEST_TIMESTAMP, 1), (NOW_MS + 6, -1)],
)
def test_a_new_leader_does_not_tell_an_end_that_may_be_behind_what_was_shown(successor, timestamp, offset):
    assert successor.handle(ListOffset(1, ORDERS, timestamp)) == [OffsetListed(1, ErrorCode.OFFSET_NOT_AVAILABLE)]
    successor.followers_answer()
    (listed,) = successor.handle(ListOffset(2, ORDERS, timestamp))
    assert (listed.error_code, listed.offset) == (ErrorCode.NONE, offset)


@pytest.mark.parametrize("timestamp", [EARLIEST_TIMESTAMP, 0, NOW_MS])
def test_a_new_leader_tells_what_no_leader_can_have_told_otherwise(successor, timestamp):
    (listed,) = successor.handle(ListOffset(1, ORDERS, timestamp))
    assert (listed.error_code, listed.offset) == (ErrorCode.NONE, 0)


def test_a_reader_beyond_the_high_watermark_of_a_new_leader_waits_for_it(successor):
    assert successor.handle(fetch(1, 1), fetch(2, 2)) == []
    (fetched,) = successor.followers_answer()
    assert (fetched.request_id, offsets_of(fetched.partitions[0].records)) == (1, [1])
    (fetched,) = successor.handle(fetch(3, 3))
    assert fetched.partitions[0].error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_leader_without_a_lease_serves_readers_on(led):
    led.handle(plain(1))
    led.followers_answer()
    late_ms = STEADY_MS + CONFIG.leader_lease_ms
    (fetched, listed) = led.handle(fetch(2), ListOffset(3, ORDERS, LATEST_TIMESTAMP), steady_ms=late_ms)
    assert offsets_of(fetched.partitions[0].records) == [0]
    assert (listed.error_code, listed.offset) == (ErrorCode.NONE, 1)


# Deleting


def deletable(led):
    led.handle(plain(1, acks=1), plain(2, acks=1))
    led.followers_answer()


def test_deletion_is_answered_when_all_in_sync_have_deleted(led):
    deletable(led)
    assert led.handle(DeleteRecords(3, ORDERS, 1)) == []
    assert led.log.log_start_offset == 1
    assert led.followers_answer(2) == []
    assert led.followers_answer(3) == [RecordsDeleted(3, ErrorCode.NONE, 1)]
    assert led.handle(DeleteRecords(4, ORDERS, 1)) == [RecordsDeleted(4, ErrorCode.NONE, 1)]


def test_a_push_that_was_on_its_way_before_a_deletion_does_not_speak_for_it(led):
    deletable(led)
    led.handle(plain(3, acks=1))
    before = dict(led._pushes)
    led.handle(DeleteRecords(4, ORDERS, 1))
    for node_id, push in before.items():
        assert led.told(led.replication.push_answered(has_all(push, node_id), STEADY_MS)) == []
    assert led.followers_answer() == [RecordsDeleted(4, ErrorCode.NONE, 1)]


def test_a_deletion_that_not_all_have_followed_in_time_is_told(led):
    deletable(led)
    led.handle(DeleteRecords(3, ORDERS, 1, timeout_ms=40))
    led.followers_answer(2)
    assert led.tick(STEADY_MS + 39) == []
    assert led.tick(STEADY_MS + 40) == [RecordsDeleted(3, ErrorCode.REQUEST_TIMED_OUT)]


def test_a_deletion_does_not_wait_for_who_has_left_the_in_sync_set(led):
    deletable(led)
    led.handle(DeleteRecords(3, ORDERS, 1))
    led.followers_answer(2)
    without = msgspec.structs.replace(led.replication.state, isr=(1, 2), partition_epoch=1)
    led.told(led.replication.learn(without, INCARNATIONS, STEADY_MS))
    assert led.tick(STEADY_MS) == [RecordsDeleted(3, ErrorCode.NONE, 1)]


def test_leader_that_may_not_lead_deletes_nothing(led):
    deletable(led)
    late_ms = STEADY_MS + CONFIG.leader_lease_ms
    refused = [RecordsDeleted(3, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert led.handle(DeleteRecords(3, ORDERS, 1), steady_ms=late_ms) == refused
    led.replication.resign()
    assert led.handle(DeleteRecords(3, ORDERS, 1)) == refused
    assert led.log.log_start_offset == 0


# Resigning


@pytest.mark.parametrize("replication_first", [True, False])
def test_producer_that_waits_on_a_leader_that_resigns_is_told_once_in_whatever_order_it_comes(led, replication_first):
    deletable(led)
    led.handle(plain(1), markers(2, PAYMENTS, ORDERS), DeleteRecords(3, ORDERS, 1))
    effects = led.told(led.replication.resign()) if replication_first else []
    effects += led.resign()
    assert led.told(led.replication.resign()) == []
    assert codes(effects) == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert marked(effects) == {2: (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)}
    assert RecordsDeleted(3, ErrorCode.NOT_LEADER_OR_FOLLOWER) in effects
    assert len(effects) == 3


def test_the_word_of_a_replication_that_has_resigned_answers_before_the_partition_is_given_up(led):
    led.handle(plain(1), markers(2, PAYMENTS, ORDERS))
    effects = led.told(led.replication.resign())
    assert codes(effects) == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert marked(effects) == {2: (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)}
    assert led.resign() == []


def test_the_next_leader_is_not_taken_for_the_one_that_resigned(led):
    led.handle(plain(1))
    late = led.replication.resign()
    log, _ = led.leaders.resign(ORDERS)
    led.follow_up(log)
    led.handle(plain(2))
    assert codes(led.told(late)) == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert codes(led.followers_answer()) == {2: ErrorCode.NONE}


def test_a_log_that_fails_resigns_so_that_another_replica_can_lead(led):
    led.handle(plain(1))
    path = f"/{ORDERS}/00000000000000000000.log"
    broken = Fault(Outcome.FAIL, on=Operation.TRUNCATE, path_ending=path, is_lasting=True)
    torn = Fault(Outcome.FAIL, on=Operation.WRITE, path_ending=path, done_bytes=1)
    with led.disk.injected(torn), led.disk.injected(broken):
        effects = led.handle(plain(2), markers(3, ORDERS, PAYMENTS))
    assert codes(effects) == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: ErrorCode.KAFKA_STORAGE_ERROR}
    assert marked(effects) == {3: (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)}
    assert [type(one) for one in effects if isinstance(one, PartitionFailed | Resigned)] == [PartitionFailed, Resigned]
    assert not led.replication.is_leading
    assert codes(led.handle(plain(4))) == {4: ErrorCode.KAFKA_STORAGE_ERROR}
