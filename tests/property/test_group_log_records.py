"""What is packed by hand is what the codec writes, and everything comes back."""

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.groups.log_records import decode_key, decode_value, encode_key, encode_value
from eagleray.broker.groups.state import StoredOffset
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.codec import encode_versioned
from eagleray.protocol.messages.consumer_offsets import OffsetCommitKey, OffsetCommitValue

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PARTITIONS = st.builds(TopicPartition, TEXT, INT32)


@given(TEXT, PARTITIONS)
def test_keys(group: str, partition: TopicPartition):
    key = encode_key(group, partition)

    assert key == encode_versioned(OffsetCommitKey(group=group, topic=partition.topic, partition=partition.partition))
    assert decode_key(key) == (group, partition)


@given(st.builds(OffsetToCommit, PARTITIONS, INT64, INT32, TEXT), INT64, st.integers(0, 2**62))
def test_values(offset: OffsetToCommit, now_ms: int, position: int):
    value = encode_value(offset, now_ms)

    message = OffsetCommitValue(
        offset=offset.offset, leader_epoch=offset.leader_epoch, metadata=offset.metadata, commit_timestamp=now_ms
    )
    assert value == encode_versioned(message, 3)
    assert decode_value(value, position) == StoredOffset(
        offset.offset, offset.leader_epoch, offset.metadata, now_ms, position
    )
