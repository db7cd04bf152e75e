"""Every code that a broker sends is an exception of the right group, and says what to do."""

import pickle

import pytest

from eagleray.client import errors
from eagleray.client.errors import (
    AbortableError,
    EaglerayError,
    FatalError,
    ProducerFenced,
    RefusedError,
    RetriableError,
    TransactionAborted,
    error_for,
)
from eagleray.client.producer.transaction_states import State
from eagleray.protocol.errors import ErrorCode, ErrorKind

CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]
EXCEPTIONS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, EaglerayError) and kind is not EaglerayError
]
GROUPS = (RetriableError, AbortableError, FatalError, RefusedError)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_every_code_has_an_exception_in_exactly_one_group(code: ErrorCode):
    error = error_for(code, "doing something")

    assert sum(isinstance(error, group) for group in GROUPS) == 1
    assert error.error_code is code
    assert code.name in str(error)
    assert "doing something" in str(error)


@pytest.mark.parametrize("code", [code for code in CODES if code.kind is ErrorKind.FATAL], ids=lambda code: code.name)
def test_error_that_ends_a_producer_is_never_offered_for_a_retry(code: ErrorCode):
    assert not isinstance(error_for(code, "writing"), RetriableError | RefusedError)


@pytest.mark.parametrize(
    "code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
)
def test_a_fenced_producer_has_an_exception_of_its_own(code: ErrorCode):
    assert type(error_for(code, "writing")) is ProducerFenced


def test_a_transaction_that_has_to_be_aborted_is_abortable():
    assert type(error_for(ErrorCode.TRANSACTION_ABORTABLE, "writing")) is TransactionAborted


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_exceptions_survive_pickling_and_give_advice(kind: type[EaglerayError]):
    error = kind("what was wrong.", ErrorCode.MESSAGE_TOO_LARGE)
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is kind
    assert str(copy) == str(error) == f"what was wrong. [MESSAGE_TOO_LARGE] {kind.advice}"
    assert kind.advice.endswith(".")


def test_sentence_of_the_broker_is_part_of_the_message():
    assert "sequence 7 after 5" in str(
        error_for(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "writing", "sequence 7 after 5")
    )


@pytest.mark.parametrize("text", [*(kind.advice for kind in EXCEPTIONS), *(state.value for state in State)], ids=str)
def test_advice_fits_callers_without_a_loop(text: str):
    assert "await " not in text
