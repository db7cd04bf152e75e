"""Error codes of offsets in transactions, as producers know them."""

import pytest

from eagleray.actors.kafka_server.codes import for_offsets_in_transaction
from eagleray.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("error_code", "version", "said"),
    [
        (ErrorCode.NONE, 6, ErrorCode.NONE),
        (ErrorCode.UNKNOWN_MEMBER_ID, 6, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.STALE_MEMBER_EPOCH, 6, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.STALE_MEMBER_EPOCH, 3, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 6, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.PRODUCER_FENCED, 6, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_a_producer_hears_a_code_that_it_knows(error_code, version, said):
    assert for_offsets_in_transaction(error_code, version) is said
