"""Building batches: record by record, as markers, and again after compaction."""

import pytest

from eagleray.protocol.records import (
    HEADER_BYTES,
    BatchBuilder,
    CompressionType,
    EndTransactionMarker,
    NewRecord,
    Record,
    RecordBatch,
    TimestampType,
    build_batch,
    build_keyed_batch,
    build_marker,
    rebuild_batch,
    split_batches,
    stamp_append_time,
)

RECORDS = [
    NewRecord(b"one", b"a", 1000, (("h", b"1"),)),
    NewRecord(b"two", b"b", 990),
    NewRecord(None, b"a", 1020),
    NewRecord(b"four", None, 1010),
]


def only(data: bytes) -> RecordBatch:
    (batch,) = split_batches(data)
    return batch


def test_the_header_says_what_was_asked_for():
    data = build_batch(
        RECORDS,
        base_offset=50,
        producer_id=9,
        producer_epoch=3,
        base_sequence=17,
        transactional=True,
        compression=CompressionType.ZSTD,
        leader_epoch=2,
    )
    header = only(data).header
    assert (header.base_offset, header.last_offset, header.record_count) == (50, 53, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 17)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1020)
    assert header.is_transactional
    assert not header.is_control
    assert header.compression is CompressionType.ZSTD
    assert header.partition_leader_epoch == 2


def test_append_time_is_the_latest_timestamp():
    batch = only(build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert [record.timestamp for record in batch.records()] == [1020] * 4


def test_a_record_without_a_timestamp_stays_without():
    batch = only(build_batch([NewRecord(b"x")]))
    assert (batch.header.max_timestamp, batch.records()[0].timestamp) == (-1, -1)


def test_a_batch_needs_a_record():
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_the_builder_knows_its_size_and_its_limit():
    builder = BatchBuilder(max_bytes=200)
    assert builder.size_bytes == HEADER_BYTES
    taken = 0
    while builder.add(NewRecord(b"x" * 20, b"key", 5)):
        taken += 1
        assert builder.size_bytes == len(builder.build()) <= 200
    assert len(builder) == taken == 4
    assert len(only(builder.build()).records()) == taken
    assert builder.add(NewRecord(b""))


def test_the_first_record_always_fits():
    builder = BatchBuilder(max_bytes=100)
    assert builder.add(NewRecord(b"x" * 1000))
    assert not builder.add(NewRecord(b""))
    assert only(builder.build()).records()[0].value == b"x" * 1000


def test_a_refused_record_leaves_no_trace():
    builder = BatchBuilder(max_bytes=100)
    builder.add(NewRecord(b"small", None, 10))
    before = builder.build()
    assert not builder.add(NewRecord(b"x" * 1000, None, 99))
    assert builder.build() == before


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_what_a_control_batch_of_one_record_would_be(commit):
    data = build_marker(EndTransactionMarker(commit, 5), producer_id=7, producer_epoch=1, timestamp_ms=1234)
    key, value = b"\x00\x00\x00" + bytes([commit]), b"\x00\x00\x00\x00\x00\x05"
    ordinary = build_batch([NewRecord(value, key, 1234)], producer_id=7, producer_epoch=1, transactional=True)
    batch = only(data)
    assert data[HEADER_BYTES:] == ordinary[HEADER_BYTES:]
    assert data[:17] == ordinary[:17]
    assert batch.header.attributes == only(ordinary).header.attributes | 0x20
    assert batch.records() == [Record(0, 1234, key, value)]


class TestRebuilding:
    """What compaction writes in place of a batch."""

    @pytest.fixture(params=CompressionType)
    def batch(self, request):
        return only(
            build_batch(
                RECORDS,
                base_offset=100,
                producer_id=5,
                producer_epoch=2,
                base_sequence=2**31 - 2,
                transactional=True,
                compression=request.param,
                leader_epoch=8,
            )
        )

    def test_gaps_stay_gaps(self, batch):
        records = batch.records()
        rebuilt = only(rebuild_batch(batch, [records[1], records[3]], delete_horizon_ms=None))
        assert rebuilt.records() == [records[1], records[3]]
        assert rebuilt.header.record_count == 2
        assert (rebuilt.header.base_offset, rebuilt.header.last_offset) == (100, 103)
        assert (rebuilt.header.base_timestamp, rebuilt.header.max_timestamp) == (990, 1010)
        self.assert_same_producer(rebuilt, batch)

    def test_a_delete_horizon_takes_the_place_of_the_base_timestamp(self, batch):
        records = batch.records()
        rebuilt = only(rebuild_batch(batch, records[2:], delete_horizon_ms=50_000))
        assert rebuilt.header.delete_horizon_ms == rebuilt.header.base_timestamp == 50_000
        assert rebuilt.header.max_timestamp == 1020
        assert rebuilt.records() == records[2:]
        self.assert_same_producer(rebuilt, batch)

    def test_a_horizon_is_kept_only_when_it_is_given_again(self, batch):
        once = only(rebuild_batch(batch, batch.records(), delete_horizon_ms=50_000))
        again = only(rebuild_batch(once, once.records()[1:], delete_horizon_ms=once.header.delete_horizon_ms))
        assert again.header.delete_horizon_ms == 50_000
        without = only(rebuild_batch(once, once.records(), delete_horizon_ms=None))
        assert bytes(without.view) == bytes(batch.view)

    def test_an_empty_batch_keeps_the_producer(self, batch):
        rebuilt = only(rebuild_batch(batch, [], delete_horizon_ms=50_000))
        assert rebuilt.header.size_bytes == HEADER_BYTES
        assert rebuilt.header.record_count == 0
        assert rebuilt.records() == []
        assert not rebuilt.header.has_delete_horizon
        assert rebuilt.header.compression is CompressionType.NONE
        assert (rebuilt.header.base_timestamp, rebuilt.header.max_timestamp) == (-1, 1020)
        self.assert_same_producer(rebuilt, batch)

    def test_append_time_stays(self, batch):
        stamped = only(stamp_append_time(batch, 7_000))
        for horizon_ms in (None, 50_000):
            rebuilt = only(rebuild_batch(stamped, stamped.records()[1:2], delete_horizon_ms=horizon_ms))
            assert rebuilt.header.timestamp_type is TimestampType.LOG_APPEND_TIME
            assert rebuilt.header.max_timestamp == 7_000
            assert rebuilt.records() == stamped.records()[1:2]

    def test_a_marker_gets_a_horizon(self):
        marker = EndTransactionMarker(False, 3)
        batch = only(build_marker(marker, producer_id=1, producer_epoch=0, timestamp_ms=77, base_offset=4))
        rebuilt = only(rebuild_batch(batch, batch.records(), delete_horizon_ms=50_000))
        assert rebuilt.end_transaction_marker() == marker
        assert rebuilt.header.delete_horizon_ms == 50_000
        assert rebuilt.records()[0].timestamp == 77
        empty = only(rebuild_batch(batch, [], delete_horizon_ms=None))
        assert empty.header.is_control

    @staticmethod
    def assert_same_producer(rebuilt, batch):
        for field in ("producer_id", "producer_epoch", "base_sequence", "last_sequence", "last_offset"):
            assert getattr(rebuilt.header, field) == getattr(batch.header, field)
        for field in ("base_offset", "last_offset_delta", "partition_leader_epoch", "is_transactional"):
            assert getattr(rebuilt.header, field) == getattr(batch.header, field)


@pytest.mark.parametrize(
    "records",
    [
        [(b"key", b"value")],
        [(b"", b"")],
        [(b"key", None)],
        [(b"k" * 2000, b"v" * 200_000), (b"a", None), (b"b", b"")],
        [(b"%d" % number, b"x" * number) for number in range(1500)],
    ],
    ids=["one", "empty", "tombstone", "large", "many"],
)
def test_a_keyed_batch_is_what_the_general_builder_would_build(records):
    general = build_batch(
        [NewRecord(value, key=key, timestamp=1234) for key, value in records], base_offset=77, leader_epoch=5
    )
    assert build_keyed_batch(records, timestamp_ms=1234, base_offset=77, leader_epoch=5) == general
