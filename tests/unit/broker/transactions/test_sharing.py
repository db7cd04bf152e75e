"""Workers that begin the transaction of their tag together, because their driver cannot do it for them."""

import pytest

from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.branches.tags import is_before, is_settled_by, steps_behind, tag_in_series
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import BeginBranched, BranchedReply, ProducerIdsReceived
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, TRANSACTIONAL_ID, CoordinatorDriver

TAGS = [tag_in_series("query", number) for number in range(12)]


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def begin(driver: CoordinatorDriver, tag: str, **fields: bool) -> int:
    request_id = driver.begin_branched(tag, **fields)
    driver.settle()
    return request_id


def share(driver: CoordinatorDriver, tag: str, **fields: bool) -> BranchedReply:
    return driver.reply_to(begin(driver, tag, is_shared=True, **fields))


def share_with_branch(driver: CoordinatorDriver, tag: str, **fields: bool) -> BranchedReply:
    return share(driver, tag, opens_branch=True, **fields)


def begun(request_id: int, owner: ProducerIdentity) -> BranchedReply:
    """What is answered about a transaction that is the first of its transactional id."""
    memory_ms = CoordinatorConfig().transactional_id_expiration_ms
    return BranchedReply(request_id, ErrorCode.NONE, owner, memory_ms=memory_ms)


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
    assert driver.reply_to(first) == begun(first, owner)
    assert driver.reply_to(second) == begun(second, owner)
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


def test_every_answer_tells_the_last_committed_tag_and_for_how_long_it_is_remembered(driver):
    memory_ms = CoordinatorConfig().transactional_id_expiration_ms

    def told(reply: BranchedReply) -> tuple[str | None, int]:
        return reply.committed_tag, reply.memory_ms

    assert told(share(driver, TAGS[1])) == (None, memory_ms)
    commit(driver, TAGS[1])
    assert told(share(driver, TAGS[1])) == (TAGS[1], memory_ms)
    begins, takes_part, opens = share(driver, TAGS[2]), share(driver, TAGS[2]), share_with_branch(driver, TAGS[2])
    assert opens.branch != NO_PRODUCER
    assert [told(each) for each in (begins, takes_part, opens)] == [(TAGS[1], memory_ms)] * 3
    assert told(driver.reply_to(begin(driver, TAGS[3]))) == (TAGS[1], memory_ms)


def test_series_begins_anew_with_a_tag_of_the_past_where_its_driver_says_so(driver):
    commit(driver, TAGS[1])
    commit(driver, TAGS[5])

    first, second = (
        share_with_branch(driver, TAGS[3], begins_anew=True),
        share_with_branch(driver, TAGS[3], begins_anew=True),
    )
    assert (first.tag_is_committed, first.producer) == (False, second.producer)
    ended = driver.end_branched(first.producer, first.branch, second.branch)
    driver.settle()
    assert driver.error_of(ended) is ErrorCode.NONE
    again = share_with_branch(driver, TAGS[3], begins_anew=True)
    assert (again.tag_is_committed, again.committed_tag) == (True, TAGS[3])
    assert not share(driver, TAGS[4]).tag_is_committed


def test_series_that_begins_anew_ends_what_a_later_batch_has_left_open(driver):
    commit(driver, TAGS[1])
    left_open = share(driver, TAGS[5]).producer
    assert share(driver, TAGS[3]).error_code is ErrorCode.PRODUCER_FENCED
    reply = share(driver, TAGS[3], begins_anew=True)
    assert reply.error_code is ErrorCode.NONE
    assert driver.error_of(driver.open_branch(left_open)) is ErrorCode.PRODUCER_FENCED


def test_the_last_batch_that_is_run_again_does_not_begin_its_series_anew(driver):
    commit(driver, TAGS[3])
    assert share(driver, TAGS[3], begins_anew=True).tag_is_committed


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


# Taking part with a branch, by one request


def take_part(driver: CoordinatorDriver, tag: str) -> int:
    return driver.begin_branched(tag, is_shared=True, opens_branch=True)


def test_first_worker_begins_with_a_branch_by_one_append_and_others_add_theirs(driver):
    first, second = (BeginBranched(number, TRANSACTIONAL_ID, TAGS[1], 7, True, True) for number in (1000, 1001))
    driver.send(first, second)
    [append] = driver.appends
    assert [snapshot.state for _, snapshot in append.records] == [TransactionState.EMPTY, TransactionState.ONGOING]
    assert not driver.replies
    driver.append()
    third = take_part(driver, TAGS[1])
    driver.settle()

    replies = [driver.reply_to(request_id) for request_id in (1000, 1001, third)]
    owner = replies[0].producer
    branches = [reply.branch for reply in replies]
    assert [reply.producer for reply in replies] == [owner] * 3
    assert len({owner, *branches}) == 4
    logged = driver.logged()[TRANSACTIONAL_ID]
    assert (logged.timeout_ms, logged.holder) == (7, owner)
    assert list(logged.branching.branches) == [branch.producer_id for branch in branches]
    ended = driver.end_branched(owner, *branches[:2])
    driver.settle()
    assert driver.error_of(ended) is ErrorCode.NONE
    assert driver.current().branching.committed == {branch.producer_id for branch in branches[:2]}


@pytest.mark.parametrize("left_behind", [TAGS[1], TAGS[2]])
def test_worker_of_a_committed_tag_gets_no_branch(driver, left_behind):
    commit(driver, TAGS[1])
    commit(driver, TAGS[2])
    reply = driver.reply_to(take_part(driver, left_behind))

    assert (reply.error_code, reply.tag_is_committed, reply.branch) == (ErrorCode.NONE, True, NO_PRODUCER)
    assert not driver.appends


def test_worker_that_was_overtaken_gets_no_branch(driver):
    driver.opened(share(driver, TAGS[2]).producer, ORDERS_0)
    reply = driver.reply_to(take_part(driver, TAGS[1]))

    assert (reply.error_code, reply.branch) == (ErrorCode.PRODUCER_FENCED, NO_PRODUCER)
    assert not driver.appends


def test_worker_of_the_next_tag_gets_its_branch_when_what_was_left_open_has_its_markers(driver):
    zombie = driver.opened(share(driver, TAGS[1]).producer, ORDERS_0)
    request_id = take_part(driver, TAGS[2])
    assert driver.append().snapshot.state is TransactionState.PREPARE_ABORT
    assert request_id not in driver.replies
    driver.settle()

    reply = driver.reply_to(request_id)
    assert list(driver.current().branching.branches) == [reply.branch.producer_id]
    assert driver.error_of(driver.end_branched(reply.producer, zombie)) is ErrorCode.INVALID_REQUEST


def test_worker_that_waits_for_a_producer_id_has_begun_and_gets_its_branch_when_there_is_one():
    driver = CoordinatorDriver(producer_ids=1)
    early, late = take_part(driver, TAGS[1]), take_part(driver, TAGS[1])
    driver.settle()
    assert (driver.current().state, driver.current().branching.tag) == (TransactionState.EMPTY, TAGS[1])
    driver.send(ProducerIdsReceived(500, 1))
    driver.settle()
    driver.tick(500)

    assert driver.reply_to(early).branch == ProducerIdentity(500, 0)
    assert driver.error_of(late) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert list(driver.current().branching.branches) == [500]


def test_worker_that_the_log_refuses_has_begun_nothing(driver):
    commit(driver, TAGS[1])
    before, driver.refusal = driver.current(), ErrorCode.NOT_COORDINATOR
    request_id = take_part(driver, TAGS[2])

    assert driver.reply_to(request_id) == BranchedReply(request_id, ErrorCode.NOT_COORDINATOR)
    assert driver.current() == before


def test_worker_whose_beginning_is_lost_finds_nothing_begun(driver):
    commit(driver, TAGS[1])
    request_id = take_part(driver, TAGS[2])
    driver.lose()
    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    again = take_part(driver, TAGS[2])
    driver.settle()
    assert list(driver.current().branching.branches) == [driver.reply_to(again).branch.producer_id]


def test_worker_takes_part_after_a_restart(driver):
    first = take_part(driver, TAGS[3])
    driver.settle()
    successor = driver.restarted()
    second = take_part(successor, TAGS[3])
    successor.settle()

    assert successor.reply_to(second).producer == driver.reply_to(first).producer
    assert len(successor.current().branching.branches) == 2


def test_worker_beyond_the_limit_gets_no_branch():
    driver = CoordinatorDriver(CoordinatorConfig(transaction_state_log_num_partitions=1, max_transaction_branches=1))
    take_part(driver, TAGS[1])

    driver.settle()
    assert driver.error_of(take_part(driver, TAGS[1])) is ErrorCode.POLICY_VIOLATION


def test_only_workers_that_share_take_part_with_a_branch(driver):
    assert driver.error_of(driver.begin_branched(TAGS[1], opens_branch=True)) is ErrorCode.INVALID_REQUEST
    assert not driver.appends


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


@pytest.mark.parametrize(
    ("tag", "committed_tag", "steps"),
    [
        ("a#3", "a#3", 0),
        ("a#3", "a#7", 4),
        ("a#7", "a#3", -4),
        ("a#3", "b#7", None),
        ("a#3", "a", None),
        ("a#3", None, None),
        ("a", "a", None),
        pytest.param("a#" + "9" * 5000, "a#3", None, id="many digits"),
    ],
)
def test_how_far_a_tag_lies_behind_another(tag, committed_tag, steps):
    assert steps_behind(tag, committed_tag) == steps
