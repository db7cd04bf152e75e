"""Requests and responses as they travel: a header and a body, and before them the size of both.

Decoding takes a frame without that size, as a transport delivers it; encoding gives one with it. A codec is
compiled when a message is met in a version for the first time.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct as Packing
from typing import Any

from msgspec import Struct

from eagleray.protocol.codec.compiler import compile_decoder, compile_frame_encoder
from eagleray.protocol.codec.errors import MalformedMessage
from eagleray.protocol.codec.primitives import Buffer, Data, as_data
from eagleray.protocol.codec.registry import API_VERSIONS_KEY, Api, find_api
from eagleray.protocol.codec.schema import Layout, layout_of
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.headers import RequestHeader, ResponseHeader


class Request(Struct, frozen=True, gc=False):
    """A request with its header."""

    header: RequestHeader
    body: Message


class Response(Struct, frozen=True, gc=False):
    """A response with its header."""

    header: ResponseHeader
    body: Message


RequestDecoder = Callable[[Any], Request]
ResponseEncoder = Callable[[Any, int], bytes]

# The first four bytes of a request are its API and version, so they find its decoder without being parsed.
_request_decoders: dict[bytes, RequestDecoder] = {}
_request_view_decoders: dict[bytes, RequestDecoder] = {}

# A plain dict is found in faster than the cache of a function, and this is asked for every response.
_response_encoders: dict[tuple[type[Message], int], ResponseEncoder] = {}

# What every request begins with, in every version there has been: key, version, correlation id.
_REQUEST_START = Packing(">hhi")


def decode_request(frame: Buffer) -> Request:
    """Decode a request of any API and version.

    Raises UnknownApi, UnsupportedVersion, which has the correlation id to answer with, or MalformedMessage.
    Record data in the request is a view into the frame, and keeps it alive. Bytes behind the request are not looked at,
    as they are not by Kafka: librdkafka leaves some behind a Metadata request for all topics.
    """
    if type(frame) is bytes:
        decode = _request_decoders.get(frame[:4]) or _add_request_decoder(frame, _request_decoders)
        return decode(frame)
    view = memoryview(as_data(frame))
    decode = _request_view_decoders.get(bytes(view[:4])) or _add_request_decoder(view, _request_view_decoders)
    return decode(view)


def decode_response(frame: Buffer, api_key: int, version: int) -> Response:
    """Decode the response to a request of this API and version, or raise MalformedMessage.

    A broker that does not know the version of an ApiVersions request answers in version 0, so its response is
    read as that if it makes no sense otherwise.
    """
    data = as_data(frame)
    reads_view = type(data) is memoryview
    try:
        return _response_decoder(api_key, version, reads_view)(data)
    except MalformedMessage:
        if api_key != API_VERSIONS_KEY or version == 0:
            raise
    return _response_decoder(api_key, 0, reads_view)(data)


def encode_request(body: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request with its header and size. Raises UnsupportedVersion or UnencodableMessage."""
    frame: bytes = _request_encoder(type(body), version, False)(body, correlation_id, client_id)
    return frame


def encode_request_buffers(body: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Encode a request like `encode_request`, as buffers of which large record data is one, not copied."""
    buffers: list[Buffer] = _request_encoder(type(body), version, True)(body, correlation_id, client_id)
    return buffers


def encode_response(body: Message, version: int, correlation_id: int) -> bytes:
    """Encode a response with its header and size. Raises UnsupportedVersion or UnencodableMessage."""
    encode = _response_encoders.get((type(body), version)) or _add_response_encoder(type(body), version)
    return encode(body, correlation_id)


def encode_response_buffers(body: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Encode a response like `encode_response`, as buffers of which large record data is one, not copied."""
    buffers: list[Buffer] = _response_encoder(type(body), version, True)(body, correlation_id)
    return buffers


def _add_request_decoder(frame: Data, decoders: dict[bytes, RequestDecoder]) -> RequestDecoder:
    if len(frame) < _REQUEST_START.size:
        raise MalformedMessage("RequestHeader", None, f"a request of {len(frame)} bytes has no header")
    api_key, version, correlation_id = _REQUEST_START.unpack_from(frame)
    api = find_api(api_key)
    api.check_version(version, correlation_id)
    layouts = [_request_header(api, version), _body(api.request, version)]
    decoder = compile_decoder(layouts, wrapper=Request, allows_more=True, reads_view=type(frame) is memoryview)
    decoders[bytes(frame[:4])] = decoder
    return decoder


def _add_response_encoder(message: type[Message], version: int) -> ResponseEncoder:
    encoder = _response_encoder(message, version, False)
    _response_encoders[message, version] = encoder
    return encoder


@cache
def _response_decoder(api_key: int, version: int, reads_view: bool) -> Callable[[Any], Response]:
    api = find_api(api_key)
    api.check_version(version)
    layouts = [_response_header(api, version), _body(api.response, version)]
    return compile_decoder(layouts, wrapper=Response, reads_view=reads_view)


@cache
def _request_encoder(message: type[Message], version: int, splits_records: bool) -> Callable[..., Any]:
    api = _api_of(message, version)
    if message is not api.request:
        raise TypeError(f"{message.__name__} is not a request")
    header_values = {
        "request_api_key": str(api.key),
        "request_api_version": str(version),
        "correlation_id": "correlation_id",
        "client_id": "client_id",
    }
    return compile_frame_encoder(
        _body(message, version),
        _request_header(api, version),
        header_values,
        ["correlation_id", "client_id"],
        splits_records=splits_records,
    )


@cache
def _response_encoder(message: type[Message], version: int, splits_records: bool) -> Callable[..., Any]:
    api = _api_of(message, version)
    if message is not api.response:
        raise TypeError(f"{message.__name__} is not a response")
    return compile_frame_encoder(
        _body(message, version),
        _response_header(api, version),
        {"correlation_id": "correlation_id"},
        ["correlation_id"],
        splits_records=splits_records,
    )


def _api_of(message: type[Message], version: int) -> Api:
    if message.wire.api_key is None:
        raise TypeError(f"{message.__name__} is neither a request nor a response")
    api = find_api(message.wire.api_key)
    api.check_version(version)
    return api


def _request_header(api: Api, version: int) -> Layout:
    header_version = api.request_header_version(version)
    return layout_of(RequestHeader, header_version, RequestHeader.wire.is_flexible(header_version))


def _response_header(api: Api, version: int) -> Layout:
    header_version = api.response_header_version(version)
    return layout_of(ResponseHeader, header_version, ResponseHeader.wire.is_flexible(header_version))


def _body(message: type[Message], version: int) -> Layout:
    return layout_of(message, version, message.wire.is_flexible(version))
