"""What an encoder accepts, what it refuses, and what it does with record data."""

import enum

import pytest

from eagleray.protocol.codec import (
    UnencodableMessage,
    UnsupportedVersion,
    decode_message,
    encode_message,
    encode_request,
    encode_request_buffers,
    encode_response,
    encode_response_buffers,
    encode_versioned,
)
from eagleray.protocol.codec.primitives import LARGE_RECORDS_BYTES
from eagleray.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from eagleray.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from eagleray.protocol.messages.headers import ResponseHeader
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest
from eagleray.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from eagleray.protocol.messages.offset_fetch import OffsetFetchRequest
from eagleray.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eagleray.protocol.messages.transaction_log import TransactionLogValue
from tests.unit.protocol import interpreter

# A message, a version that cannot carry it, and what the error says, where the words are ours.
UNENCODABLE: dict[str, tuple[Message, int, str | None]] = {
    "a field that the version lacks": (InitProducerIdRequest(producer_id=5), 2, "producer_id"),
    "a tagged field that the version lacks": (FetchRequest(replica_state=ReplicaState(1, 2)), 14, "replica_state"),
    "a tag before there were any": (TransactionLogValue(next_producer_id=5), 0, "next_producer_id"),
    "an array that the version lacks": (
        AddPartitionsToTxnRequest(v3_and_below_topics=(AddPartitionsToTxnTopic(),)),
        4,
        "v3_and_below_topics",
    ),
    "a null array that the version lacks": (OffsetFetchRequest(topics=None), 8, "topics"),
    "a field that elements lack": (
        FetchRequest(topics=(FetchTopic(partitions=(FetchPartition(last_fetched_epoch=3),)),)),
        11,
        "last_fetched_epoch",
    ),
    "a null before it could be one": (MetadataRequest(topics=None), 0, None),
    "a null in an element": (MetadataRequest(topics=(MetadataRequestTopic(name=None),)), 9, None),
    "a null that could never be": (EndTxnRequest(None), 3, None),
    "a number too great": (EndTxnRequest("id", 1 << 63), 3, None),
    "a number too small": (EndTxnRequest("id", 0, -(1 << 15) - 1), 3, None),
    "an array with a number too great": (
        AddPartitionsToTxnRequest(v3_and_below_topics=(AddPartitionsToTxnTopic("t", (1 << 31,)),)),
        3,
        None,
    ),
    "a text too long for two bytes": (EndTxnRequest("x" * (1 << 15)), 2, None),
    "a lone surrogate": (EndTxnRequest("\ud800"), 3, "utf-8"),
    "bytes for a text": (EndTxnRequest(b"id"), 3, None),
    "a text for a number": (EndTxnRequest("id", "7"), 3, None),
    "a number for an array": (MetadataRequest(topics=7), 3, None),
    "a text for records": (
        ProduceRequest(topic_data=(TopicProduceData(partition_data=(PartitionProduceData(0, "x"),)),)),
        9,
        None,
    ),
    "an id of 15 bytes": (
        ConsumerGroupHeartbeatRequest(topic_partitions=(TopicPartitions(bytes(15)),)),
        0,
        "an id has 15 bytes",
    ),
}


@pytest.mark.parametrize("case", UNENCODABLE)
def test_field_that_a_version_cannot_carry_is_refused(case: str):
    message, version, reason = UNENCODABLE[case]
    with pytest.raises(UnencodableMessage, match=reason) as caught:
        encode_message(message, version)
    assert (caught.value.message, caught.value.version) == (type(message).__name__, version)
    with pytest.raises(UnencodableMessage):
        interpreter.encode(message, version)


def test_ignorable_field_is_dropped():
    response = EndTxnResponse(error_code=3, producer_id=7, producer_epoch=1)
    assert decode_message(EndTxnResponse, 5, encode_message(response, 5)) == response
    assert encode_message(response, 4) == encode_message(EndTxnResponse(error_code=3), 4)


def test_a_default_fits_into_versions_that_lack_the_field():
    request = InitProducerIdRequest("id", 1000, producer_id=-1, producer_epoch=-1)
    assert decode_message(InitProducerIdRequest, 0, encode_message(request, 0)) == request


def test_tagged_fields_are_left_out_when_they_have_their_default():
    assert encode_message(FetchRequest(replica_state=ReplicaState()), 15).endswith(b"\0")
    assert encode_message(FetchRequest(replica_state=ReplicaState(1, 2)), 15)[-15:-13] == b"\x01\x0d"


def test_lists_are_taken_for_tuples():
    with_tuples = AddPartitionsToTxnRequest(v3_and_below_topics=(AddPartitionsToTxnTopic("t", (1, 2)),))
    topics = [AddPartitionsToTxnTopic("t", [1, 2])]
    with_lists = AddPartitionsToTxnRequest(transactions=[], v3_and_below_topics=topics)
    for version in (0, 3):
        assert encode_message(with_lists, version) == encode_message(with_tuples, version)
        assert interpreter.encode(with_lists, version) == encode_message(with_tuples, version)


def test_enumerations_are_taken_for_their_numbers():
    class Code(enum.IntEnum):
        FENCED = 90

    assert encode_message(EndTxnResponse(error_code=Code.FENCED), 3) == encode_message(EndTxnResponse(0, 90), 3)


@pytest.mark.parametrize("version", [-1, 6, 99])
def test_versions_that_are_not_there(version: int):
    for encode in (encode_message, encode_versioned, interpreter.encode):
        with pytest.raises(UnsupportedVersion):
            encode(EndTxnRequest(), version)
    with pytest.raises(UnsupportedVersion):
        encode_request(EndTxnRequest(), version, 7, None)
    with pytest.raises(UnsupportedVersion):
        encode_response(EndTxnResponse(), version, 7)


def test_only_requests_and_responses_travel_in_frames():
    with pytest.raises(TypeError):
        encode_request(EndTxnResponse(), 3, 7, None)
    with pytest.raises(TypeError):
        encode_response(EndTxnRequest(), 3, 7)
    with pytest.raises(TypeError):
        encode_response(TransactionLogValue(), 0, 7)


def fetch_response(*record_sets: bytes | bytearray | memoryview | None) -> FetchResponse:
    partitions = tuple(PartitionData(index, records=records) for index, records in enumerate(record_sets))
    return FetchResponse(responses=(FetchableTopicResponse("topic", partitions=partitions),))


@pytest.mark.parametrize("version", [4, 12, 18])
def test_large_records_are_not_copied(version: int):
    large = bytes(LARGE_RECORDS_BYTES)
    view = memoryview(bytearray(LARGE_RECORDS_BYTES + 1))
    response = fetch_response(large, b"small", view, None)
    buffers = encode_response_buffers(response, version, 7)
    assert len(buffers) == 5
    assert buffers[1] is large
    assert buffers[3] is view
    assert b"".join(buffers) == encode_response(response, version, 7)


@pytest.mark.parametrize("version", [4, 12])
def test_small_records_are_joined_with_the_rest(version: int):
    response = fetch_response(bytes(LARGE_RECORDS_BYTES - 1), None)
    assert encode_response_buffers(response, version, 7) == [encode_response(response, version, 7)]


def test_a_message_without_records_is_one_buffer():
    assert encode_response_buffers(EndTxnResponse(), 3, 7) == [encode_response(EndTxnResponse(), 3, 7)]
    request = ProduceRequest(topic_data=())
    assert encode_request_buffers(request, 9, 7, "me") == [encode_request(request, 9, 7, "me")]


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 20_000])
def test_the_first_count_of_a_frame_may_need_any_number_of_bytes(count: int):
    response = FetchResponse(responses=(FetchableTopicResponse("topic"),) * count)
    payload = interpreter.encode(ResponseHeader(7), 1) + interpreter.encode(response, 12)
    frame = encode_response(response, 12, 7)
    assert frame == len(payload).to_bytes(4) + payload
    assert b"".join(encode_response_buffers(response, 12, 7)) == frame
