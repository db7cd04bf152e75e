"""Every message in every version comes back as it went, and the compiled codec does what the interpreter does."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eagleray.protocol.codec import (
    APIS,
    Api,
    Request,
    Response,
    decode_message,
    decode_request,
    decode_response,
    decode_versioned,
    encode_message,
    encode_request,
    encode_request_buffers,
    encode_response,
    encode_response_buffers,
    encode_versioned,
    read_prefix,
)
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.headers import RequestHeader, ResponseHeader
from tests.support.message_samples import samples
from tests.support.message_strategies import integers, messages, texts
from tests.support.messages import MESSAGES_AND_VERSIONS, STORED, name_of, versions_of
from tests.unit.protocol import interpreter

every_version = pytest.mark.parametrize(("message", "version"), MESSAGES_AND_VERSIONS, ids=name_of)
every_api = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)

# There are nearly 500 versions, and each draws its own.
few_examples = settings(max_examples=10, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])


@every_version
@few_examples
@given(data=st.data())
def test_any_message_comes_back(message: type[Message], version: int, data: st.DataObject):
    check_round_trip(data.draw(messages(message, version)), version)


@every_version
def test_samples_come_back(message: type[Message], version: int):
    for value in samples(message, version):
        check_round_trip(value, version)


def check_round_trip(value: Message, version: int) -> None:
    message = type(value)
    encoded = encode_message(value, version)
    assert encoded == interpreter.encode(value, version)
    assert interpreter.decode(message, version, encoded) == value
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        assert decode_message(message, version, buffer) == value


@every_api
@few_examples
@given(data=st.data(), correlation_id=integers("int32"), client_id=st.none() | texts)
def test_any_request_comes_back(api: Api, data: st.DataObject, correlation_id: int, client_id: str | None):
    version = data.draw(st.sampled_from(versions_of(api.request)))
    body = data.draw(messages(api.request, version))
    header = RequestHeader(api.key, version, correlation_id, client_id)
    header_bytes = interpreter.encode(header, api.request_header_version(version))
    payload = header_bytes + interpreter.encode(body, version)
    frame = encode_request(body, version, correlation_id, client_id)
    assert frame == len(payload).to_bytes(4) + payload
    assert b"".join(encode_request_buffers(body, version, correlation_id, client_id)) == frame
    for buffer in (payload, bytearray(payload), memoryview(payload)):
        assert decode_request(buffer) == Request(header, body)


@every_api
@few_examples
@given(data=st.data(), correlation_id=integers("int32"))
def test_any_response_comes_back(api: Api, data: st.DataObject, correlation_id: int):
    version = data.draw(st.sampled_from(versions_of(api.response)))
    body = data.draw(messages(api.response, version))
    header = ResponseHeader(correlation_id)
    header_bytes = interpreter.encode(header, api.response_header_version(version))
    payload = header_bytes + interpreter.encode(body, version)
    frame = encode_response(body, version, correlation_id)
    assert frame == len(payload).to_bytes(4) + payload
    assert b"".join(encode_response_buffers(body, version, correlation_id)) == frame
    for buffer in (payload, bytearray(payload), memoryview(payload)):
        assert decode_response(buffer, api.key, version) == Response(header, body)


@pytest.mark.parametrize("message", STORED, ids=name_of)
@given(data=st.data())
def test_any_stored_message_comes_back(message: type[Message], data: st.DataObject):
    version = data.draw(st.sampled_from(versions_of(message)))
    value = data.draw(messages(message, version))
    stored = encode_versioned(value, version)
    prefix = version if message.wire.record_type is None else message.wire.record_type
    assert stored == prefix.to_bytes(2) + interpreter.encode(value, version)
    assert read_prefix(stored) == prefix
    for buffer in (stored, bytearray(stored), memoryview(stored)):
        assert decode_versioned(message, buffer) == value
