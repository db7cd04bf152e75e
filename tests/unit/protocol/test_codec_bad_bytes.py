"""Bytes that no honest peer sends: each sort is refused with the one error, and none costs memory."""

import tracemalloc
from struct import pack

import pytest

from eagleray.protocol.codec import (
    MalformedMessage,
    UnknownApi,
    UnsupportedVersion,
    decode_message,
    decode_request,
    decode_response,
    encode_message,
    encode_request,
)
from eagleray.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from eagleray.protocol.messages.end_txn import EndTxnRequest
from eagleray.protocol.messages.fetch import FetchRequest
from eagleray.protocol.messages.produce import ProduceRequest
from eagleray.protocol.messages.sync_group import SyncGroupResponse
from tests.support.message_samples import samples
from tests.support.messages import MESSAGES, name_of
from tests.unit.protocol import interpreter

END_TXN_TAIL = pack(">qh?", 7, 1, True)
LONGEST = b"\xff\xff\xff\xff\x0f"

# A message, a version, bytes that are wrong, and what the error says about them.
CASES = {
    "nothing": (EndTxnRequest, 3, b"", "cut short"),
    "text of negative length": (EndTxnRequest, 0, b"\xff\xfe" + END_TXN_TAIL, "a length is -2"),
    "null text": (EndTxnRequest, 0, b"\xff\xff" + END_TXN_TAIL, "cannot be null"),
    "null compact text": (EndTxnRequest, 3, b"\0" + END_TXN_TAIL + b"\0", "cannot be null"),
    "text longer than the message": (EndTxnRequest, 0, b"\x7f\xff" + END_TXN_TAIL, "cut short"),
    "huge compact text": (EndTxnRequest, 3, LONGEST + END_TXN_TAIL + b"\0", "cut short"),
    "text that is not UTF-8": (EndTxnRequest, 3, b"\x03\xff\xfe" + END_TXN_TAIL + b"\0", "utf-8"),
    "a surrogate in text": (EndTxnRequest, 3, b"\x04\xed\xa0\x80" + END_TXN_TAIL + b"\0", "utf-8"),
    "a varint of six bytes": (EndTxnRequest, 3, b"\x80\x80\x80\x80\x80\x01" + END_TXN_TAIL, "five bytes"),
    "a varint of 35 bits": (EndTxnRequest, 3, b"\xff\xff\xff\xff\x7f" + END_TXN_TAIL + b"\0", "wider than 32 bits"),
    "bytes of negative length": (SyncGroupResponse, 0, pack(">hi", 0, -2), "a length is -2"),
    "bytes that end too early": (SyncGroupResponse, 0, pack(">hi", 0, 9) + b"12345678", "cut short"),
    "an array of negative count": (ProduceRequest, 3, pack(">hhii", -1, 1, 0, -2), "a length is -2"),
    "a null array": (ProduceRequest, 3, pack(">hhii", -1, 1, 0, -1), "cannot be null"),
    "a huge array": (ProduceRequest, 3, pack(">hhii", -1, 1, 0, 0x7FFFFFFF), "2147483647 elements do not fit"),
    "a null compact array": (ProduceRequest, 9, pack(">Bhi", 0, 1, 0) + b"\0\0", "cannot be null"),
    "a huge compact array": (ProduceRequest, 9, pack(">Bhi", 0, 1, 0) + LONGEST + b"\0", "4294967294 elements do not"),
    "more integers than there are": (AddPartitionsToTxnRequest, 3, b"\x01" + bytes(10) + b"\x02\x01\x04", "cut short"),
    "a Struct neither there nor null": (ConsumerGroupHeartbeatResponse, 0, bytes(16) + b"\x02\0", "marked 2"),
    "a tag twice": (EndTxnRequest, 3, b"\x01" + END_TXN_TAIL + b"\x02\x05\0\x05\0", "tag 5 comes after tag 5"),
    "tags out of order": (EndTxnRequest, 3, b"\x01" + END_TXN_TAIL + b"\x02\x05\0\x04\0", "tag 4 comes after tag 5"),
    "a tag past the end": (EndTxnRequest, 3, b"\x01" + END_TXN_TAIL + b"\x01\x05\x09", "cut short"),
    "more tags than there are": (EndTxnRequest, 3, b"\x01" + END_TXN_TAIL + LONGEST + b"\x05\0", "cut short"),
    "a known tag twice": (
        ApiVersionsResponse,
        3,
        pack(">hBiB", 0, 1, 0, 2) + pack(">BBqBBq", 1, 8, 5, 1, 8, 5),
        "tag 1 comes after tag 1",
    ),
    "a known tag of a wrong size": (
        ApiVersionsResponse,
        3,
        pack(">hBiB", 0, 1, 0, 1) + pack(">BBq", 1, 7, 5),
        "tag 1 does not have the size",
    ),
    "trailing bytes": (EndTxnRequest, 0, pack(">h", 0) + END_TXN_TAIL + b"abc", "3 bytes follow it"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_bytes_are_refused(case: str):
    message, version, data, reason = CASES[case]
    for buffer in (data, memoryview(data)):
        with pytest.raises(MalformedMessage, match=reason) as caught:
            decode_message(message, version, buffer)
        assert (caught.value.message, caught.value.version) == (message.__name__, version)
    with pytest.raises(MalformedMessage):
        interpreter.decode(message, version, data)


def test_unknown_tags_are_skipped():
    plain = encode_message(EndTxnRequest("id", 7, 1, True), 3)
    with_tags = plain[:-1] + b"\x02" + b"\x05\x03abc" + b"\xff\x01\0"
    assert decode_message(EndTxnRequest, 3, with_tags) == EndTxnRequest("id", 7, 1, True)


def test_unknown_tags_among_known_ones_are_skipped():
    value = FetchRequest(cluster_id="c")
    plain = encode_message(value, 12)
    known = b"\0\x02\x02c"
    assert plain.endswith(b"\x01" + known)
    with_tags = plain.removesuffix(b"\x01" + known) + b"\x02" + known + b"\x09\x02ab"
    assert decode_message(FetchRequest, 12, with_tags) == value


@pytest.mark.parametrize("length", range(8))
def test_a_request_without_a_whole_header(length: int):
    frame = pack(">hhi", 18, 3, 7)[:length]
    for buffer in (frame, bytearray(frame)):
        with pytest.raises(MalformedMessage):
            decode_request(buffer)


@pytest.mark.parametrize("api_key", [-1, 4, 34, 999, 0x7FFF])
def test_unknown_api(api_key: int):
    with pytest.raises(UnknownApi) as caught:
        decode_request(pack(">hhih", api_key, 0, 7, -1))
    assert caught.value.api_key == api_key


@pytest.mark.parametrize(("api_key", "version"), [(0, 2), (0, 14), (18, 6), (18, -1), (26, 0x7FFF)])
def test_unsupported_version_can_be_answered(api_key: int, version: int):
    frame = pack(">hhih", api_key, version, 4711, -1) + b"whatever"
    for buffer in (frame, memoryview(frame)):
        with pytest.raises(UnsupportedVersion) as caught:
            decode_request(buffer)
        assert (caught.value.api_key, caught.value.version) == (api_key, version)
        assert caught.value.correlation_id == 4711


def test_a_frame_cut_after_the_header():
    frame = encode_request(ApiVersionsRequest("client", "1.0"), 3, 7, "me")[4:]
    assert decode_request(frame).header.correlation_id == 7
    for length in range(len(frame)):
        with pytest.raises(MalformedMessage):
            decode_request(frame[:length])


def test_a_response_of_an_api_or_version_that_is_not_there():
    with pytest.raises(UnknownApi):
        decode_response(bytes(8), 999, 0)
    with pytest.raises(UnsupportedVersion):
        decode_response(bytes(8), 26, 6)


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
def test_no_length_costs_memory(message: type[Message]):
    """Claim the greatest length at every position, in old and in compact form, and see what it allocates."""
    for version in set(message.wire.versions):
        encoded = encode_message(samples(message, version)[1], version)
        refuse(message, version, encoded)
        for claim in (b"\x7f\xff\xff\xff", LONGEST, b"\xff\xff\xff\x7f"):
            for position in range(len(encoded)):
                bad = encoded[:position] + claim + encoded[position + len(claim) :]
                assert peak_bytes(message, version, bad) < 20_000


def refuse(message: type[Message], version: int, encoded: bytes) -> None:
    """Have everything compiled and every error raised once, so that only decoding is measured."""
    decode_message(message, version, encoded)
    with pytest.raises(MalformedMessage):
        decode_message(message, version, encoded + b"\0")


def peak_bytes(message: type[Message], version: int, data: bytes) -> int:
    tracemalloc.start()
    try:
        decode_message(message, version, data)
    except MalformedMessage:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak
