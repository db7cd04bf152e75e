"""Whatever is changed in a good batch, a broker takes it or refuses it as Kafka's rules say.

The rules are written here a second time, over records that the reader of consumers has decoded one by one.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from eagleray.protocol.errors import ErrorCode, ProtocolError
from eagleray.protocol.records import (
    CompressionType,
    NewRecord,
    RecordBatch,
    RecordRules,
    RecordsRefused,
    build_batch,
    check_client_batch,
    check_records,
)
from eagleray.protocol.records.header import HEADER, HEADER_BYTES, decode_header
from tests.property.record_strategies import codecs, small_record_lists

NOW_MS = 1_700_000_000_000
EARLIEST_MS, LATEST_MS = NOW_MS - 1000, NOW_MS + 1000
LIMIT_BYTES = 1 << 20
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
NEAR = st.integers(-3, 200)

uniform_lists = st.builds(
    lambda count, key, size, start_ms, step_ms: [
        NewRecord(bytes([number % 256]) * size, key, start_ms + number * step_ms) for number in range(count)
    ],
    st.integers(1, 140),
    st.sampled_from([None, b"", b"key", bytes(63), bytes(64)]),
    st.integers(0, 130),
    st.integers(NOW_MS - 1500, NOW_MS + 1500) | st.just(-1),
    st.sampled_from([0, 0, 1, 3, -1]),
)
rules = st.builds(
    RecordRules,
    needs_keys=st.booleans(),
    earliest_ms=st.sampled_from([-(2**63), EARLIEST_MS]),
    latest_ms=st.sampled_from([2**63 - 1, LATEST_MS]),
    max_bytes=st.just(LIMIT_BYTES),
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "attributes": st.integers(0, 7) | st.integers(-(2**15), 2**15 - 1),
        "last_offset_delta": NEAR | INT32,
        "base_timestamp": st.integers(NOW_MS - 2000, NOW_MS + 2000) | INT64,
        "max_timestamp": st.integers(NOW_MS - 2000, NOW_MS + 2000) | INT64,
        "producer_id": NEAR | INT64,
        "producer_epoch": st.integers(-(2**15), 2**15 - 1),
        "base_sequence": INT32,
        "record_count": NEAR | INT32,
    },
)
damages = st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), max_size=2)
tails = st.integers(-3, 3)


def mutated(data: bytes, changed: dict[str, int], damage: list[tuple[int, int]], tail: int) -> RecordBatch:
    """Change fields of the header, bytes of the records, and their end."""
    block = bytearray(data[HEADER_BYTES:])
    for position, flipped in damage:
        block[position % len(block)] ^= flipped
    block = block + bytes(tail) if tail >= 0 else block[:tail]
    header = decode_header(data)
    values = {name: getattr(header, name) for name in header.__struct_fields__} | changed
    values["batch_length"] = HEADER_BYTES - 12 + len(block)
    whole = HEADER.pack(*values.values()) + bytes(block)
    return RecordBatch(memoryview(whole), decode_header(whole))


def header_is_refused(batch: RecordBatch) -> bool:
    header = batch.header
    return (
        header.record_count < 1
        or header.last_offset_delta != header.record_count - 1
        or header.attributes & ~0x17 != 0
        or header.attributes & 0x07 > CompressionType.ZSTD
        or (header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0))
        or (header.is_transactional and header.producer_id < 0)
    )


def outcome_by_kafkas_rules(batch: RecordBatch, rules: RecordRules) -> int | tuple[ErrorCode, list[int]]:
    """Return the largest timestamp, or the error and which records it is about."""
    try:
        records = batch.records(max_bytes=LIMIT_BYTES)
    except ProtocolError as error:
        return error.error_code, []
    base_offset = batch.header.base_offset
    if [record.offset for record in records] != [*range(base_offset, base_offset + len(records))]:
        return ErrorCode.INVALID_RECORD, []
    keyless = {place for place, record in enumerate(records) if record.key is None and rules.needs_keys}
    untimely = {
        place
        for place, record in enumerate(records)
        if record.timestamp != -1
        and not rules.earliest_ms <= record.timestamp <= rules.latest_ms
        and place not in keyless
    }
    if keyless or untimely:
        error_code = ErrorCode.INVALID_TIMESTAMP if untimely else ErrorCode.INVALID_RECORD
        return error_code, sorted(keyless | untimely)
    return max(-1, *(record.timestamp for record in records))


def outcome(batch: RecordBatch, rules: RecordRules) -> int | tuple[ErrorCode, list[int]]:
    try:
        return check_records(batch, rules)
    except RecordsRefused as refusal:
        return refusal.error_code, [error.batch_index for error in refusal.record_errors]
    except ProtocolError as error:
        return error.error_code, []


@given(small_record_lists | uniform_lists, codecs, rules, fields, damages, tails)
@example([NewRecord(b"v", b"k", NOW_MS)], CompressionType.NONE, RecordRules(), {"record_count": 2**31 - 1}, [], 0)
def test_a_changed_batch_is_judged_by_kafkas_rules(records, codec, rules, changed, damage, tail):
    batch = mutated(build_batch(records, compression=codec), changed, damage, tail)
    try:
        check_client_batch(batch)
    except ProtocolError:
        assert header_is_refused(batch)
        return
    assert not header_is_refused(batch)
    assert outcome(batch, rules) == outcome_by_kafkas_rules(batch, rules)


@given(uniform_lists, rules, damages, tails)
def test_uniform_records_are_judged_as_each_of_them_is(records, rules, damage, tail):
    batch = mutated(build_batch(records), {}, damage, tail)
    assert outcome(batch, rules) == outcome_by_kafkas_rules(batch, rules)


@given(small_record_lists | uniform_lists, codecs)
def test_what_a_producer_builds_is_taken(records, codec):
    batch = mutated(build_batch(records, compression=codec), {}, [], 0)
    check_client_batch(batch)
    assert check_records(batch) == max(-1, *(record.timestamp for record in records))
