"""Records as columns are the records that are decoded one by one, and damage is refused alike."""

import hypothesis.strategies as st
from hypothesis import example, given

from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import CompressionType, NewRecord, RecordBatch, RecordColumns, build_batch, split_batches
from eagleray.protocol.records.columns import decode_columns
from eagleray.protocol.records.record import Record, decode_records

SIZES = st.sampled_from([None, 0, 1, 5, 63, 64, 100, 9000])
NOW_MS = 1_700_000_000_000


@st.composite
def runs(draw):
    """Records in runs of one layout, some of them long, with single ones of another between them."""
    records = []
    for _ in range(draw(st.integers(1, 4))):
        key, value = draw(SIZES), draw(SIZES)
        step = draw(st.sampled_from([0, 1, 7, 1000]))
        headers = draw(st.sampled_from([(), (), (("h", b"x"),)]))
        for number in range(draw(st.sampled_from([1, 2, 3, 4, 70, 150]))):
            texts = [None if size is None else bytes([number % 256]) * size for size in (value, key)]
            records.append(NewRecord(*texts, NOW_MS + number * step, headers))
    return records


def as_records(columns):
    fields = (columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers)
    assert len({*map(len, fields)}) == 1
    return list(map(Record, *fields))


def outcome(decode, *given, **named):
    try:
        return decode(*given, **named)
    except ProtocolError as error:
        return type(error)


@given(runs(), st.sampled_from(["none", "gzip"]))
def test_columns_are_the_records(records, compression):
    (batch,) = split_batches(build_batch(records, compression=CompressionType[compression.upper()]))
    assert as_records(batch.columns()) == batch.records()


@given(
    runs(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3), st.integers(0, 3)
)
@example([NewRecord(b"x", None, NOW_MS)] * 8, [(10, 255)], 0)
def test_damaged_records_are_refused_alike(records, damage, cut):
    (batch,) = split_batches(build_batch(records))
    block = bytearray(batch.records_block())
    for place, byte in damage:
        block[place % len(block)] = byte
    block = bytes(block[: len(block) - cut])
    header = batch.header
    fields = {
        "base_offset": header.base_offset,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": header.base_timestamp,
    }
    for append_timestamp in (None, NOW_MS + 5):
        given_fields = fields | {"append_timestamp": append_timestamp}
        one_by_one = outcome(decode_records, block, len(records), **given_fields)
        together = outcome(decode_columns, block, len(records), **given_fields)
        together = as_records(together) if isinstance(together, RecordColumns) else together
        assert together == one_by_one


def test_ascending_offsets_are_recognised_up_to_the_last_width():
    records = [NewRecord(b"x", None, NOW_MS)] * 9000
    (batch,) = split_batches(build_batch(records))
    assert isinstance(batch, RecordBatch)
    assert batch.columns().offsets == [record.offset for record in batch.records()] == list(range(9000))
