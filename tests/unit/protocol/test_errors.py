"""The table of error codes, and the exceptions that carry them."""

import pickle

import pytest

from eagleray.protocol import errors
from eagleray.protocol.errors import (
    CorruptRecord,
    ErrorCode,
    ErrorKind,
    InvalidRecord,
    InvalidTimestamp,
    ProtocolError,
    RecordTooLarge,
    UnsupportedCompression,
    UnsupportedMessageFormat,
)

# The codes whose exceptions are retriable in Kafka's Java client.
RETRIABLE_IN_KAFKA = {
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103,
    106, 122, 123, 133,
}  # fmt: skip


def test_the_numbers_have_no_gaps():
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_retriable_codes_are_those_of_the_java_client():
    assert {code.value for code in ErrorCode if code.is_retriable} == RETRIABLE_IN_KAFKA


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.NONE, ErrorKind.NONE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorKind.RETRIABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorKind.REFRESH_RETRIABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorKind.REFRESH_RETRIABLE),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorKind.ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorKind.ABORTABLE),
        (ErrorCode.FENCED_INSTANCE_ID, ErrorKind.ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, ErrorKind.FATAL),
        (ErrorCode.INVALID_TXN_STATE, ErrorKind.FATAL),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorKind.FATAL),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorKind.EXPECTED),
        (ErrorCode.INVALID_PARTITIONS, ErrorKind.INVALID),
    ],
)
def test_a_transactional_producer_learns_what_to_do(code, kind):
    assert code.kind is kind


def test_only_success_is_of_no_kind():
    assert [code for code in ErrorCode if code.kind is ErrorKind.NONE] == [ErrorCode.NONE]


def test_every_message_is_a_sentence_of_its_own():
    messages = [code.message for code in ErrorCode]
    assert len(set(messages)) == len(messages)
    assert all(message[0].isupper() and message.endswith(".") for message in messages)


@pytest.mark.parametrize("code", ErrorCode)
def test_a_code_survives_the_wire_and_pickling(code):
    assert ErrorCode.from_wire(int(code)) is code
    assert pickle.loads(pickle.dumps(code)) is code


@pytest.mark.parametrize("number", [-2, 134, 32767, -32768])
def test_a_number_of_the_future_is_an_unknown_error(number):
    assert ErrorCode.from_wire(number) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("exception", "code"),
    [
        (CorruptRecord, ErrorCode.CORRUPT_MESSAGE),
        (UnsupportedMessageFormat, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (InvalidRecord, ErrorCode.INVALID_RECORD),
        (InvalidTimestamp, ErrorCode.INVALID_TIMESTAMP),
        (UnsupportedCompression, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (RecordTooLarge, ErrorCode.MESSAGE_TOO_LARGE),
        (ProtocolError, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_exception_carries_its_code_through_pickling(exception, code):
    copy = pickle.loads(pickle.dumps(exception("why")))
    assert type(copy) is exception
    assert copy.error_code is code
    assert str(copy) == "why"


def test_an_exception_can_carry_another_code():
    copy = pickle.loads(pickle.dumps(ProtocolError("why", ErrorCode.UNSUPPORTED_VERSION)))
    assert copy.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert ProtocolError.error_code is ErrorCode.INVALID_REQUEST


def test_every_exception_here_is_a_protocol_error():
    exceptions = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, Exception)]
    assert len(exceptions) >= 7
    assert all(issubclass(exception, ProtocolError) for exception in exceptions)
