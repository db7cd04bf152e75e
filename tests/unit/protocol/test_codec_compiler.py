"""Generated code: where its source can be seen, and that it is made once."""

import linecache
import traceback
from struct import pack
from unittest.mock import patch

import pytest

from eagleray.protocol.codec import (
    MalformedMessage,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
    encode_response,
    source,
    standalone,
)
from eagleray.protocol.codec.primitives import encode_compact, encode_uvarint, read_uvarint
from eagleray.protocol.codec.source import Source
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tests.unit.protocol import interpreter


@pytest.fixture
def _compiled_anew():
    """Compile again: Python itself empties the line cache when memory is short, as other tests make it."""
    standalone._decoder.cache_clear()
    standalone._encoder.cache_clear()


@pytest.mark.usefixtures("_compiled_anew")
def test_a_traceback_shows_the_generated_line():
    with pytest.raises(MalformedMessage) as caught:
        decode_message(EndTxnRequest, 3, b"\x01" + bytes(5))
    cause = caught.value.__cause__
    assert cause is not None
    shown = "".join(traceback.format_exception(cause))
    assert "<eagleray decoder of EndTxnRequest version 3 from bytes>" in shown
    assert "producer_id, producer_epoch, committed, tags = _unpack_qhoB(data, position)" in shown


@pytest.mark.usefixtures("_compiled_anew")
def test_the_source_outlives_a_check_of_the_line_cache():
    encode_message(EndTxnRequest(), 3)
    linecache.checkcache()
    assert linecache.getline("<eagleray encoder of EndTxnRequest version 3>", 1) == "def encode(body):\n"


def test_a_codec_is_compiled_once():
    frame = encode_request(EndTxnRequest("id"), 4, 7, "me")[4:]
    decode_request(frame)
    decode_request(bytearray(frame))
    encode_response(EndTxnResponse(), 4, 7)
    with patch.object(source.Source, "compile", side_effect=AssertionError("compiled again")):
        decode_request(frame)
        decode_request(memoryview(frame))
        encode_request(EndTxnRequest("id"), 4, 7, "me")
        encode_response(EndTxnResponse(), 4, 7)


def test_variables_never_share_a_name():
    function = Source("test", "f", "data")
    assert [function.fresh(name) for name in ("name", "name", "data", "position")] == [
        "name",
        "name_2",
        "data_2",
        "position_2",
    ]


def test_a_name_means_one_object():
    function = Source("test", "f")
    assert function.bind("thing", "one") == function.bind("thing", "one")
    with pytest.raises(NameError):
        function.bind("thing", "other")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**32 - 1])
def test_varints(value: int):
    encoded = encode_uvarint(value)
    assert read_uvarint(b"xx" + encoded + b"x", 2) == (value, 2 + len(encoded))
    assert read_uvarint(memoryview(encoded), 0) == (value, len(encoded))
    assert len(encoded) == max(1, -(-value.bit_length() // 7))


def test_varints_may_be_longer_than_they_need():
    assert read_uvarint(b"\x80\x80\x00", 0) == (0, 3)
    assert decode_message(EndTxnRequest, 3, b"\x82\x00a" + pack(">qh?B", 1, 2, True, 0)) == EndTxnRequest(
        "a", 1, 2, True
    )


def test_a_null_may_be_longer_than_it_needs():
    short = encode_message(ConsumerGroupHeartbeatRequest(), 1)
    nulls = short[6:8] + short[12:16]
    assert nulls == bytes(6)
    long = short[:6] + b"\x80\x00" * 2 + short[8:12] + b"\x80\x00" * 4 + short[16:]
    assert decode_message(ConsumerGroupHeartbeatRequest, 1, long) == ConsumerGroupHeartbeatRequest()
    assert interpreter.decode(ConsumerGroupHeartbeatRequest, 1, long) == ConsumerGroupHeartbeatRequest()


@pytest.mark.parametrize("value", [-1, 2**32])
def test_numbers_that_are_no_varints(value: int):
    with pytest.raises(ValueError, match="does not fit"):
        encode_uvarint(value)


def test_null_is_the_compact_length_zero():
    assert (encode_compact(-1), encode_compact(0)) == (b"\0", b"\x01")
