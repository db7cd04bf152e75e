"""Requests that wait: in order, in bounds, and never for ever."""

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import InitProducerId, ProducerIdsReceived
from eagleray.broker.transactions.holding import HeldRequests, WaitingLine
from eagleray.broker.transactions.producer_id_pool import ProducerIdPool
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_1, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

HOLD_MS = 500


@pytest.fixture
def driver() -> CoordinatorDriver:
    """One whose transaction is decided, with its markers under way."""
    driver = CoordinatorDriver()
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    return driver


PRODUCER = ProducerIdentity(100, 0)


def test_a_request_is_sent_back_at_its_deadline_and_not_before(driver: CoordinatorDriver):
    request_id = driver.add(PRODUCER)

    driver.tick(HOLD_MS - 1)
    assert request_id not in driver.replies
    driver.tick(1)

    assert driver.error_of(request_id) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_COMMIT, "it was not carried out behind its back"


def test_the_deadline_counts_from_the_first_arrival(driver: CoordinatorDriver):
    first, second = driver.add(PRODUCER), driver.init()
    driver.now_ms += HOLD_MS - 1
    driver.write_markers()
    assert {first, second}.isdisjoint(driver.replies), "the second is held again, for what the first began"

    driver.tick(1)

    assert first not in driver.replies, "its transition is on its way to the log"
    assert driver.error_of(second) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_one_that_is_overdue_when_the_way_is_free_is_sent_back_all_the_same(driver: CoordinatorDriver):
    request_id = driver.add(PRODUCER)
    driver.now_ms += HOLD_MS

    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_they_are_served_in_the_order_in_which_they_came(driver: CoordinatorDriver):
    add, end, init = driver.add(PRODUCER, ORDERS_1), driver.end(PRODUCER), driver.init()

    driver.settle()

    assert list(driver.replies)[-3:] == [add, end, init]
    assert driver.error_of(end) is ErrorCode.NONE
    assert driver.error_of(add) is ErrorCode.NONE
    assert driver.reply_to(init).producer == ProducerIdentity(100, 1)
    assert driver.current().state is TransactionState.EMPTY


def test_no_more_wait_than_the_limit_allows(driver: CoordinatorDriver):
    limit = driver.config.request_hold_limit
    waiting = [driver.init() for _ in range(limit)]

    sent_back = driver.init()

    assert driver.error_of(sent_back) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert not driver.replies.keys() & set(waiting)
    driver.settle()
    assert {driver.error_of(request_id) for request_id in waiting} == {ErrorCode.NONE}


def test_holding_can_be_switched_off():
    config = CoordinatorConfig(transaction_state_log_num_partitions=1, request_hold_limit=0)
    driver = CoordinatorDriver(config, loaded={TRANSACTIONAL_ID: snapshot(TransactionState.PREPARE_COMMIT)})

    assert driver.error_of(driver.init()) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_loss_sends_back_everybody_who_waited_for_it():
    driver = CoordinatorDriver()
    producer = driver.initialized()
    asked, waiting = driver.add(producer), [driver.end(producer), driver.init()]

    driver.lose()

    told = {driver.error_of(request_id) for request_id in [asked, *waiting]}
    assert told == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert not driver.appends, "trying again is left to those who asked"


def test_a_line_keeps_its_order_and_finds_the_overdue_anywhere():
    line = WaitingLine()
    for request_id, deadline_ms in ((1, 30), (2, 10), (3, 20)):
        line.add(InitProducerId(request_id, None), deadline_ms)

    assert [request.request_id for request in line.take_overdue(20)] == [2, 3]
    assert [held.request.request_id for held in line.take_all()] == [1]
    assert len(line) == 0


def test_held_requests_leave_nothing_behind():
    held = HeldRequests(limit=2)
    held.add("a", InitProducerId(1, "a"), 10)
    held.add("b", InitProducerId(2, "b"), 20)
    assert "a" in held

    assert [request.request_id for request in held.take_overdue(10)] == [1]

    assert "a" not in held
    assert [waiting.request.request_id for waiting in held.take_all("b")] == [2]
    assert held.take_all("b") == []


def test_request_held_behind_one_that_was_served_waits_until_its_own_deadline():
    held = HeldRequests(limit=2)
    held.add("a", InitProducerId(1, "a"), 10)
    held.take_all("a")
    held.add("a", InitProducerId(2, "a"), 20)

    assert held.take_overdue(10) == []
    assert held.next_due_ms == 20
    assert [request.request_id for request in held.take_overdue(20)] == [2]


# Producer ids


def test_who_needs_an_id_waits_for_the_block_and_the_block_is_asked_for_once():
    driver = CoordinatorDriver(producer_ids=0)

    requests = [driver.init(None), driver.init("a"), driver.init("b")]

    assert driver.asked_for_ids == 1
    assert not driver.replies
    driver.send(ProducerIdsReceived(0, 1000))
    driver.settle()
    assert [driver.reply_to(request_id).producer.producer_id for request_id in requests] == [0, 1, 2]


def test_when_a_block_is_not_enough_the_others_go_on_waiting_in_order():
    driver = CoordinatorDriver(producer_ids=0)
    requests = [driver.init(None) for _ in range(5)]

    driver.send(ProducerIdsReceived(10, 2))
    assert driver.asked_for_ids == 2
    assert [driver.reply_to(request_id).producer.producer_id for request_id in requests[:2]] == [10, 11]
    driver.send(ProducerIdsReceived(20, 2))
    assert driver.asked_for_ids == 3
    driver.send(ProducerIdsReceived(30, 1000))

    assert [driver.reply_to(request_id).producer.producer_id for request_id in requests[2:]] == [20, 21, 30]


def test_two_that_create_the_same_id_get_one_producer_id_and_two_epochs():
    driver = CoordinatorDriver(producer_ids=0)
    first, second = driver.init(), driver.init()

    driver.send(ProducerIdsReceived(0, 1000))
    driver.settle()

    assert driver.reply_to(first).producer == ProducerIdentity(0, 0)
    assert driver.reply_to(second).producer == ProducerIdentity(0, 1)


def test_nobody_waits_for_producer_ids_beyond_the_deadline():
    driver = CoordinatorDriver(producer_ids=0)
    requests = [driver.init(None), driver.init("a")]

    driver.tick(HOLD_MS)

    assert {driver.error_of(request_id) for request_id in requests} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    driver.send(ProducerIdsReceived(0, 1000))
    assert driver.initialized() == ProducerIdentity(0, 0)
    assert driver.asked_for_ids == 1, "the first question was still open"


def test_an_end_that_needs_a_producer_id_waits_for_it_too():
    ongoing = snapshot(TransactionState.ONGOING, producer_epoch=32766, client_version=2)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: ongoing}, producer_ids=0)
    request_id = driver.end(ProducerIdentity(7, 32766), version=2)
    assert not driver.appends

    driver.send(ProducerIdsReceived(55, 1000))
    driver.settle()

    assert driver.reply_to(request_id).producer == ProducerIdentity(55, 0)


def test_the_next_block_is_asked_for_before_this_one_is_used_up():
    driver = CoordinatorDriver(producer_ids=100)

    for _ in range(89):
        driver.init(None)
    assert driver.asked_for_ids == 0
    driver.init(None)
    assert driver.asked_for_ids == 1
    driver.send(ProducerIdsReceived(5000, 100))
    ids = [driver.reply_to(driver.init(None)).producer.producer_id for _ in range(20)]

    assert ids == [*range(190, 200), *range(5000, 5010)]
    assert driver.asked_for_ids == 1


def test_an_empty_block_gives_nothing_and_is_asked_for_again():
    pool = ProducerIdPool()
    assert pool.begin_asking()
    assert not pool.begin_asking()

    pool.add(0, 0)

    assert pool.take() is None
    assert pool.begin_asking()


def test_an_abort_waits_behind_what_it_is_to_abort(driver: CoordinatorDriver):
    """A producer may add partitions and abort without hearing whether they were added."""
    add, abort = driver.add(PRODUCER, ORDERS_1), driver.end(PRODUCER, commit=False)
    assert abort not in driver.replies, "it is not about the transaction that is committed"

    driver.settle()

    assert driver.error_of(add) is ErrorCode.NONE
    assert driver.error_of(abort) is ErrorCode.NONE
    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_an_abort_of_what_is_committed_is_refused_at_once(driver: CoordinatorDriver):
    abort = driver.end(PRODUCER, commit=False)

    assert driver.error_of(abort) is ErrorCode.INVALID_TXN_STATE
