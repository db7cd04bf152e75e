"""Error codes against kafka-python's table of them, which we did not write."""

import pytest
from kafka.errors import kafka_errors

from eagleray.protocol.errors import ErrorCode, ErrorKind

KNOWN_TO_BOTH = {number: error for number, error in kafka_errors.items() if number is not None}

# Where kafka-python keeps names that Kafka has since changed, or has names of its own.
OTHER_NAMES = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
# Kafka's Java client retries it; kafka-python does not.
RETRIED_ONLY_BY_JAVA = {ErrorCode.CORRUPT_MESSAGE}
# To us, finding a coordinator or controller again is a refresh as well; kafka-python means topic metadata only,
# and refreshes that for UNKNOWN_LEADER_EPOCH too, where the broker is the one who is behind.
OTHER_REFRESH = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}


def test_there_is_something_to_compare():
    assert len(KNOWN_TO_BOTH) >= 128


@pytest.mark.parametrize("number", sorted(KNOWN_TO_BOTH))
def test_numbers_and_names_are_the_same(number):
    assert KNOWN_TO_BOTH[number].message == OTHER_NAMES.get(number, ErrorCode(number).name)


@pytest.mark.parametrize("number", sorted(KNOWN_TO_BOTH))
def test_the_same_codes_are_retried(number):
    code, error = ErrorCode(number), KNOWN_TO_BOTH[number]
    assert (error.retriable != code.is_retriable) == (code in RETRIED_ONLY_BY_JAVA)
    refresh = code.kind is ErrorKind.REFRESH_RETRIABLE
    assert (error.invalid_metadata != refresh) == (code in OTHER_REFRESH)
