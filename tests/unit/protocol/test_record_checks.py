"""Which headers a broker refuses from a client, and why."""

import pytest

from eagleray.protocol.errors import ErrorCode, InvalidRecord, InvalidTimestamp, UnsupportedCompression
from eagleray.protocol.records import (
    CompressionType,
    EndTransactionMarker,
    NewRecord,
    build_batch,
    build_marker,
    check_client_batch,
    split_batches,
)
from tests.unit.protocol.forge import forge

RECORDS = [NewRecord(b"value", b"key", 1000 + index) for index in range(3)]
IDEMPOTENT = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}


@pytest.mark.parametrize("compression", CompressionType)
@pytest.mark.parametrize(
    "producer",
    [{}, IDEMPOTENT, {**IDEMPOTENT, "transactional": True}, {**IDEMPOTENT, "base_sequence": 2**31 - 1}],
)
def test_batches_of_clients_are_accepted(compression, producer):
    (batch,) = split_batches(build_batch(RECORDS, compression=compression, **producer))
    check_client_batch(batch)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"record_count": 0, "last_offset_delta": -1}, "0 records"),
        ({"record_count": 0}, "0 records"),
        ({"record_count": -1, "last_offset_delta": -2}, "-1 records"),
        ({"record_count": 2}, "last offset delta 0"),
        ({"record_count": 1, "last_offset_delta": 1}, "last offset delta 1"),
        ({"attributes": 0x20}, "control"),
        ({"attributes": 0x40}, "delete horizon"),
        ({"attributes": 0x80}, "0x0080"),
        ({"attributes": 0x0100}, "0x0100"),
        ({"attributes": -(2**15)}, "0x8000"),
        ({"attributes": 0x10}, "no producer id"),
        ({"producer_id": 1, "producer_epoch": 0}, "sequence -1"),
        ({"producer_id": 1, "base_sequence": 0}, "epoch -1"),
    ],
)
def test_batches_that_no_client_may_send_are_refused(fields, reason):
    with pytest.raises(InvalidRecord, match=reason) as refusal:
        check_client_batch(forge(**fields))
    assert refusal.value.error_code is ErrorCode.INVALID_RECORD


def test_a_client_does_not_set_the_append_time():
    with pytest.raises(InvalidTimestamp) as refusal:
        check_client_batch(forge(attributes=0x08))
    assert refusal.value.error_code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(codec):
    with pytest.raises(UnsupportedCompression):
        check_client_batch(forge(attributes=codec))


def test_a_client_does_not_send_markers():
    marker = build_marker(EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, timestamp_ms=0)
    with pytest.raises(InvalidRecord, match="control"):
        check_client_batch(split_batches(marker)[0])
