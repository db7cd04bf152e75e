"""Damaged messages: the compiled codec and the interpreter agree about them, and raise nothing but their error."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagleray.protocol.codec import (
    APIS,
    Api,
    MalformedMessage,
    UnknownApi,
    UnsupportedVersion,
    decode_message,
    decode_request,
    decode_response,
    encode_message,
    encode_request,
    encode_response,
)
from eagleray.protocol.messages.annotations import Message
from tests.support.message_samples import samples
from tests.support.messages import MESSAGES, MESSAGES_AND_VERSIONS, name_of, versions_of
from tests.unit.protocol import interpreter

# Bytes that mean something in a length, a count, a tag or a varint.
telling_bytes = st.sampled_from([0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)


@st.composite
def damaged(draw: st.DrawFn, encoded: bytes) -> bytes:
    """Overwrite, remove or insert a few bytes."""
    data = bytearray(encoded)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 3))
        data[position : position + removed] = bytes(draw(st.lists(telling_bytes, max_size=5)))
    return bytes(data)


def outcome(decode, message: type[Message], version: int, data: bytes) -> object:
    try:
        return decode(message, version, data)
    except MalformedMessage:
        return MalformedMessage


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
@settings(max_examples=60)
@given(data=st.data())
def test_damage_is_seen_alike(message: type[Message], data: st.DataObject):
    version = data.draw(st.sampled_from(versions_of(message)))
    sample = data.draw(st.sampled_from(samples(message, version)[:3]))
    bad = data.draw(damaged(encode_message(sample, version)))
    interpreted = outcome(interpreter.decode, message, version, bad)
    assert outcome(decode_message, message, version, bad) == interpreted
    assert outcome(decode_message, message, version, memoryview(bad)) == interpreted
    if isinstance(interpreted, message):
        again = encode_message(interpreted, version)
        assert decode_message(message, version, again) == interpreted


@pytest.mark.parametrize(("message", "version"), MESSAGES_AND_VERSIONS, ids=name_of)
def test_no_message_can_be_cut_short_or_go_on(message: type[Message], version: int):
    small = samples(message, version)[1]
    encoded = encode_message(small, version)
    for decode in (decode_message, interpreter.decode):
        for length in range(len(encoded)):
            assert outcome(decode, message, version, encoded[:length]) is MalformedMessage
        for more in (b"\0", b"\x01", b"\xff" * 9):
            assert outcome(decode, message, version, encoded + more) is MalformedMessage


@settings(max_examples=500)
@given(st.binary(max_size=100))
def test_any_bytes_for_a_request(data: bytes):
    for buffer in (data, memoryview(data)):
        with suppress(MalformedMessage, UnknownApi, UnsupportedVersion):
            decode_request(buffer)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
@settings(max_examples=30)
@given(data=st.data())
def test_damaged_frames_raise_only_our_errors(api: Api, data: st.DataObject):
    version = data.draw(st.sampled_from(versions_of(api.request)))
    request = encode_request(samples(api.request, version)[1], version, 7, "client")[4:]
    response = encode_response(samples(api.response, version)[1], version, 7)[4:]
    bad_request, bad_response = data.draw(damaged(request)), data.draw(damaged(response))
    with suppress(MalformedMessage, UnknownApi, UnsupportedVersion):
        decode_request(bad_request)
    with suppress(MalformedMessage):
        decode_response(bad_response, api.key, version)
