"""Transactions with many writers, rule by rule."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.branches.branching import Branching
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import (
    AddPartitions,
    BranchedReply,
    BranchMarkers,
    EndBranched,
    OpenBranch,
    SendMarkers,
)
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

STRANGER = ProducerIdentity(999_999, 0)


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def next_epoch(producer: ProducerIdentity) -> ProducerIdentity:
    return ProducerIdentity(producer.producer_id, producer.epoch + 1)


def last_epoch(branch: ProducerIdentity) -> ProducerIdentity:
    return ProducerIdentity(branch.producer_id, LAST_EPOCH)


def committed(driver: CoordinatorDriver, tag: str = "batch-1") -> ProducerIdentity:
    """A job that has committed one branch; its owner's identity as it was before."""
    owner = driver.owned(tag)
    driver.end_branched(owner, driver.opened(owner, ORDERS_0))
    driver.settle()
    return owner


def ended(driver: CoordinatorDriver, owner: ProducerIdentity, *branches: ProducerIdentity) -> ErrorCode:
    request_id = driver.end_branched(owner, *branches)
    driver.settle()
    return driver.error_of(request_id)


def endings(markers: SendMarkers) -> dict[ProducerIdentity, tuple[bool, frozenset]]:
    """What is to be written for whom."""
    own = {markers.producer: (markers.commit, markers.partitions)} if markers.partitions else {}
    return own | {branch.producer: (branch.commit, branch.partitions) for branch in markers.branches}


# Beginning


def test_a_driver_gets_an_identity_once_its_tag_is_in_the_log(driver):
    request_id = driver.begin_branched("batch-1", timeout_ms=7)
    assert request_id not in driver.replies
    driver.append()

    assert driver.reply_to(request_id) == BranchedReply(
        request_id,
        ErrorCode.NONE,
        ProducerIdentity(100, 0),
        memory_ms=CoordinatorConfig().transactional_id_expiration_ms,
    )
    logged = driver.logged()[TRANSACTIONAL_ID]
    assert (logged.state, logged.timeout_ms) == (TransactionState.EMPTY, 7)
    assert logged.branching == Branching(tag="batch-1")


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "t" * 32_768}, ErrorCode.INVALID_REQUEST),
        ({"tag": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 15 * 60 * 1000 + 1}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_a_beginning_without_sense_is_refused(driver, fields, error_code):
    request_id = driver.begin_branched(**fields)

    assert driver.reply_to(request_id) == BranchedReply(request_id, error_code, NO_PRODUCER)
    assert not driver.appends


def test_the_next_driver_fences_the_one_before(driver):
    zombie = driver.owned()
    successor = driver.owned()

    assert successor == next_epoch(zombie)
    assert driver.error_of(driver.open_branch(zombie)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.end_branched(zombie)) is ErrorCode.PRODUCER_FENCED
    driver.opened(successor)


def test_what_the_driver_before_left_open_is_aborted_first(driver):
    zombie = driver.owned()
    branch = driver.opened(zombie, ORDERS_0)

    request_id = driver.begin_branched("batch-1")
    assert driver.append().snapshot.state is TransactionState.PREPARE_ABORT
    [markers] = driver.markers
    assert endings(markers) == {last_epoch(branch): (False, frozenset({ORDERS_0}))}
    assert request_id not in driver.replies
    driver.settle()

    reply = driver.reply_to(request_id)
    assert (reply.error_code, reply.tag_is_committed) == (ErrorCode.NONE, False)
    assert reply.producer.epoch > zombie.epoch
    assert driver.error_of(driver.add(branch, ORDERS_1, version=2)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_ordinary_producer_and_a_driver_fence_each_other(driver):
    producer = driver.initialized()
    driver.begun(producer)
    owner = driver.owned()
    assert driver.error_of(driver.end(producer)) is ErrorCode.PRODUCER_FENCED
    branch = driver.opened(owner, ORDERS_0)
    successor = driver.initialized()
    assert successor.epoch > owner.epoch
    assert driver.error_of(driver.end_branched(owner, branch)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.add(branch, version=2)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(driver.open_branch(successor)) is ErrorCode.INVALID_TXN_STATE
    assert driver.current().branching is None


def test_an_ordinary_producer_takes_over_neither_tag_nor_branches(driver):
    driver.owned()
    assert driver.error_of(driver.open_branch(driver.initialized())) is ErrorCode.INVALID_TXN_STATE
    assert driver.current().branching is None
    committed(driver)
    driver.initialized()
    assert driver.current().branching == Branching(committed_tag="batch-1")


def test_a_driver_whose_epochs_are_used_up_gets_another_producer_id():
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(TransactionState.EMPTY, producer_epoch=32766)})

    assert driver.owned() == ProducerIdentity(100, 0)
    assert driver.current().branching == Branching(tag="batch-1")


# Branches


def test_each_branch_has_a_producer_id_of_its_own_which_is_logged_before_it_is_told(driver):
    owner = driver.owned()
    request_id = driver.open_branch(owner)
    assert request_id not in driver.replies
    [append] = driver.appends
    driver.append()

    branch = driver.reply_to(request_id).producer
    assert branch == ProducerIdentity(101, 0)
    assert append.records[0][1].state is TransactionState.ONGOING
    assert list(driver.logged()[TRANSACTIONAL_ID].branching.branches) == [101]
    assert driver.opened(owner) == ProducerIdentity(102, 0)


def test_the_timer_starts_with_the_first_branch(driver):
    owner = driver.owned()
    driver.now_ms = 5000
    driver.opened(owner)
    driver.now_ms = 6000
    driver.opened(owner, ORDERS_0)

    assert driver.current().start_ms == 5000
    assert driver.current().updated_ms == 6000


def test_only_the_owner_opens_branches(driver):
    owner = driver.owned()
    branch = driver.opened(owner)

    assert driver.error_of(driver.open_branch(next_epoch(owner))) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.open_branch(branch)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(driver.open_branch(STRANGER)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(driver.open_branch(owner, "unknown")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_without_a_tag_opens_none(driver):
    assert driver.error_of(driver.open_branch(driver.initialized())) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("is_complete", [False, True])
def test_nothing_is_opened_after_the_commit(driver, is_complete):
    owner = driver.owned()
    driver.end_branched(owner, driver.opened(owner, ORDERS_0))
    driver.append()
    if is_complete:
        driver.settle()

    assert driver.error_of(driver.open_branch(owner)) is ErrorCode.INVALID_TXN_STATE
    assert driver.error_of(driver.open_branch(next_epoch(owner))) is ErrorCode.INVALID_TXN_STATE


def test_there_is_an_end_to_the_number_of_branches():
    driver = CoordinatorDriver(CoordinatorConfig(transaction_state_log_num_partitions=1, max_transaction_branches=2))
    owner = driver.owned()
    driver.opened(owner)
    driver.opened(owner)

    assert driver.error_of(driver.open_branch(owner)) is ErrorCode.POLICY_VIOLATION


def test_a_branch_waits_for_its_producer_id():
    driver = CoordinatorDriver(producer_ids=1)
    owner = driver.owned()
    request_id = driver.open_branch(owner)
    assert not driver.appends
    assert driver.asked_for_ids == 1
    driver.tick(500)

    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_join_the_branch_whose_identity_asks(driver, version):
    owner = driver.owned()
    first, second = driver.opened(owner), driver.opened(owner)
    driver.add(first, ORDERS_0, version=version)
    driver.settle()
    driver.add(first, ORDERS_1, version=version)
    driver.settle()
    driver.add(owner, ORDERS_1, version=version)
    driver.settle()

    current = driver.current()
    assert current.branching.branches[first.producer_id].partitions == {ORDERS_0, ORDERS_1}
    assert current.branching.branches[second.producer_id].partitions == frozenset()
    assert current.partitions == {ORDERS_1}
    assert current.client_version == 2
    assert driver.logged()[TRANSACTIONAL_ID] == current


def test_a_partition_that_is_in_a_branch_needs_no_record(driver):
    branch = driver.opened(driver.owned(), ORDERS_0)
    request_id = driver.add(branch, ORDERS_0, version=2)

    assert driver.error_of(request_id) is ErrorCode.NONE
    assert not driver.appends


def test_a_leader_may_ask_without_adding(driver):
    owner = driver.owned()
    branch, other = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)

    reply = driver.reply_to(driver.add(branch, ORDERS_0, ORDERS_1, verify_only=True))
    assert reply.partition_errors == (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE)
    driver.end_branched(owner, branch)
    late = driver.add(branch, ORDERS_1, verify_only=True)
    assert late not in driver.replies
    driver.append()
    assert driver.error_of(late) is ErrorCode.INVALID_TXN_STATE
    assert driver.error_of(driver.add(other, ORDERS_1, verify_only=True)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("verify_only", [False, True])
def test_a_stranger_and_another_epoch_join_nothing(driver, verify_only):
    branch = driver.opened(driver.owned())

    assert driver.error_of(driver.add(STRANGER, verify_only=verify_only)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(driver.add(next_epoch(branch), verify_only=verify_only)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_a_late_batch_joins_nothing(driver, commit, is_complete):
    owner = driver.owned()
    named, other = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_0)
    driver.end_branched(owner, named, commit=commit)
    driver.append()
    if is_complete:
        driver.settle()

    for branch in (named, other):
        error_code = driver.error_of(driver.add(branch, ORDERS_1, version=2))
        assert error_code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert not driver.appends


def test_all_that_come_in_one_turn_join_by_one_record(driver):
    owner = driver.owned()
    opening = range(1000, 1050)
    driver.send(*(OpenBranch(request_id, TRANSACTIONAL_ID, owner) for request_id in opening))
    assert [len(append.records) for append in driver.appends] == [1]
    driver.append()
    branches = [driver.reply_to(request_id).producer for request_id in opening]
    assert len(set(branches)) == 50

    adding = range(2000, 2050)
    driver.send(
        *(
            AddPartitions(request_id, TRANSACTIONAL_ID, branch, (ORDERS_0,), 2)
            for request_id, branch in zip(adding, branches, strict=True)
        ),
        AddPartitions(2050, TRANSACTIONAL_ID, owner, (ORDERS_1,), 2),
        EndBranched(2051, TRANSACTIONAL_ID, owner, True, tuple(branches)),
    )
    assert [len(append.records) for append in driver.appends] == [2]
    assert {*adding, 2050, 2051}.isdisjoint(driver.replies)
    driver.append()
    assert {driver.error_of(request_id) for request_id in (*adding, 2050, 2051)} == {ErrorCode.NONE}
    assert len(endings(driver.markers[0])) == 51


def test_a_failed_append_sends_back_all_who_wait_for_the_partition(driver):
    owner = driver.owned()
    first = driver.open_branch(owner)
    others = [driver.open_branch(owner) for _ in range(3)]
    driver.lose()

    refused = {driver.error_of(request_id) for request_id in (first, *others)}
    assert refused == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(driver.current().branching.branches) == 3, "what the log had taken before is there"


# The decision


def test_one_record_commits_the_named_branches_and_aborts_the_others(driver):
    owner = driver.owned()
    named, other, unused = (
        driver.opened(owner, ORDERS_0),
        driver.opened(owner, ORDERS_0, ORDERS_1),
        driver.opened(owner),
    )
    driver.add(owner, ORDERS_1, version=2)
    driver.settle()

    request_id = driver.end_branched(owner, named)
    decision = driver.append().snapshot
    assert driver.reply_to(request_id).producer == next_epoch(owner)
    assert decision.state is TransactionState.PREPARE_COMMIT
    assert decision.branching.committed == {named.producer_id}
    assert decision.branching.committed_tag == "batch-1"
    [markers] = driver.markers
    assert endings(markers) == {
        next_epoch(owner): (True, frozenset({ORDERS_1})),
        last_epoch(named): (True, frozenset({ORDERS_0})),
        last_epoch(other): (False, frozenset({ORDERS_0, ORDERS_1})),
    }
    assert markers.transaction_version == 2
    assert last_epoch(unused) not in endings(markers)
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_COMMIT


def test_branches_alone_are_reason_enough_for_markers(driver):
    owner = driver.owned()
    branch = driver.opened(owner, ORDERS_0)
    driver.end_branched(owner)
    driver.append()

    [markers] = driver.markers
    assert markers.branches == (BranchMarkers(last_epoch(branch), False, frozenset({ORDERS_0})),)
    assert not driver.appends


def test_an_abort_aborts_all_and_commits_no_tag(driver):
    owner = driver.owned()
    first, second = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)
    driver.add(owner, ORDERS_1, version=2)
    driver.settle()
    request_id = driver.end_branched(owner, first, commit=False)
    driver.append()

    assert driver.reply_to(request_id).producer == next_epoch(owner)
    assert {commit for commit, _ in endings(driver.markers[0]).values()} == {False}
    assert set(endings(driver.markers[0])) == {next_epoch(owner), last_epoch(first), last_epoch(second)}
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.current().branching is None
    driver.owned("batch-1")


@pytest.mark.parametrize("stranger", [STRANGER, ProducerIdentity(101, 1), NO_PRODUCER], ids=str)
def test_who_names_a_branch_that_was_never_opened_changes_nothing(driver, stranger):
    owner = driver.owned()
    branch = driver.opened(owner, ORDERS_0)
    assert branch.producer_id == 101

    assert driver.error_of(driver.end_branched(owner, branch, stranger)) is ErrorCode.INVALID_REQUEST
    assert not driver.appends
    assert ended(driver, owner, branch) is ErrorCode.NONE


def test_a_branch_of_the_transaction_before_was_never_opened_in_this_one(driver):
    owner = driver.owned()
    old = driver.opened(owner, ORDERS_0)
    driver.end_branched(owner, old)
    driver.settle()
    owner = driver.owned("batch-2")
    driver.opened(owner, ORDERS_0)

    assert driver.error_of(driver.end_branched(owner, old)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_repeat_gets_the_same_answer(driver, commit, is_complete, is_restarted):
    owner = driver.owned()
    branch, other = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)
    first = driver.end_branched(owner, branch, commit=commit)
    driver.append()
    expected = driver.reply_to(first)
    if is_complete:
        driver.settle()
    if is_restarted:
        driver = driver.restarted()

    repeat = driver.end_branched(owner, branch, commit=commit)
    opposite = driver.end_branched(owner, branch, commit=not commit)
    different = driver.end_branched(owner, branch, other)
    driver.settle()

    assert driver.reply_to(repeat).producer == expected.producer
    assert driver.error_of(repeat) is ErrorCode.NONE
    refused = ErrorCode.INVALID_TXN_STATE if commit else ErrorCode.PRODUCER_FENCED
    assert driver.error_of(opposite) is refused
    assert driver.error_of(different) is refused


def test_a_commit_that_the_log_did_not_take_can_be_asked_for_again(driver):
    owner = driver.owned()
    branch = driver.opened(owner, ORDERS_0)
    lost = driver.end_branched(owner, branch)
    driver.lose()
    assert driver.error_of(lost) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.current().branching.committed_tag is None

    assert ended(driver, owner, branch) is ErrorCode.NONE


def test_a_job_that_writes_nothing_commits_its_tag(driver):
    owner = driver.owned()
    request_id = driver.end_branched(owner)
    driver.settle()

    assert driver.reply_to(request_id).producer == next_epoch(owner)
    assert driver.current().state is TransactionState.COMPLETE_COMMIT
    assert driver.current().branching == Branching(committed_tag="batch-1")


@pytest.mark.parametrize("version", [1, 2])
def test_to_end_it_like_an_ordinary_transaction_names_no_branch(driver, version):
    owner = driver.owned()
    branch = driver.opened(owner, ORDERS_0)
    driver.add(owner, ORDERS_1, version=version)
    driver.settle()
    request_id = driver.end(owner, version=version)
    driver.append()

    assert driver.reply_to(request_id).producer == next_epoch(owner)
    assert endings(driver.markers[0]) == {
        next_epoch(owner): (True, frozenset({ORDERS_1})),
        last_epoch(branch): (False, frozenset({ORDERS_0})),
    }
    driver.settle()
    assert driver.current().branching.committed_tag == "batch-1"
    if version == 2:
        assert driver.error_of(driver.end(owner, version=2)) is ErrorCode.NONE


def test_to_repeat_it_like_an_ordinary_transaction_names_other_branches(driver):
    owner = committed(driver)

    assert driver.error_of(driver.end(owner, version=2)) is ErrorCode.INVALID_TXN_STATE


def test_the_owner_may_go_on_as_an_ordinary_producer(driver):
    producer = next_epoch(committed(driver))
    for commit in (True, False, True):
        driver.begun(producer, version=2)
        assert driver.current().branching == Branching(committed_tag="batch-1")
        producer = driver.ended(producer, commit=commit, version=2)
    driver.begun(producer, version=1)
    assert driver.ended(producer, version=1) == producer
    assert driver.current().branching == Branching(committed_tag="batch-1")


def test_an_abort_of_nothing_leaves_the_commit_before_as_it_was(driver):
    owner = next_epoch(committed(driver))
    request_id = driver.end_branched(owner, commit=False)
    driver.append()
    assert driver.reply_to(request_id).producer == next_epoch(owner)
    assert not driver.markers
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.current().branching == Branching(committed_tag="batch-1")


def test_an_owner_whose_epochs_are_used_up_goes_on_with_another_producer_id():
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(TransactionState.EMPTY, producer_epoch=32765)})
    owner = driver.owned()
    assert owner == ProducerIdentity(7, 32766)
    branch = driver.opened(owner, ORDERS_0)
    ended = driver.end_branched(owner, branch)
    driver.settle()

    assert driver.reply_to(ended).producer == ProducerIdentity(101, 0)
    repeat = driver.end_branched(owner, branch)
    assert driver.reply_to(repeat).producer == ProducerIdentity(101, 0)


# Tags


def test_a_tag_that_is_committed_is_not_begun_again(driver):
    committed(driver)
    request_id = driver.begin_branched("batch-1")
    driver.settle()

    reply = driver.reply_to(request_id)
    assert (reply.error_code, reply.tag_is_committed) == (ErrorCode.NONE, True)
    assert driver.error_of(driver.open_branch(reply.producer)) is ErrorCode.INVALID_TXN_STATE
    assert driver.error_of(driver.end_branched(reply.producer)) is ErrorCode.INVALID_TXN_STATE
    driver.owned("batch-2")


def test_whoever_asks_while_the_markers_are_under_way_hears_of_the_commit_when_they_are_written(driver):
    owner = driver.owned()
    driver.end_branched(owner, driver.opened(owner, ORDERS_0))
    early = driver.begin_branched("batch-1")
    driver.append()
    late = driver.begin_branched("batch-1")
    assert not {early, late} & driver.replies.keys()
    driver.settle()

    assert driver.reply_to(early).tag_is_committed
    assert driver.reply_to(late).tag_is_committed


def test_whoever_waits_too_long_is_answered_in_the_right_words(driver):
    owner = driver.owned()
    driver.end_branched(owner, driver.opened(owner, ORDERS_0))
    driver.append()
    request_id = driver.begin_branched("batch-1")
    driver.tick(500)

    assert driver.reply_to(request_id) == BranchedReply(request_id, ErrorCode.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize("how", ["abort", "timeout", "takeover", "ordinary"])
def test_what_is_aborted_leaves_the_last_committed_tag(driver, how):
    committed(driver, "batch-1")
    owner = driver.owned("batch-2")
    driver.opened(owner, ORDERS_0)
    if how == "abort":
        driver.end_branched(owner, commit=False)
    elif how == "timeout":
        driver.tick(60_001)
    elif how == "takeover":
        driver.begin_branched("batch-3")
    else:
        driver.init()
    driver.settle()

    assert driver.current().branching.committed_tag == "batch-1"
    again = driver.begin_branched("batch-1")
    driver.settle()
    assert driver.reply_to(again).tag_is_committed


def test_only_the_last_tag_is_remembered(driver):
    committed(driver, "batch-1")
    committed(driver, "batch-2")

    driver.owned("batch-1")


# Time


def test_a_timeout_aborts_all_branches_and_fences_everybody(driver):
    owner = driver.owned()
    first, second = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)
    driver.tick(60_000)
    assert not driver.appends
    driver.tick(1001)
    driver.append()

    assert endings(driver.markers[0]) == {
        last_epoch(first): (False, frozenset({ORDERS_0})),
        last_epoch(second): (False, frozenset({ORDERS_1})),
    }
    driver.settle()
    assert driver.error_of(driver.end_branched(owner, first)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.open_branch(owner)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.add(first, version=2)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Recovery


def test_an_open_transaction_goes_on_after_a_restart(driver):
    owner = driver.owned()
    branch = driver.opened(owner, ORDERS_0)
    driver = driver.restarted()
    driver.add(branch, ORDERS_1, version=2)
    driver.settle()
    other = driver.opened(owner, ORDERS_0)

    assert ended(driver, owner, branch) is ErrorCode.NONE
    assert endings(driver.written[-1]) == {
        last_epoch(branch): (True, frozenset({ORDERS_0, ORDERS_1})),
        last_epoch(other): (False, frozenset({ORDERS_0})),
    }


def test_after_a_restart_all_markers_of_a_decision_are_sent_again(driver):
    owner = driver.owned()
    branch, _ = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)
    driver.end_branched(owner, branch)
    driver.append()
    [before] = driver.markers
    driver = driver.restarted()
    [after] = driver.markers

    assert endings(after) == endings(before)
    assert after.coordinator_epoch == before.coordinator_epoch + 1
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(("records", "is_committed"), [(1, False), (2, False), (3, False), (4, True), (5, True)])
def test_wherever_the_coordinator_dies_the_tag_tells_the_truth(driver, records, is_committed):
    committed(driver, "batch-1")
    assert len(driver.records) == 5
    del driver.records[records:]
    driver = driver.restarted()
    request_id = driver.begin_branched("batch-1")
    driver.settle()

    assert driver.reply_to(request_id).tag_is_committed is is_committed
