"""Records that are wrong in one way each: the columns hold what the decoder of single records gives, or both refuse."""

import pytest

from eagleray.pipelines.columnar import RecordColumns, decode
from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records import RecordBatch
from eagleray.protocol.records.record import encode_record
from eagleray.protocol.records.varint import encode_varint
from tests.unit.protocol.forge import forge

EVERYTHING = RecordColumns("orders", 0, 0, 1 << 40, include_headers=True)
SOUND = encode_record(0, 5, b"key", b"value", (("name", b"header"), ("other", None)))
PLAIN = encode_record(1, 5, b"key", b"v" * 70)

PLACES = {
    "alone": lambda record: [forge(record, last_offset_delta=1)],
    "first of three": lambda record: [forge(record + PLAIN + SOUND, record_count=3, last_offset_delta=1)],
    "last of three": lambda record: [forge(SOUND + PLAIN + record, record_count=3, last_offset_delta=1)],
    # Headers of many records are found together, and so are the records of many batches.
    "in thirty records": lambda record: [forge((SOUND + record) * 30, record_count=60, last_offset_delta=1)],
    "in thirty batches": lambda record: [
        forge(PLAIN + record, record_count=2, last_offset_delta=1, base_offset=10 * index) for index in range(30)
    ],
}


def plainly(batches: list[RecordBatch]) -> list[tuple] | None:
    """What the decoder of single records gives, None if it refuses."""
    try:
        return [
            (record.offset, record.timestamp, record.key, record.value, record.headers)
            for batch in batches
            for record in batch.records()
        ]
    except InvalidRecord:
        return None


def by_columns(batches: list[RecordBatch]) -> list[tuple] | None:
    try:
        rows = decode(batches, EVERYTHING)
    except InvalidRecord:
        return None
    return [
        (
            row["offset"],
            None if row["timestamp"] is None else int(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in rows.to_pylist()
    ]


def as_text(rows: list[tuple] | None) -> list[tuple] | None:
    """Bytes of a name that are no text are replaced in columns."""
    if rows is None:
        return None
    return [
        (*row[:4], tuple((name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), v) for name, v in row[4]))
        for row in rows
    ]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("position", range(len(SOUND)))
def test_a_wrong_byte(position, place):
    right = SOUND[position]
    for value in {0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0xFE, 0xFF, right ^ 1, right ^ 2, right + 2, max(0, right - 2)}:
        batches = PLACES[place](SOUND[:position] + bytes([value]) + SOUND[position + 1 :])
        assert by_columns(batches) == as_text(plainly(batches))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("cut", range(len(SOUND)))
def test_a_record_that_ends_early(cut, place):
    batches = PLACES[place](SOUND[:cut])
    assert plainly(batches) is None
    assert by_columns(batches) is None


def record(
    *,
    times: bytes = b"\x00",
    offset: bytes = b"\x00",
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    end: bytes = b"\x00",
) -> bytes:
    body = b"\x00" + times + offset + key + value + end
    return encode_varint(len(body)) + body


GOOD = {
    "nothing": record(),
    "attributes": b"\x0c\xff\x00\x00\x01\x01\x00",
    "a length below -1 is null": record(key=b"\x03", value=b"\xff\xff\xff\xff\x0f"),
    "lengths in more bytes than they need": record(key=b"\x82\x00k", value=b"\x82\x80\x80\x80\x00v"),
    "no headers in more bytes than that needs": record(end=b"\x80\x80\x00"),
    "a record's length in more bytes than it needs": b"\x8c\x80\x00" + record()[1:],
    "a header of no length": record(end=b"\x02\x00\x00"),
    "a header with a length below -1": record(end=b"\x02\x02n\x05"),
    "the largest time": record(times=b"\xfe\xff\xff\xff\xff\x3f"),
}
BAD = {
    "a record's length of more than 32 bits": b"\x8c\x80\x80\x80\x10" + record()[1:],
    "a record's length in six bytes": b"\x8c\x80\x80\x80\x80\x00" + record()[1:],
    "a negative length": b"\x0d" + record()[1:],
    "a record of no length": b"\x00" + record(),
    "a time of more than 64 bits": record(times=b"\xff" * 9 + b"\x02"),
    "a time in eleven bytes": record(times=b"\x80" * 10 + b"\x00"),
    "an offset of more than 32 bits": record(offset=b"\x80\x80\x80\x80\x10"),
    "an offset behind the last one": record(offset=b"\x04"),
    "a negative offset": record(offset=b"\x01"),
    "a key of more than 32 bits": record(key=b"\x82\x80\x80\x80\x10k"),
    "a key over the end of its record": record(key=b"\x06k"),
    "a key of two gigabytes": record(key=b"\xfe\xff\xff\xff\x0fk"),
    "a value over the end of its record": record(value=b"\x06v"),
    "a value of two gigabytes": record(value=b"\xfe\xff\xff\xff\x0fv"),
    "bytes behind the headers": record(end=b"\x00\x00"),
    "no number of headers": record(end=b""),
    "a negative number of headers": record(end=b"\x01"),
    "more headers than there are": record(end=b"\x04\x02n\x02v"),
    "fewer headers than there are": record(end=b"\x02" + b"\x02n\x02v" * 2),
    "no headers but bytes of them": record(end=b"\x80\x00\x02n\x02v"),
    "two billion headers": record(end=b"\xfe\xff\xff\xff\x0f\x02n\x02v"),
    "a header without a name": record(end=b"\x02\x01\x02v"),
    "a header's name over the end": record(end=b"\x02\x20n\x02v"),
    "a header's value over the end": record(end=b"\x02\x02n\x20v"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", GOOD)
def test_unusual_records_are_read(name, place):
    batches = PLACES[place](GOOD[name])
    assert plainly(batches) is not None
    assert by_columns(batches) == plainly(batches)


@pytest.mark.parametrize("others", [0, 30])
def test_batch_that_claims_two_billion_records_is_refused(others):
    count = 2**31 - 1
    claim = forge(bytes(8), record_count=count, last_offset_delta=count - 1)
    with pytest.raises(InvalidRecord, match=f"{count} records do not fit"):
        decode([forge(SOUND)] * others + [claim], EVERYTHING)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BAD)
def test_damaged_records_are_refused(name, place):
    batches = PLACES[place](BAD[name])
    assert plainly(batches) is None
    assert by_columns(batches) is None


@pytest.mark.parametrize("blocks", [1, 30])
@pytest.mark.parametrize(
    ("block", "count"),
    [(b"", 1), (b"", 2**31 - 1), (SOUND, 2), (SOUND, 0), (SOUND, -1), (SOUND, 2**31 - 1), (SOUND + b"\x00", 1)],
)
def test_the_count_has_to_be_right(block, count, blocks):
    batches = [forge(SOUND), forge(block, record_count=count, last_offset_delta=1)] * blocks
    with pytest.raises(InvalidRecord):
        decode(batches, EVERYTHING)


def test_records_of_one_batch_do_not_make_up_for_another():
    with pytest.raises(InvalidRecord):
        decode(
            [forge(PLAIN + PLAIN, last_offset_delta=1), forge(PLAIN, record_count=2, last_offset_delta=1)], EVERYTHING
        )
