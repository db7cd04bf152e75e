"""Pools: one record takes all slots over, and each slot is a transactional id with a producer of its own."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.descriptions import DescribeTransaction
from eagleray.broker.transactions.events import (
    BeginBranched,
    ForgetTransactionalId,
    InitProducerId,
    PoolReply,
    TakePoolOver,
)
from eagleray.broker.transactions.log_records import encode_key
from eagleray.broker.transactions.pools.names import log_partition_of, slot_name, slot_of
from eagleray.broker.transactions.preparation import Preparation
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, RESOLVER, CoordinatorDriver, snapshot

POOL = "checkout"
NONE = ErrorCode.NONE
DAY_MS = 24 * 60 * 60 * 1000


class PoolDriver(CoordinatorDriver):
    """A coordinator that is asked for pools and slots."""

    def take(self) -> int:
        return self.request(TakePoolOver, POOL)

    def taken(self) -> PoolReply:
        request_id = self.take()
        self.settle()
        reply = self.replies[request_id]
        assert isinstance(reply, PoolReply)
        assert reply.error_code is NONE
        return reply

    def ask_slot(self, owner: ProducerIdentity | None, number: int, **fields: object) -> int:
        return self.request(InitProducerId, slot_name(POOL, number), owner=owner, **fields)

    def slot(self, owner: ProducerIdentity, number: int) -> ProducerIdentity:
        request_id = self.ask_slot(owner, number)
        self.settle()
        reply = self.replies[request_id]
        assert reply.error_code is NONE
        return reply.producer

    def open_slot(self, owner: ProducerIdentity, number: int) -> ProducerIdentity:
        """A slot with an open transaction."""
        producer = self.slot(owner, number)
        self.add(producer, version=2, transactional_id=slot_name(POOL, number))
        self.settle()
        assert self.state_of(number) is TransactionState.ONGOING
        return producer

    def prepared_slot(self, owner: ProducerIdentity, number: int, **fields: object) -> ProducerIdentity:
        producer = self.open_slot(owner, number)
        request_id = self.prepare(producer, transactional_id=slot_name(POOL, number), **fields)
        self.settle()
        assert self.error_of(request_id) is NONE
        return producer

    def state_of(self, number: int) -> TransactionState:
        return self.current(slot_name(POOL, number)).state

    def refusals(self, producer: ProducerIdentity, number: int) -> set[ErrorCode]:
        """What a producer hears that tries everything a producer can."""
        name = slot_name(POOL, number)
        asked = [
            self.add(producer, ORDERS_0, version=2, transactional_id=name),
            self.add(producer, ORDERS_1, version=2, transactional_id=name),
            self.add(producer, ORDERS_0, version=2, verify_only=True, transactional_id=name),
            self.prepare(producer, transactional_id=name),
            self.end(producer, version=2, transactional_id=name),
            self.end(producer, commit=False, version=2, transactional_id=name),
        ]
        self.settle()
        return {self.error_of(request_id) for request_id in asked}

    def restarted(self) -> "PoolDriver":
        successor = super().restarted()
        successor.__class__ = PoolDriver
        return successor


@pytest.fixture
def driver() -> PoolDriver:
    return PoolDriver()


# Names


@pytest.mark.parametrize("name", ["checkout", "a.__slot-1", "jürgen", "x.__slot-x"])
def test_slot_is_kept_where_its_pool_is(name: str):
    assert slot_of(slot_name(name, 17)) == (name, 17)
    pools_own = log_partition_of(name, 50) if slot_of(name) is None else None
    assert pools_own in (None, log_partition_of(slot_name(name, 17), 50))


@pytest.mark.parametrize(
    "name", ["", "checkout", ".__slot-1", "checkout.__slot-", "a.__slot-01", "a.__slot-x", "a.__slot-1 ", "a.__slot-²"]
)
def test_other_names_are_no_slots(name: str):
    assert slot_of(name) is None


# Taking over


def test_takeover_is_one_record_which_fences_every_slot(driver: PoolDriver):
    first = driver.taken().producer
    producers = [driver.slot(first, number) for number in range(64)]
    before = len(driver.records)

    second = driver.taken()

    assert len(driver.records) == before + 1
    assert second.left == ()
    assert second.producer == ProducerIdentity(first.producer_id, first.epoch + 1)
    heard = [driver.refusals(producer, number) for number, producer in enumerate(producers)]
    assert set().union(*heard) == {ErrorCode.PRODUCER_FENCED}
    assert len(driver.records) == before + 1, "a fenced slot changes nothing"


@pytest.mark.parametrize("claimed", [ProducerIdentity(7, 3), ProducerIdentity(-1, -1), None])
def test_new_pool_is_given_to_whom_the_log_says(driver: PoolDriver, claimed: ProducerIdentity | None):
    request_id = driver.request(TakePoolOver, POOL, owner=claimed)
    driver.settle()
    assert driver.error_of(request_id) is NONE
    assert len(driver.records) == 1


def test_program_that_says_to_have_the_pool_takes_it_over_like_any_other(driver: PoolDriver):
    first = driver.taken().producer
    slot = driver.slot(first, 0)

    request_id = driver.request(TakePoolOver, POOL, owner=first)
    driver.settle()

    assert driver.replies[request_id].producer > first
    assert driver.refusals(slot, 0) == {ErrorCode.PRODUCER_FENCED}


def test_takeover_aborts_what_is_open_and_answers_when_that_is_over(driver: PoolDriver):
    owner = driver.taken().producer
    for number in range(3):
        driver.open_slot(owner, number)

    request_id = driver.take()
    driver.append()
    assert {driver.state_of(number) for number in range(3)} == {TransactionState.PREPARE_ABORT}
    while len(driver.markers) > 1:
        driver.write_markers()
    assert request_id not in driver.replies
    driver.settle()

    assert driver.error_of(request_id) is NONE
    assert {driver.state_of(number) for number in range(3)} == {TransactionState.COMPLETE_ABORT}
    assert [markers.commit for markers in driver.written] == [False] * 3


def test_takeover_waits_for_what_the_old_owner_has_committed(driver: PoolDriver):
    producer = driver.open_slot(driver.taken().producer, 0)
    driver.end(producer, version=2, transactional_id=slot_name(POOL, 0))
    driver.append()

    request_id = driver.take()
    while driver.appends:
        driver.append()
    assert request_id not in driver.replies
    driver.settle()

    assert driver.error_of(request_id) is NONE
    assert driver.state_of(0) is TransactionState.COMPLETE_COMMIT


def test_takeover_is_sent_back_where_markers_take_too_long(driver: PoolDriver):
    driver.open_slot(driver.taken().producer, 0)
    request_id = driver.take()
    driver.append()

    driver.tick(driver.config.request_hold_ms)

    assert driver.error_of(request_id) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.settle()
    driver.taken()


def test_takeover_that_waits_is_refused_when_another_program_takes_the_pool_over(driver: PoolDriver):
    driver.open_slot(driver.taken().producer, 0)

    older, newer = driver.take(), driver.take()
    driver.settle()

    assert driver.error_of(older) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(newer) is NONE
    owner = driver.replies[newer].producer
    assert driver.current(POOL).holder == owner
    driver.open_slot(owner, 0)


def test_takeover_keeps_what_is_prepared_and_tells_of_it(driver: PoolDriver):
    owner = driver.taken().producer
    token = driver.prepared_slot(owner, 7, context=b"42")
    driver.open_slot(owner, 2)

    [left] = driver.taken().left

    assert (left.transactional_id, left.producer, left.context) == (slot_name(POOL, 7), token, b"42")
    assert driver.state_of(7) is TransactionState.ONGOING
    assert driver.state_of(2) is TransactionState.COMPLETE_ABORT


def test_old_owner_cannot_end_what_it_has_prepared_but_its_token_can(driver: PoolDriver):
    token = driver.prepared_slot(driver.taken().producer, 0)
    driver.taken()

    assert driver.refusals(token, 0) == {ErrorCode.PRODUCER_FENCED}
    request_id = driver.complete(token, transactional_id=slot_name(POOL, 0))
    driver.settle()

    assert driver.error_of(request_id) is NONE
    assert driver.state_of(0) is TransactionState.COMPLETE_COMMIT
    assert driver.taken().left == ()


def test_what_is_left_prepared_does_not_block_the_other_slots(driver: PoolDriver):
    driver.prepared_slot(driver.taken().producer, 0)
    owner = driver.taken().producer

    driver.open_slot(owner, 1)
    request_id = driver.ask_slot(owner, 0)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.INVALID_TXN_STATE
    assert driver.current(slot_name(POOL, 0)).is_prepared


def test_slot_is_free_again_once_what_was_left_in_it_is_completed(driver: PoolDriver):
    token = driver.prepared_slot(driver.taken().producer, 0)
    owner = driver.taken().producer
    driver.complete(token, commit=False, transactional_id=slot_name(POOL, 0))
    driver.settle()

    driver.open_slot(owner, 0)


def test_resolver_of_what_was_left_is_asked_when_the_pool_is_taken_over(driver: PoolDriver):
    token = driver.prepared_slot(driver.taken().producer, 0, resolver=RESOLVER)
    driver.tick()
    assert not driver.questions

    [left] = driver.taken().left
    driver.tick()
    driver.settle()

    assert left.resolver == RESOLVER
    [question] = driver.questions
    assert question.prepared == token
    driver.answer(question, commit=True)
    driver.settle()
    assert driver.state_of(0) is TransactionState.COMPLETE_COMMIT


def test_pool_of_a_name_whose_own_transaction_is_prepared_is_refused(driver: PoolDriver):
    producer = driver.request(InitProducerId, POOL)
    driver.settle()
    driver.prepare(driver.replies[producer].producer, transactional_id=POOL)
    driver.settle()

    request_id = driver.take()
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.INVALID_TXN_STATE
    assert driver.current(POOL).is_prepared


def test_takeover_aborts_what_a_producer_of_its_own_name_has_open(driver: PoolDriver):
    request_id = driver.request(InitProducerId, POOL)
    driver.settle()
    producer = driver.replies[request_id].producer
    driver.add(producer, version=2, transactional_id=POOL)
    driver.settle()

    driver.taken()

    assert [markers.commit for markers in driver.written] == [False]


def test_ordinary_producer_of_the_name_takes_the_pool_over_too(driver: PoolDriver):
    owner = driver.taken().producer
    producer = driver.open_slot(owner, 0)

    request_id = driver.request(InitProducerId, POOL)
    driver.settle()

    assert driver.error_of(request_id) is NONE
    assert driver.replies[request_id].producer.epoch > owner.epoch
    assert driver.state_of(0) is TransactionState.COMPLETE_ABORT
    assert driver.refusals(producer, 0) == {ErrorCode.PRODUCER_FENCED}


def test_pool_whose_epochs_are_used_up_goes_on_under_another_producer_id():
    driver = PoolDriver(loaded={POOL: snapshot(TransactionState.EMPTY, producer_epoch=LAST_EPOCH - 2)})
    last = driver.taken().producer
    producer = driver.open_slot(last, 0)

    owner = driver.taken().producer

    assert last.epoch == LAST_EPOCH - 1
    assert (owner.producer_id != last.producer_id, owner.epoch) == (True, 0)
    assert driver.refusals(producer, 0) == {ErrorCode.PRODUCER_FENCED}
    driver.open_slot(owner, 0)


def test_takeover_that_the_log_refuses_changes_nothing(driver: PoolDriver):
    owner = driver.taken().producer
    driver.open_slot(owner, 0)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE

    request_id = driver.take()

    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.refusal = NONE
    assert driver.state_of(0) is TransactionState.ONGOING
    driver.open_slot(owner, 1)


# Slots


def test_slot_without_an_owner_that_has_the_pool_is_refused(driver: PoolDriver):
    stranger = ProducerIdentity(7, 0)
    unknown = driver.ask_slot(stranger, 0)
    old = driver.taken().producer
    driver.taken()
    late = driver.ask_slot(old, 0)
    nobodys = driver.ask_slot(None, 0)
    no_slot = driver.request(InitProducerId, "billing", owner=old)
    driver.settle()

    assert driver.error_of(unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(late) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.error_of(nobodys) is ErrorCode.INVALID_REQUEST
    assert driver.error_of(no_slot) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("fields", [{"two_phase": True}, {"two_phase": True, "keep_prepared": True}])
def test_slot_has_a_timeout_until_it_is_prepared(driver: PoolDriver, fields: dict[str, bool]):
    request_id = driver.ask_slot(driver.taken().producer, 0, **fields)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.INVALID_REQUEST


def test_number_of_slots_is_bounded():
    driver = PoolDriver(CoordinatorConfig(max_transaction_pool_slots=2, transaction_state_log_num_partitions=1))
    owner = driver.taken().producer
    driver.slot(owner, 1)

    request_id = driver.ask_slot(owner, 2)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.POLICY_VIOLATION


def test_slot_is_neither_a_pool_nor_a_transaction_with_branches(driver: PoolDriver):
    refused = [
        driver.request(TakePoolOver, slot_name(POOL, 0)),
        driver.request(TakePoolOver, ""),
        driver.request(TakePoolOver, "p" * 32_754),
        driver.request(BeginBranched, slot_name(POOL, 0), "batch-1"),
    ]
    owner = driver.taken().producer
    driver.slot(owner, 0)
    refused.append(driver.request(BeginBranched, POOL, "batch-1"))
    driver.settle()

    assert {driver.error_of(request_id) for request_id in refused} == {ErrorCode.INVALID_REQUEST}
    driver.open_slot(owner, 0)


def test_every_slot_of_the_pool_with_the_longest_name_is_logged():
    longest = "p" * 32_753
    assert len(encode_key(slot_name(longest, 999_999))) == 4 + 32_767
    driver = PoolDriver()

    request_id = driver.request(TakePoolOver, longest)
    driver.settle()

    assert driver.error_of(request_id) is NONE


def test_slots_decide_on_their_own(driver: PoolDriver):
    owner = driver.taken().producer
    committed, aborted, open_one = (driver.open_slot(owner, number) for number in range(3))

    driver.end(committed, version=2, transactional_id=slot_name(POOL, 0))
    driver.end(aborted, commit=False, version=2, transactional_id=slot_name(POOL, 1))
    driver.settle()

    assert driver.state_of(0) is TransactionState.COMPLETE_COMMIT
    assert driver.state_of(1) is TransactionState.COMPLETE_ABORT
    assert driver.state_of(2) is TransactionState.ONGOING
    assert len({committed.producer_id, aborted.producer_id, open_one.producer_id}) == 3


def test_producer_of_a_slot_goes_on_after_a_timeout_as_long_as_its_pool_has_it(driver: PoolDriver):
    owner = driver.taken().producer
    producer = driver.open_slot(owner, 0)
    driver.pass_time(120_000)
    assert driver.state_of(0) is TransactionState.COMPLETE_ABORT

    again = driver.ask_slot(owner, 0, expected=producer)
    driver.settle()

    assert driver.error_of(again) is NONE
    assert driver.replies[again].producer.producer_id == producer.producer_id
    driver.open_slot(owner, 0)


def test_keeper_of_a_prepared_slot_is_of_the_same_owner(driver: PoolDriver):
    owner = driver.taken().producer
    token = driver.prepared_slot(owner, 0)

    kept = driver.ask_slot(owner, 0, keep_prepared=True)
    driver.settle()
    assert driver.replies[kept].ongoing == token
    driver.taken()
    late = driver.ask_slot(driver.taken().producer, 0, keep_prepared=True)
    driver.settle()

    assert driver.error_of(late) is ErrorCode.INVALID_TXN_STATE


def test_operator_ends_one_slot_and_the_others_go_on(driver: PoolDriver):
    owner = driver.taken().producer
    fenced, other = driver.open_slot(owner, 0), driver.open_slot(owner, 1)

    request_id = driver.request(InitProducerId, slot_name(POOL, 0))
    driver.settle()

    assert driver.error_of(request_id) is NONE
    assert driver.state_of(0) is TransactionState.EMPTY
    assert driver.refusals(driver.replies[request_id].producer, 0) == {ErrorCode.PRODUCER_FENCED}
    assert driver.refusals(fenced, 0) == {ErrorCode.PRODUCER_FENCED}
    ended = driver.end(other, version=2, transactional_id=slot_name(POOL, 1))
    driver.settle()
    assert driver.error_of(ended) is NONE
    driver.open_slot(owner, 0)


def test_operator_does_not_end_a_prepared_slot_without_its_token(driver: PoolDriver):
    driver.prepared_slot(driver.taken().producer, 0)

    request_id = driver.request(InitProducerId, slot_name(POOL, 0))
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.INVALID_TXN_STATE
    assert driver.current(slot_name(POOL, 0)).is_prepared


def test_slot_is_described_as_any_other_transactional_id(driver: PoolDriver):
    producer = driver.open_slot(driver.taken().producer, 3)

    request_id = driver.request(DescribeTransaction, slot_name(POOL, 3))

    described = driver.replies[request_id].transaction
    assert (described.transactional_id, described.state, described.producer) == (
        "checkout.__slot-3",
        "Ongoing",
        producer,
    )


# Restarts


def test_coordinator_that_takes_over_knows_who_has_the_pool(driver: PoolDriver):
    old = driver.open_slot(driver.taken().producer, 0)
    owner = driver.taken().producer
    producer = driver.open_slot(owner, 1)

    successor = driver.restarted()

    assert successor.refusals(old, 0) == {ErrorCode.PRODUCER_FENCED}
    ended = successor.end(producer, version=2, transactional_id=slot_name(POOL, 1))
    successor.settle()
    assert successor.error_of(ended) is NONE


def test_one_record_of_a_takeover_is_enough_after_a_crash(driver: PoolDriver):
    producer = driver.open_slot(driver.taken().producer, 0)
    request_id = driver.take()
    [append] = driver.appends
    assert [name for name, _ in append.records] == [POOL, slot_name(POOL, 0)]
    # The first record alone has reached the log that the next coordinator reads.
    del driver.records[-1:]

    successor = driver.restarted()

    assert request_id not in driver.replies
    assert successor.state_of(0) is TransactionState.ONGOING
    assert successor.refusals(producer, 0) == {ErrorCode.PRODUCER_FENCED}
    successor.tick(successor.config.transaction_abort_timed_out_transaction_cleanup_interval_ms)
    successor.settle()
    assert successor.state_of(0) is TransactionState.COMPLETE_ABORT


def test_takeover_after_a_restart_waits_for_the_markers_of_slots(driver: PoolDriver):
    producer = driver.open_slot(driver.taken().producer, 0)
    driver.end(producer, version=2, transactional_id=slot_name(POOL, 0))
    driver.append()
    successor = driver.restarted()

    request_id = successor.take()
    while successor.appends:
        successor.append()
    assert request_id not in successor.replies
    successor.settle()

    assert successor.error_of(request_id) is NONE


# Expiry


def test_pool_expires_as_a_whole_and_not_while_one_slot_is_used(driver: PoolDriver):
    owner = driver.taken().producer
    for number in range(3):
        driver.slot(owner, number)
    for day in range(1, 10):
        driver.pass_time(day * DAY_MS)
        producer = driver.open_slot(owner, 1)
        driver.end(producer, version=2, transactional_id=slot_name(POOL, 1))
        driver.settle()

    assert driver.logged().keys() == {POOL, *(slot_name(POOL, number) for number in range(3))}
    driver.open_slot(owner, 2)
    driver.pass_time(10 * DAY_MS)
    driver.settle()
    driver.pass_time(19 * DAY_MS)
    driver.settle()

    assert driver.logged() == {}


def test_slots_that_a_smaller_owner_does_not_use_expire_on_their_own(driver: PoolDriver):
    old = driver.taken().producer
    driver.slot(old, 0)
    driver.slot(old, 9)
    owner = driver.taken().producer
    for day in range(1, 10):
        driver.pass_time(day * DAY_MS)
        producer = driver.open_slot(owner, 0)
        driver.end(producer, version=2, transactional_id=slot_name(POOL, 0))
        driver.settle()

    assert driver.logged().keys() == {POOL, slot_name(POOL, 0)}


def test_pool_is_not_forgotten_before_its_slots(driver: PoolDriver):
    owner = driver.taken().producer
    driver.slot(owner, 0)

    request_id = driver.request(ForgetTransactionalId, POOL, owner)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.INVALID_TXN_STATE


def test_prepared_slot_is_told_of_though_its_pool_has_expired(driver: PoolDriver):
    token = driver.prepared_slot(driver.taken().producer, 0)
    driver.pass_time(30 * DAY_MS)
    driver.settle()
    assert driver.logged().keys() == {slot_name(POOL, 0)}

    [left] = driver.restarted().taken().left

    assert left.producer == token


# Every state

OWNER = ProducerIdentity(1, 0)
WRITER = ProducerIdentity(7, 5)
PREPARED = "prepared"
AFTER_A_TAKEOVER = {
    TransactionState.EMPTY: TransactionState.EMPTY,
    TransactionState.ONGOING: TransactionState.COMPLETE_ABORT,
    PREPARED: TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
    TransactionState.COMPLETE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT: TransactionState.COMPLETE_ABORT,
}
"""Where a slot was when its pool is taken over, and where it is when the new owner is told."""


def driver_with_slot(state: TransactionState | str) -> PoolDriver:
    fields: dict[str, object] = {"owner": OWNER, "client_version": 2}
    if state == PREPARED:
        state, fields["preparation"] = TransactionState.ONGOING, Preparation(prepared_ms=0)
    head = snapshot(TransactionState.EMPTY, producer_id=OWNER.producer_id, producer_epoch=OWNER.epoch)
    return PoolDriver(loaded={POOL: head, slot_name(POOL, 3): snapshot(state, **fields)})


@pytest.mark.parametrize("state", AFTER_A_TAKEOVER, ids=str)
def test_takeover_meets_a_slot_in_every_state(state: TransactionState | str):
    driver = driver_with_slot(state)

    reply = driver.taken()

    assert driver.state_of(3) is AFTER_A_TAKEOVER[state]
    assert driver.logged()[slot_name(POOL, 3)] == driver.current(slot_name(POOL, 3))
    assert [left.producer for left in reply.left] == ([WRITER] if state == PREPARED else [])
    assert driver.refusals(WRITER, 3) == {ErrorCode.PRODUCER_FENCED}
    assert driver.refusals(driver.current(slot_name(POOL, 3)).holder, 3) == {ErrorCode.PRODUCER_FENCED}
    assert driver.state_of(3) is AFTER_A_TAKEOVER[state]


@pytest.mark.parametrize("state", AFTER_A_TAKEOVER, ids=str)
def test_new_owner_gets_a_slot_in_every_state_but_what_is_prepared(state: TransactionState | str):
    driver = driver_with_slot(state)
    owner = driver.taken().producer

    request_id = driver.ask_slot(owner, 3)
    driver.settle()

    if state == PREPARED:
        assert driver.error_of(request_id) is ErrorCode.INVALID_TXN_STATE
    else:
        assert driver.error_of(request_id) is NONE
        assert driver.current(slot_name(POOL, 3)).owner == owner
        driver.open_slot(owner, 3)
