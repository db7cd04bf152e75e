"""Which records the log of a topic takes from a client, by the settings of the topic."""

import pytest

from eagleray.broker.log import Appended, Isolation, LogConfig, Origin, Rejection, TimestampType
from eagleray.broker.log.reading import TimestampedOffset
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import CompressionType, RecordBatch, RecordError, scan_batches, split_batches
from eagleray.protocol.records.record import encode_record
from tests.support.batches import NOW_MS, data_batch, placed
from tests.support.logs import OpenLog, append, everything
from tests.unit.protocol.forge import forge, forge_bytes

KEYLESS = "it has no key, and the topic is compacted"


def refused(result: Appended | Rejection) -> Rejection:
    assert isinstance(result, Rejection), result
    return result


def test_a_compacted_topic_takes_no_record_without_a_key(open_log: OpenLog) -> None:
    log = open_log(cleanup_compact=True)
    bad, good = data_batch(3, keys=[b"a", None, None]), data_batch(2, keys=[b"a", b""])
    rejection, appended = append(log, bad, good)
    rejection = refused(rejection)
    assert rejection.error_code is ErrorCode.INVALID_RECORD
    assert rejection.record_errors == (RecordError(1, KEYLESS), RecordError(2, KEYLESS))
    assert f"record 1: {KEYLESS}" in rejection.message
    assert appended == Appended(0, 1)


def test_a_topic_takes_keyless_records_again_when_it_is_not_compacted_any_more(open_log: OpenLog) -> None:
    log = open_log(cleanup_compact=True)
    assert isinstance(append(log, data_batch())[0], Rejection)
    log.reconfigure(LogConfig())
    assert append(log, data_batch()) == [Appended(0, 0)]


def test_a_rejected_batch_leaves_its_sequence_to_another(open_log: OpenLog) -> None:
    log = open_log(cleanup_compact=True)
    refused(append(log, data_batch(producer_id=7))[0])
    assert append(log, data_batch(producer_id=7, keys=[b"key"])) == [Appended(0, 0)]


def test_untimely_records_are_named(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=20)
    rejection = refused(append(log, data_batch(4, timestamps_ms=[NOW_MS, NOW_MS - 11, -1, NOW_MS + 21]))[0])
    assert rejection.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in rejection.record_errors] == [1, 3]


def test_the_producers_timestamps_do_not_matter_where_the_leader_stamps(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type=TimestampType.LOG_APPEND_TIME, message_timestamp_before_max_ms=0)
    assert append(log, data_batch(2, timestamps_ms=[1, NOW_MS * 2])) == [Appended(0, 1, NOW_MS)]


def test_a_leader_that_stamps_looks_at_records_all_the_same(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type=TimestampType.LOG_APPEND_TIME, cleanup_compact=True)
    assert refused(append(log, data_batch(timestamps_ms=[NOW_MS]))[0]).record_errors == (RecordError(0, KEYLESS),)
    assert refused(append(log, forge(b"no record"))[0]).error_code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("claimed_ms", [-1, NOW_MS - 5, NOW_MS + 10**12])
def test_a_wrong_largest_timestamp_is_corrected(open_log: OpenLog, claimed_ms: int) -> None:
    """As Kafka does it: retention, rolling and lookups by time all count on this field."""
    log = open_log()
    block = encode_record(0, 0, None, b"first") + encode_record(1, 3, None, b"second")
    sent = forge(block, record_count=2, last_offset_delta=1, base_timestamp=NOW_MS, max_timestamp=claimed_ms)
    assert append(log, sent) == [Appended(0, 1)]
    (batch,) = split_batches(everything(log), verify_crc=True)
    assert batch.header.max_timestamp == NOW_MS + 3
    assert bytes(batch.view[43:]) == bytes(sent.view[43:])
    assert log.active_segment.largest_timestamp_ms == NOW_MS + 3


def test_a_batch_that_unpacks_to_too_much_is_refused(open_log: OpenLog) -> None:
    log = open_log(max_decompressed_bytes=100_000, max_message_bytes=50_000)
    assert isinstance(append(log, data_batch(value=bytes(99_900), compression=CompressionType.GZIP))[0], Appended)
    rejection = refused(append(log, data_batch(value=bytes(100_000), compression=CompressionType.GZIP))[0])
    assert rejection.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert "100000 bytes" in rejection.message


def test_what_may_come_uncompressed_may_come_compressed(open_log: OpenLog) -> None:
    log = open_log(max_decompressed_bytes=1, max_message_bytes=50_000)
    assert isinstance(append(log, data_batch(value=bytes(49_900), compression=CompressionType.ZSTD))[0], Appended)


class NotUnpacked:
    """A batch whose bytes are not to be looked at."""

    def __init__(self, batch: RecordBatch) -> None:
        self.header = batch.header


@pytest.mark.parametrize("change", ["repeated", "of an older epoch", "out of order", "too large"])
def test_a_batch_that_is_answered_by_its_header_is_not_unpacked(open_log: OpenLog, change: str) -> None:
    log = open_log(max_message_bytes=1000)
    gzip = CompressionType.GZIP
    append(log, data_batch(2, producer_id=7, epoch=3, compression=gzip))
    batches = {
        "repeated": data_batch(2, producer_id=7, epoch=3, compression=gzip),
        "of an older epoch": data_batch(producer_id=7, epoch=2, sequence=2, compression=gzip),
        "out of order": data_batch(producer_id=7, epoch=3, sequence=9, compression=gzip),
        "too large": data_batch(producer_id=7, epoch=3, sequence=2, value=bytes(range(256)) * 8),
    }
    (result,) = log.append([NotUnpacked(batches[change])], leader_epoch=0, now_ms=NOW_MS)  # type: ignore[list-item]
    assert result == (Appended(0, 1, is_duplicate=True) if change == "repeated" else refused(result))


def test_what_was_checked_elsewhere_is_not_checked_again(open_log: OpenLog) -> None:
    log = open_log(cleanup_compact=True)
    (result,) = log.append([data_batch()], leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert result == Appended(0, 0)
    assert log.append_replicated([placed(data_batch(), 1, 0)], now_ms=NOW_MS) == [Appended(1, 1)]


# What older versions took

NO_RECORDS = forge(bytes(8), record_count=2**31 - 1, last_offset_delta=2**31 - 2, max_timestamp=NOW_MS + 5)
"""69 bytes that claim as many records as can be."""


def test_time_is_looked_up_across_a_batch_that_cannot_be_decoded(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(2))
    log.append_replicated([placed(NO_RECORDS, 2, 0)], now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    for isolation in Isolation:
        assert log.offset_for_timestamp(NOW_MS + 1, isolation) == TimestampedOffset(NOW_MS + 5, 2)
        assert log.offset_of_largest_timestamp(isolation) == TimestampedOffset(NOW_MS + 5, 2)


def test_log_opens_and_compacts_with_a_batch_that_cannot_be_decoded(open_log: OpenLog) -> None:
    log = open_log(cleanup_compact=True, cleanup_delete=False)
    append(log, data_batch(keys=[b"key"]))
    log.append_replicated([placed(NO_RECORDS, 1, 0)], now_ms=NOW_MS)
    append(log, data_batch(keys=[b"key"]))
    log.advance_high_watermark(log.log_end_offset)
    log.roll(log.log_end_offset, NOW_MS)
    before = split_batches(everything(log))
    compaction = log.compaction(NOW_MS)
    assert compaction is not None
    while compaction.step():
        pass
    log.close()
    again = open_log(cleanup_compact=True, cleanup_delete=False)
    assert [bytes(batch.view) for batch in split_batches(everything(again))] == [
        bytes(batch.view) for batch in before[1:]
    ]
    assert again.log_end_offset == 2**31 + 1


@pytest.mark.parametrize(("delta", "count"), [(-1, 0), (-2, 1), (-(2**31), -(2**31)), (0, 2), (5, -1)])
def test_scan_stops_at_counts_behind_which_it_could_not_go_on(delta: int, count: int) -> None:
    data = bytes(data_batch().view) + forge_bytes(bytes(8), last_offset_delta=delta, record_count=count)
    scan = scan_batches(data)
    assert (len(scan.batches), scan.valid_length, scan.missing_bytes) == (1, data_batch().header.size_bytes, 0)
    assert scan.stopped_by == f"the batch at offset 0 says that it has {count} records and last offset delta {delta}"
