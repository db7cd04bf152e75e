"""Workers that begin the transaction of their tag together, because their driver cannot do it for them."""

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.events import BranchedReply
from eagleray.broker.transactions.tags import is_before, is_settled_by, tag_in_series
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, CoordinatorDriver

TAGS = [tag_in_series("query", number) for number in range(12)]


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def share(driver: CoordinatorDriver, tag: str) -> BranchedReply:
    request_id = driver.begin_branched(tag, is_shared=True)
    driver.settle()
    return driver.reply_to(request_id)


def commit(driver: CoordinatorDriver, tag: str) -> ProducerIdentity:
    """A batch that one worker has written and its driver has committed."""
    reply = share(driver, tag)
    assert (reply.error_code, reply.tag_is_committed) == (ErrorCode.NONE, False)
    ended = driver.end_branched(reply.producer, driver.opened(reply.producer, ORDERS_0))
    driver.settle()
    assert driver.error_of(ended) is ErrorCode.NONE
    return reply.producer


def test_the_first_worker_begins_and_the_others_find_it_begun(driver):
    first = driver.begin_branched(TAGS[1], is_shared=True)
    second = driver.begin_branched(TAGS[1], is_shared=True)
    driver.settle()
    third = share(driver, TAGS[1])

    owner = driver.reply_to(first).producer
    assert driver.reply_to(first) == BranchedReply(first, ErrorCode.NONE, owner, False)
    assert driver.reply_to(second) == BranchedReply(second, ErrorCode.NONE, owner, False)
    assert third.producer == owner


def test_taking_part_logs_nothing_and_ends_no_branch(driver):
    owner = share(driver, TAGS[1]).producer
    branch = driver.opened(owner, ORDERS_0)
    appends = len(driver.logged())
    assert share(driver, TAGS[1]).producer == owner
    assert len(driver.logged()) == appends

    ended = driver.end_branched(owner, branch)
    driver.settle()
    assert driver.error_of(ended) is ErrorCode.NONE


def test_a_driver_that_does_not_share_fences_as_ever(driver):
    owner = share(driver, TAGS[1]).producer
    successor = driver.owned(TAGS[1])

    assert successor != owner
    assert driver.error_of(driver.open_branch(owner)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("left_behind", [TAGS[1], TAGS[2]])
def test_who_comes_back_with_a_tag_of_the_past_hears_that_it_is_committed(driver, left_behind):
    commit(driver, TAGS[1])
    commit(driver, TAGS[2])

    reply = share(driver, left_behind)
    assert (reply.error_code, reply.tag_is_committed) == (ErrorCode.NONE, True)


def test_it_does_so_while_its_successor_writes_and_does_not_disturb_it(driver):
    commit(driver, TAGS[1])
    owner = share(driver, TAGS[2]).producer
    branch = driver.opened(owner, ORDERS_0)

    assert share(driver, TAGS[1]).tag_is_committed
    ended = driver.end_branched(owner, branch)
    driver.settle()
    assert driver.error_of(ended) is ErrorCode.NONE


def test_numbers_are_compared_as_numbers(driver):
    commit(driver, TAGS[10])

    assert share(driver, TAGS[9]).tag_is_committed
    assert not share(driver, TAGS[11]).tag_is_committed


def test_who_was_overtaken_by_an_open_transaction_is_fenced(driver):
    """Its own tag is not known to be committed: the log has forgotten it, or it never was."""
    owner = share(driver, TAGS[2]).producer
    driver.opened(owner, ORDERS_0)

    assert share(driver, TAGS[1]).error_code is ErrorCode.PRODUCER_FENCED
    assert share(driver, TAGS[2]).producer == owner


def test_the_next_of_a_series_aborts_what_the_one_before_has_left(driver):
    owner = share(driver, TAGS[1]).producer
    driver.opened(owner, ORDERS_0)

    successor = share(driver, TAGS[2])
    assert (successor.error_code, successor.tag_is_committed) == (ErrorCode.NONE, False)
    assert successor.producer != owner
    assert driver.error_of(driver.open_branch(owner)) is ErrorCode.PRODUCER_FENCED


def test_what_was_aborted_can_be_begun_again(driver):
    owner = share(driver, TAGS[1]).producer
    driver.opened(owner, ORDERS_0)
    driver.end_branched(owner, commit=False)
    driver.settle()

    again = share(driver, TAGS[1])
    assert (again.error_code, again.tag_is_committed) == (ErrorCode.NONE, False)
    assert again.producer != owner


def test_a_coordinator_that_was_restarted_knows_who_shares(driver):
    owner = share(driver, TAGS[3]).producer
    driver.opened(owner, ORDERS_0)
    successor = driver.restarted()

    assert share(successor, TAGS[3]).producer == owner


def test_an_earlier_tag_is_settled_for_a_driver_that_does_not_share_too(driver):
    commit(driver, TAGS[5])
    request_id = driver.begin_branched(TAGS[4])
    driver.settle()

    assert driver.reply_to(request_id).tag_is_committed


@pytest.mark.parametrize(
    ("tag", "other", "expected"),
    [
        ("a#1", "a#2", True),
        ("a#2", "a#2", False),
        ("a#2", "a#1", False),
        ("a#9", "a#10", True),
        ("a#1", "b#2", False),
        ("a#b#1", "a#b#2", True),
        ("a", "a#2", False),
        ("1", "2", False),
        ("a#-1", "a#2", False),
        ("a#²", "a#3", False),
        ("#1", "#2", True),
    ],
)
def test_the_order_of_tags(tag, other, expected):
    assert is_before(tag, other) is expected


def test_a_tag_is_settled_by_itself_and_by_nothing():
    assert is_settled_by("batch", "batch")
    assert not is_settled_by("batch", None)
    assert not is_settled_by("a#3", "a#2")
