"""InitProducerId: who gets which identity, and who is fenced by it."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from eagleray.broker.transactions.log_records import encode_key
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import TRANSACTIONAL_ID, CoordinatorDriver, snapshot

LAST_GIVEN_EPOCH = LAST_EPOCH - 1


def loaded_in(state: TransactionState, **fields: object) -> CoordinatorDriver:
    return CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(state, **fields)})


def test_without_a_transactional_id_anybody_gets_a_fresh_producer_id_at_once():
    driver = CoordinatorDriver()

    first, second = driver.init(None), driver.init(None)

    assert driver.reply_to(first).producer == ProducerIdentity(100, 0)
    assert driver.reply_to(second).producer == ProducerIdentity(101, 0)
    assert not driver.appends


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error_code"),
    [
        ("", 60_000, ErrorCode.INVALID_REQUEST),
        ("t" * 32_768, 60_000, ErrorCode.INVALID_REQUEST),
        ("ü" * 16_384, 60_000, ErrorCode.INVALID_REQUEST),
        ("t", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("t", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("t", 15 * 60 * 1000 + 1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
    ids=["no name", "too many letters", "too many bytes", "no timeout", "negative timeout", "too long a timeout"],
)
def test_what_is_refused_at_once(transactional_id: str, timeout_ms: int, error_code: ErrorCode):
    driver = CoordinatorDriver()

    assert driver.error_of(driver.init(transactional_id, timeout_ms=timeout_ms)) is error_code


@pytest.mark.parametrize("transactional_id", ["t" * 32_767, "ü" * 16_383 + "t"], ids=["letters", "umlauts"])
def test_longest_transactional_id_is_logged(transactional_id: str):
    driver = CoordinatorDriver()

    request_id = driver.init(transactional_id)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.NONE
    assert encode_key(transactional_id).endswith(transactional_id.encode())


def test_the_longest_timeout_is_allowed_and_kept():
    driver = CoordinatorDriver()

    driver.init(timeout_ms=15 * 60 * 1000)
    driver.settle()

    assert driver.current().timeout_ms == 15 * 60 * 1000


def test_the_answer_waits_for_the_log():
    driver = CoordinatorDriver()

    request_id = driver.init()

    assert request_id not in driver.replies
    driver.append()
    assert driver.reply_to(request_id).producer == ProducerIdentity(100, 0)


def test_each_new_producer_fences_the_one_before():
    driver = CoordinatorDriver()
    first = driver.initialized()

    second = driver.initialized()

    assert second == ProducerIdentity(first.producer_id, first.epoch + 1)
    assert driver.error_of(driver.add(first)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.end(first)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.init(expected=first)) is ErrorCode.PRODUCER_FENCED
    driver.begun(second)


def test_creation_that_did_not_reach_the_log_leaves_nothing_behind():
    driver = CoordinatorDriver()
    request_id = driver.init()

    driver.lose()

    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.coordinator.find(TRANSACTIONAL_ID) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    nobody = ProducerIdentity(100, NO_EPOCH)
    assert driver.error_of(driver.add(nobody)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.initialized().epoch == 0


# A producer that goes on after an error (KIP-360)


def test_a_named_producer_gets_the_next_epoch_and_the_same_again_when_it_repeats():
    driver = CoordinatorDriver()
    first = driver.initialized()

    second = driver.initialized(expected=first)

    assert second.epoch == first.epoch + 1
    assert driver.initialized(expected=first) == second
    assert driver.initialized(expected=second).epoch == second.epoch + 1


def test_once_the_new_epoch_is_used_nobody_may_repeat_with_the_old():
    driver = CoordinatorDriver()
    first = driver.initialized()
    second = driver.initialized(expected=first)
    driver.begun(second)

    assert driver.error_of(driver.init(expected=first)) is ErrorCode.PRODUCER_FENCED
    assert not driver.appends, "a zombie does not abort the transaction of its successor"
    driver.ended(second)
    assert driver.error_of(driver.init(expected=first)) is ErrorCode.PRODUCER_FENCED


def test_a_newer_producer_takes_the_right_to_repeat_away():
    driver = CoordinatorDriver()
    first = driver.initialized()
    driver.initialized(expected=first)

    driver.initialized()

    assert driver.error_of(driver.init(expected=first)) is ErrorCode.PRODUCER_FENCED


# A transaction is open


@pytest.mark.parametrize("version", [1, 2])
def test_an_open_transaction_is_aborted_first(version: int):
    driver = CoordinatorDriver()
    first = driver.initialized()
    driver.begun(first, version=version)

    request_id = driver.init()
    abort = driver.append()

    assert abort.snapshot.state is TransactionState.PREPARE_ABORT
    assert abort.snapshot.producer_epoch == first.epoch + 1, "one above the zombie's, not two"
    assert driver.markers[0].producer == ProducerIdentity(first.producer_id, first.epoch + 1)
    assert not driver.markers[0].commit
    assert request_id not in driver.replies, "held until the markers are written"
    driver.settle()
    assert driver.reply_to(request_id).producer == ProducerIdentity(first.producer_id, first.epoch + 2)
    assert driver.error_of(driver.end(first, version=version)) is ErrorCode.PRODUCER_FENCED


def test_held_too_long_it_is_told_to_try_again_and_succeeds_then():
    driver = CoordinatorDriver()
    first = driver.initialized()
    driver.begun(first)
    request_id = driver.init()
    driver.append()

    driver.tick(driver.config.request_hold_ms)

    assert driver.error_of(request_id) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.settle()
    assert driver.initialized().epoch == first.epoch + 2


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_may_abort_its_own_transaction_by_naming_itself(version: int):
    driver = CoordinatorDriver()
    first = driver.initialized()
    driver.begun(first, version=version)

    second = driver.initialized(expected=first)

    assert second == ProducerIdentity(first.producer_id, first.epoch + 1)
    assert driver.current().state is TransactionState.EMPTY
    driver.begun(second, version=version)


@pytest.mark.parametrize("version", [1, 2])
def test_a_zombie_that_names_itself_cannot_abort_the_transaction_of_its_successor(version: int):
    driver = CoordinatorDriver()
    zombie = driver.initialized()
    successor = driver.initialized()
    driver.begun(successor, version=version)

    assert driver.error_of(driver.init(expected=zombie)) is ErrorCode.PRODUCER_FENCED
    assert driver.current().state is TransactionState.ONGOING
    driver.ended(successor, version=version)


# The epochs are used up


@pytest.mark.parametrize("is_named", [False, True])
def test_after_the_last_epoch_comes_another_producer_id(is_named: bool):
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH)
    old = ProducerIdentity(7, LAST_GIVEN_EPOCH)

    new = driver.initialized(expected=old if is_named else None)

    assert new == ProducerIdentity(100, 0)
    assert driver.current().previous_producer_id == 7


def test_the_old_pair_is_accepted_as_a_repeat_until_the_new_one_is_used():
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH)
    old = ProducerIdentity(7, LAST_GIVEN_EPOCH)
    new = driver.initialized(expected=old)

    assert driver.initialized(expected=old) == new
    assert driver.initialized(expected=old) == new
    driver.begun(new)
    assert driver.error_of(driver.init(expected=old)) is ErrorCode.PRODUCER_FENCED


def test_another_coordinator_knows_the_old_pair_of_a_producer_that_has_not_heard_of_its_new_one():
    """KAFKA-20357: there the log does not keep the epoch that was named, so that the producer is refused as fenced."""
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH)
    old = ProducerIdentity(7, LAST_GIVEN_EPOCH)
    new = driver.initialized(expected=old)

    assert driver.restarted().initialized(expected=old) == new


def test_the_old_pair_is_no_repeat_if_somebody_else_asked():
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH)
    driver.initialized()

    assert driver.error_of(driver.init(expected=ProducerIdentity(7, LAST_GIVEN_EPOCH))) is ErrorCode.PRODUCER_FENCED


def test_an_epoch_of_the_old_producer_id_is_not_taken_for_one_of_the_new():
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH)
    new = driver.initialized(expected=ProducerIdentity(7, LAST_GIVEN_EPOCH))
    newer = driver.initialized(expected=new)

    assert driver.error_of(driver.init(expected=ProducerIdentity(7, new.epoch))) is ErrorCode.PRODUCER_FENCED
    assert driver.initialized(expected=new) == newer


def test_the_last_epoch_of_the_old_producer_id_is_not_taken_for_one_of_the_new():
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH)
    new = driver.initialized(expected=ProducerIdentity(7, LAST_GIVEN_EPOCH))

    stranger = ProducerIdentity(new.producer_id, LAST_GIVEN_EPOCH)

    assert driver.error_of(driver.init(expected=stranger)) is ErrorCode.PRODUCER_FENCED


def test_a_repeat_of_the_last_step_gets_the_last_epoch_again_and_no_new_producer_id():
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH - 1)
    before = ProducerIdentity(7, LAST_GIVEN_EPOCH - 1)
    last = driver.initialized(expected=before)

    assert last.epoch == LAST_GIVEN_EPOCH
    assert driver.initialized(expected=before) == last


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_named", [False, True])
def test_abort_may_use_the_epoch_that_no_producer_gets(version: int, is_named: bool):
    driver = loaded_in(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=version)
    old = ProducerIdentity(7, LAST_GIVEN_EPOCH)

    request_id = driver.init(expected=old if is_named else None)
    abort = driver.append()
    driver.settle()

    assert abort.snapshot.producer_epoch == LAST_EPOCH
    assert driver.reply_to(request_id).producer == ProducerIdentity(100, 0)
    if is_named:
        assert driver.initialized(expected=old) == ProducerIdentity(100, 0)
    else:
        assert driver.error_of(driver.init(expected=old)) is ErrorCode.PRODUCER_FENCED


def test_what_an_abort_at_the_last_epoch_leaves_is_given_to_nobody():
    driver = loaded_in(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=2)
    zombie = ProducerIdentity(7, LAST_GIVEN_EPOCH)
    driver.tick(10**6)
    driver.settle()
    assert driver.current().producer_epoch == LAST_EPOCH

    for commit in (False, True):
        assert driver.error_of(driver.end(zombie, commit=commit, version=2)) is ErrorCode.PRODUCER_FENCED
    assert driver.initialized() == ProducerIdentity(100, 0)


def test_not_even_to_the_one_that_asked_for_the_abort_by_its_name():
    driver = loaded_in(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=2)
    producer = ProducerIdentity(7, LAST_GIVEN_EPOCH)
    driver.init(expected=producer)
    driver.append()
    driver.tick(driver.config.request_hold_ms)
    driver.settle()
    assert driver.current().last_producer_epoch == LAST_GIVEN_EPOCH

    assert driver.error_of(driver.end(producer, commit=False, version=2)) is ErrorCode.PRODUCER_FENCED
    assert driver.initialized(expected=producer) == ProducerIdentity(100, 0)


def test_a_log_that_has_gone_beyond_the_last_epoch_does_not_stop_the_coordinator():
    driver = loaded_in(TransactionState.ONGOING, producer_epoch=LAST_EPOCH)

    assert driver.initialized() == ProducerIdentity(100, 0)


def test_a_new_beginning_clears_what_only_served_repeats():
    driver = loaded_in(TransactionState.EMPTY, producer_epoch=LAST_GIVEN_EPOCH)
    new = driver.initialized(expected=ProducerIdentity(7, LAST_GIVEN_EPOCH))

    driver.begun(new)

    assert driver.current().last_producer_epoch == NO_EPOCH
    assert driver.current().previous_producer_id == NO_PRODUCER_ID
