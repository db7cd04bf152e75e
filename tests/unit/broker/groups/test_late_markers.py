"""Markers of version 1 that come late to `__consumer_offsets`, where the next transaction holds offsets by then."""

from eagleray.protocol.errors import ErrorCode
from tests.support.groups import ORDERS_0, PRODUCER, GroupDriver, marker, offset


def numbered(decision: int, epoch: int = 5, *, commit: bool = True):
    return marker(PRODUCER, commit=commit, coordinator_epoch=epoch, decision=decision, transactional_id="tx")


def pending(driver: GroupDriver, position: int, *, finished: tuple[int, int] | None) -> None:
    """Commit an offset in a transaction whose coordinator says which decision was the last."""
    driver.commit_in_transaction(offset(ORDERS_0, position))
    driver.answer_question() if finished is None else driver.answer_question(finished=finished)
    driver.settle()


def outcome(driver: GroupDriver, *wanted) -> ErrorCode:
    request_id = driver.write_markers(*wanted)
    driver.settle()
    (code,) = driver.replies[request_id].error_codes
    return code


def known_to(driver: GroupDriver) -> int:
    return len(driver.coordinator._context.shards.by_partition[0].decisions)


def test_a_late_marker_does_not_end_the_next_transaction():
    driver = GroupDriver()
    pending(driver, 5, finished=(5, 11))
    assert outcome(driver, numbered(12)) is ErrorCode.NONE
    pending(driver, 9, finished=(5, 12))

    assert outcome(driver, numbered(12)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.offsets() == {ORDERS_0: 5}
    assert driver.unstable() == {ORDERS_0}

    assert outcome(driver, numbered(13, commit=False)) is ErrorCode.NONE
    assert driver.offsets() == {ORDERS_0: 5}
    assert known_to(driver) == 0


def test_a_restarted_coordinator_asks_about_a_marker_before_it_writes_it():
    driver = GroupDriver()
    pending(driver, 5, finished=(5, 11))
    driver.restart()

    assert outcome(driver, numbered(11)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert outcome(driver, numbered(11)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(driver.decision_questions) == 1
    driver.tell_last_decision(5, 11)

    assert outcome(driver, numbered(11)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert outcome(driver, numbered(12)) is ErrorCode.NONE
    assert driver.offsets() == {ORDERS_0: 5}


def test_without_an_answer_the_next_attempt_asks_again():
    driver = GroupDriver()
    pending(driver, 5, finished=None)

    for _ in range(2):
        assert outcome(driver, numbered(12)) is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.tell_last_decision(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    assert driver.unstable() == {ORDERS_0}


def test_a_late_marker_leaves_the_commit_alone_that_waits_for_its_verification():
    driver = GroupDriver()
    waiting = driver.commit_in_transaction(offset(ORDERS_0, 5))

    assert outcome_while_waiting(driver, numbered(12)) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.tell_last_decision(5, 12)
    assert outcome_while_waiting(driver, numbered(12)) is ErrorCode.INVALID_PRODUCER_EPOCH
    driver.answer_question(finished=(5, 12))
    driver.settle()

    assert driver.error_of(waiting) is ErrorCode.NONE
    assert driver.unstable() == {ORDERS_0}


def outcome_while_waiting(driver: GroupDriver, wanted) -> ErrorCode:
    (code,) = driver.replies[driver.write_markers(wanted)].error_codes
    return code


def test_a_commit_that_is_not_confirmed_leaves_no_number():
    driver = GroupDriver()
    driver.commit_in_transaction(offset(ORDERS_0, 5))
    outcome_while_waiting(driver, numbered(12))
    assert known_to(driver) == 1

    driver.answer_question(ErrorCode.TRANSACTION_ABORTABLE)

    assert known_to(driver) == 0


def test_without_a_number_a_marker_is_taken():
    driver = GroupDriver()
    pending(driver, 5, finished=(5, 11))

    assert outcome(driver, marker(PRODUCER, coordinator_epoch=5)) is ErrorCode.NONE
    assert driver.offsets() == {ORDERS_0: 5}
