"""Our codec against kafka-python's, an implementation that we did not write: byte for byte, both ways."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

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
    encode_response,
    encode_versioned,
)
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.api_versions import ApiVersionsResponse
from eagleray.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from eagleray.protocol.messages.headers import RequestHeader, ResponseHeader
from tests.support.kafka_python import class_of, to_theirs
from tests.support.message_samples import samples
from tests.support.message_strategies import integers, messages, texts
from tests.support.messages import name_of, versions_of


def common_versions(message: type[Message]) -> list[int]:
    return [version for version in versions_of(message) if version <= class_of(message).max_version]


APIS_OF_BOTH = [api for api in APIS.values() if class_of(api.request) is not None]
BODIES_OF_BOTH = [
    (message, version)
    for api in APIS_OF_BOTH
    for message in (api.request, api.response)
    for version in common_versions(message)
]
CONSUMER_PROTOCOL = (ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def test_there_is_something_to_compare():
    assert len(APIS_OF_BOTH) >= len(APIS) - 5
    assert len(BODIES_OF_BOTH) >= 430


@pytest.mark.parametrize(("message", "version"), BODIES_OF_BOTH, ids=name_of)
def test_bodies_are_the_same_bytes(message: type[Message], version: int):
    for value in samples_for_both(message, version):
        theirs = to_theirs(value, class_of(message), version)
        encoded = theirs.encode(version=version)
        assert encode_message(value, version) == encoded
        assert decode_message(message, version, encoded) == value
        assert class_of(message).decode(encoded, version=version) == theirs


@pytest.mark.parametrize("api", APIS_OF_BOTH, ids=lambda api: api.name)
@settings(max_examples=5)
@given(data=st.data(), correlation_id=integers("int32"), client_id=st.none() | texts)
def test_requests_are_the_same_bytes(api: Api, data: st.DataObject, correlation_id: int, client_id: str | None):
    version = data.draw(st.sampled_from(common_versions(api.request)))
    value = data.draw(messages(api.request, version))
    theirs = to_theirs(value, class_of(api.request), version)
    theirs.with_header(correlation_id=correlation_id, client_id=client_id)
    frame = theirs.encode(header=True, framed=True)
    assert encode_request(value, version, correlation_id, client_id) == frame
    assert decode_request(frame[4:]) == Request(RequestHeader(api.key, version, correlation_id, client_id), value)


@pytest.mark.parametrize("api", APIS_OF_BOTH, ids=lambda api: api.name)
@settings(max_examples=5)
@given(data=st.data(), correlation_id=integers("int32"))
def test_responses_are_the_same_bytes(api: Api, data: st.DataObject, correlation_id: int):
    version = data.draw(st.sampled_from(common_versions(api.response)))
    value = for_both(data.draw(messages(api.response, version)), version)
    theirs = to_theirs(value, class_of(api.response), version)
    theirs.with_header(correlation_id=correlation_id)
    frame = theirs.encode(header=True, framed=True)
    assert encode_response(value, version, correlation_id) == frame
    assert decode_response(frame[4:], api.key, version) == Response(ResponseHeader(correlation_id), value)
    assert class_of(api.response).decode(frame, version=version, header=True, framed=True) == theirs


@pytest.mark.parametrize("message", CONSUMER_PROTOCOL, ids=name_of)
@given(data=st.data())
def test_consumer_protocol_is_the_same_bytes(message: type[Message], data: st.DataObject):
    version = data.draw(st.sampled_from(versions_of(message)))
    value = data.draw(messages(message, version))
    theirs = to_theirs(value, class_of(message), version)
    encoded = theirs.encode(version=version)
    assert encode_versioned(value, version) == encoded
    assert decode_versioned(message, encoded) == value
    assert class_of(message).decode(encoded) == theirs


def samples_for_both(message: type[Message], version: int) -> list[Message]:
    return [for_both(value, version) for value in samples(message, version)]


def for_both(value: Message, version: int) -> Message:
    """Take the error out of an ApiVersionsResponse.

    With one, kafka-python takes it for a response of version 0, which is what an old broker would send.
    """
    if isinstance(value, ApiVersionsResponse) and version > 0:
        return replace(value, error_code=0)
    return value
