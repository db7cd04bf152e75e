"""Requests and responses as they travel, some of them written out byte by byte from the protocol's description."""

import pickle

import pytest

from eagleray.protocol.codec import (
    APIS,
    MalformedMessage,
    Request,
    Response,
    UnencodableMessage,
    UnknownApi,
    UnsupportedVersion,
    decode_message,
    decode_request,
    decode_response,
    encode_message,
    encode_request,
    encode_response,
    find_api,
)
from eagleray.protocol.errors import ErrorCode, ProtocolError
from eagleray.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from eagleray.protocol.messages.headers import RequestHeader, ResponseHeader
from eagleray.protocol.messages.metadata import MetadataRequest
from eagleray.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.messages import versions_of

END_TXN = EndTxnRequest("my-txn", 0x0102030405060708, 0x090A, True)

# fmt: off
END_TXN_V0 = bytes([
    0, 0, 0, 31,                         # size
    0, 26, 0, 0, 0, 0, 0, 7, 0, 2,       # API key, version, correlation id, length of the client id
]) + b"me" + bytes([
    0, 6]) + b"my-txn" + bytes([         # the transactional id
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1,    # producer id, epoch, committed
])
END_TXN_V3 = bytes([
    0, 0, 0, 32,
    0, 26, 0, 3, 0, 0, 0, 7, 0, 2,
]) + b"me" + bytes([
    0,                                   # no tags in the header
    7]) + b"my-txn" + bytes([
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1,
    0,                                   # no tags in the body
])
END_TXN_V3_WITHOUT_CLIENT = bytes([
    0, 0, 0, 30,
    0, 26, 0, 3, 0, 0, 0, 7, 255, 255,   # a client id that is null
    0,
    7]) + b"my-txn" + bytes([
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1,
    0,
])
END_TXN_RESPONSE_V0 = bytes([0, 0, 0, 10, 0, 0, 0, 7, 0, 0, 0, 100, 0, 90])
END_TXN_RESPONSE_V3 = bytes([0, 0, 0, 12, 0, 0, 0, 7, 0, 0, 0, 0, 100, 0, 90, 0])
API_VERSIONS_RESPONSE_V3 = bytes([
    0, 0, 0, 19, 0, 0, 0, 7,             # no tags in this header, in no version
    0, 0, 2, 0, 18, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0,
])
# fmt: on


def test_requests_byte_by_byte():
    assert encode_request(END_TXN, 0, 7, "me") == END_TXN_V0
    assert encode_request(END_TXN, 3, 7, "me") == END_TXN_V3
    assert encode_request(END_TXN, 3, 7, None) == END_TXN_V3_WITHOUT_CLIENT
    assert decode_request(END_TXN_V0[4:]) == Request(RequestHeader(26, 0, 7, "me"), END_TXN)
    assert decode_request(END_TXN_V3[4:]) == Request(RequestHeader(26, 3, 7, "me"), END_TXN)
    assert decode_request(END_TXN_V3_WITHOUT_CLIENT[4:]) == Request(RequestHeader(26, 3, 7, None), END_TXN)


def test_responses_byte_by_byte():
    response = EndTxnResponse(100, 90)
    assert encode_response(response, 0, 7) == END_TXN_RESPONSE_V0
    assert encode_response(response, 3, 7) == END_TXN_RESPONSE_V3
    assert decode_response(END_TXN_RESPONSE_V0[4:], 26, 0) == Response(ResponseHeader(7), response)
    assert decode_response(END_TXN_RESPONSE_V3[4:], 26, 3) == Response(ResponseHeader(7), response)


def test_api_versions_is_answered_with_the_oldest_header():
    response = ApiVersionsResponse(api_keys=(ApiVersion(18, 0, 4),))
    assert encode_response(response, 3, 7) == API_VERSIONS_RESPONSE_V3
    assert decode_response(API_VERSIONS_RESPONSE_V3[4:], 18, 3) == Response(ResponseHeader(7), response)


def test_an_old_broker_answers_api_versions_in_version_0():
    answer = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(18, 0, 2),))
    frame = encode_response(answer, 0, 7)[4:]
    for version in versions_of(ApiVersionsResponse):
        assert decode_response(frame, 18, version).body == answer


def test_api_versions_of_any_version_can_be_answered():
    too_new = bytes([0, 18, 0, 99, 0, 0, 0, 7, 255, 255, 0]) + b"what a later version may add"
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(too_new)
    assert caught.value.correlation_id == 7
    answer = ApiVersionsResponse(caught.value.error_code, (ApiVersion(18, *caught.value.supported),))
    assert decode_response(encode_response(answer, 0, 7)[4:], 18, 5).body == answer


def test_headers_follow_flexibility():
    for api in APIS.values():
        for version in versions_of(api.request):
            is_flexible = api.request.wire.is_flexible(version)
            assert api.request_header_version(version) == (2 if is_flexible else 1)
            has_tags = is_flexible and api.name != "ApiVersions"
            assert api.response_header_version(version) == (1 if has_tags else 0)


def test_the_client_id_is_never_compact():
    long_id = "x" * 300
    frame = encode_request(ApiVersionsRequest(), 3, 7, long_id)
    assert frame[12:14] == (300).to_bytes(2)
    assert decode_request(frame[4:]).header.client_id == long_id


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_records_are_views_into_the_frame(buffer_type: type):
    partitions = (PartitionProduceData(0, b"records"), PartitionProduceData(1, None))
    body = ProduceRequest(topic_data=(TopicProduceData("topic", partition_data=partitions),))
    data = encode_request(body, 9, 7, "me")[4:]
    frame = buffer_type(data)
    decoded = decode_request(frame).body
    assert isinstance(decoded, ProduceRequest)
    records, nothing = (partition.records for partition in decoded.topic_data[0].partition_data)
    assert isinstance(records, memoryview)
    assert records.obj is (data if buffer_type is memoryview else frame)
    assert records == b"records"
    assert nothing is None


def test_views_of_other_items_are_taken_as_bytes():
    view = memoryview(END_TXN_V3[4:]).cast("b")
    assert decode_request(view).body == END_TXN
    assert decode_message(EndTxnRequest, 3, memoryview(encode_message(END_TXN, 3)).cast("c")) == END_TXN


def test_apis_are_found_by_key():
    assert find_api(26) is APIS[26]
    assert (APIS[26].name, APIS[26].versions) == ("EndTxn", (0, 5))
    with pytest.raises(UnknownApi):
        find_api(4)


ERRORS = [
    MalformedMessage("EndTxnRequest", 3, "it is cut short"),
    MalformedMessage("RequestHeader", None, "it is cut short"),
    UnencodableMessage("EndTxnRequest", 3, "null"),
    UnsupportedVersion("EndTxn", 9, (0, 5), 26, 7),
    UnknownApi(999),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: ProtocolError):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert copy.error_code is error.error_code


def test_errors_say_what_they_mean_on_the_wire():
    codes = [error.error_code for error in ERRORS]
    invalid, failed = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes == [invalid, invalid, failed, ErrorCode.UNSUPPORTED_VERSION, invalid]


# librdkafka 2.16 asks for all topics: the length of its list has four bytes, of which this version has one.
ALL_TOPICS_V13 = bytes.fromhex("0003000d00000007000772646b61666b610000000000010000")


@pytest.mark.parametrize("buffer", [ALL_TOPICS_V13, memoryview(ALL_TOPICS_V13)], ids=["bytes", "view"])
def test_bytes_behind_a_request_are_not_looked_at(buffer):
    request = decode_request(buffer)
    assert request.header == RequestHeader(3, 13, 7, "rdkafka")
    assert request.body == MetadataRequest(None, allow_auto_topic_creation=False)
