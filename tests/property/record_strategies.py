"""Strategies for records and batches."""

from hypothesis import strategies as st

from eagleray.protocol.records import CompressionType, NewRecord, TimestampType

MAX_INT16 = 2**15 - 1
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

small_bytes = st.binary(max_size=80)
nullable_bytes = st.none() | small_bytes | st.sampled_from([b"x" * size for size in (63, 64, 127, 128, 1023, 1024)])
header_lists = st.lists(st.tuples(st.text(max_size=12), nullable_bytes), max_size=4).map(tuple)
timestamps = st.integers(1_700_000_000_000, 1_700_000_100_000) | st.integers(-(2**63), MAX_INT64)
codecs = st.sampled_from(CompressionType)
timestamp_types = st.sampled_from(TimestampType)
offsets = st.integers(0, MAX_INT64 - MAX_INT32)

new_records = st.builds(NewRecord, value=nullable_bytes, key=nullable_bytes, timestamp=timestamps, headers=header_lists)
record_lists = st.lists(new_records, min_size=1, max_size=90)
small_record_lists = st.lists(new_records, min_size=1, max_size=6)

producers = st.just({}) | st.fixed_dictionaries(
    {
        "producer_id": st.integers(0, MAX_INT64),
        "producer_epoch": st.integers(0, MAX_INT16),
        "base_sequence": st.integers(0, MAX_INT32),
        "transactional": st.booleans(),
    }
)
