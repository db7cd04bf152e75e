"""Messages that stand in a log or in another message, behind a record type or a version."""

import pytest

from eagleray.protocol.codec import (
    MalformedMessage,
    UnsupportedVersion,
    decode_versioned,
    encode_versioned,
    read_prefix,
)
from eagleray.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from eagleray.protocol.messages.consumer_offsets import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from eagleray.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from eagleray.protocol.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue


def test_keys_stand_behind_their_record_type():
    # As a coordinator of Kafka writes them, and its tools recognise them.
    assert encode_versioned(TransactionLogKey("my-txn")) == b"\0\0\0\6my-txn"
    assert encode_versioned(OffsetCommitKey("g", "t", 3)) == b"\0\1\0\1g\0\1t\0\0\0\3"
    assert encode_versioned(GroupMetadataKey("g")) == b"\0\2\0\1g"


def test_values_stand_behind_their_version():
    value = TransactionLogValue(1, producer_epoch=2, transaction_timeout_ms=3, transaction_status=4)
    old = b"\0\0" + bytes(7) + b"\1\0\2\0\0\0\3\4\0\0\0\0" + bytes(16)
    assert encode_versioned(value, 0) == old
    assert decode_versioned(TransactionLogValue, old) == value
    new = b"\0\1" + bytes(7) + b"\1\0\2\0\0\0\3\4\1" + bytes(16) + b"\0"
    assert encode_versioned(value) == new
    assert decode_versioned(TransactionLogValue, new) == value


def test_tags_of_a_value_are_in_the_order_of_their_numbers():
    value = TransactionLogValue(previous_producer_id=5, next_producer_epoch=6, client_transaction_version=2)
    tags = b"\3" + b"\0\x08" + (5).to_bytes(8) + b"\2\2\0\2" + b"\3\2\0\6"
    assert encode_versioned(value, 1).endswith(tags)
    assert decode_versioned(TransactionLogValue, encode_versioned(value, 1)) == value


def test_partitions_may_be_null_or_there():
    for partitions in (None, (), (PartitionsSchema("t", (0, 1)),)):
        for version in (0, 1):
            value = TransactionLogValue(transaction_partitions=partitions)
            assert decode_versioned(TransactionLogValue, encode_versioned(value, version)) == value


def test_a_tagged_struct_that_may_be_null_bears_the_mark_of_presence():
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=9))
    data = encode_versioned(value, 0)
    # One tagged field, tag 0, seven bytes: the mark, the timeout, no protocols, no tagged fields.
    assert data.endswith(b"\x01\x00\x07" + b"\x01" + b"\0\0\0\x09" + b"\x01" + b"\0")
    assert decode_versioned(ConsumerGroupMemberMetadataValue, data) == value


def test_a_key_of_another_record_type_is_refused():
    with pytest.raises(MalformedMessage, match="record type is 1, not 2"):
        decode_versioned(OffsetCommitKey, encode_versioned(GroupMetadataKey("g")))


def test_a_prefix_tells_what_to_decode():
    assert read_prefix(encode_versioned(GroupMetadataKey("g"))) == 2
    assert read_prefix(memoryview(b"\xff\xff")) == -1


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_too_short_for_a_prefix(data: bytes):
    with pytest.raises(MalformedMessage):
        read_prefix(data)
    with pytest.raises(MalformedMessage):
        decode_versioned(OffsetCommitValue, data)


@pytest.mark.parametrize("version", [-1, 5, 0x7FFF])
def test_a_version_that_is_not_there(version: int):
    with pytest.raises(UnsupportedVersion) as caught:
        decode_versioned(OffsetCommitValue, version.to_bytes(2, signed=True) + bytes(40))
    assert (caught.value.message, caught.value.version) == ("OffsetCommitValue", version)
    assert caught.value.supported == (0, 4)


SUBSCRIPTION = ConsumerProtocolSubscription(("a", "b"), b"user", (TopicPartition("a", (0, 1)),), 7, "rack")


@pytest.mark.parametrize("version", [4, 5, 0x7FFF])
@pytest.mark.parametrize("more", [b"", b"what later versions add"])
def test_a_newer_consumer_protocol_is_read_as_the_highest_known(version: int, more: bytes):
    newer = version.to_bytes(2) + encode_versioned(SUBSCRIPTION, 3)[2:] + more
    assert decode_versioned(ConsumerProtocolSubscription, newer) == SUBSCRIPTION
    assert decode_versioned(ConsumerProtocolSubscription, memoryview(newer)) == SUBSCRIPTION


def test_a_newer_consumer_protocol_may_not_be_cut_short():
    assignment = encode_versioned(ConsumerProtocolAssignment((TopicPartition("a", (0, 1)),), b"user"), 3)
    newer = (9).to_bytes(2) + assignment[2:]
    for length in range(2, len(newer)):
        with pytest.raises(MalformedMessage):
            decode_versioned(ConsumerProtocolAssignment, newer[:length])


def test_only_a_newer_consumer_protocol_may_go_on():
    with pytest.raises(MalformedMessage):
        decode_versioned(ConsumerProtocolSubscription, encode_versioned(SUBSCRIPTION, 3) + b"more")
    with pytest.raises(UnsupportedVersion):
        decode_versioned(ConsumerProtocolSubscription, b"\xff\xff" + encode_versioned(SUBSCRIPTION, 3)[2:])
