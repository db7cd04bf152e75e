"""Bytes to messages and back, compiled once for each message and version.

    request = decode_request(frame)
    reply = encode_response(EndTxnResponse(), request.header.request_api_version, request.header.correlation_id)

Decoding raises UnknownApi, UnsupportedVersion or MalformedMessage and nothing else, whatever the bytes; what it
allocates is bounded by what it was given. Encoding raises UnencodableMessage if a value does not fit.
"""

from eagleray.protocol.codec.errors import MalformedMessage, UnencodableMessage, UnknownApi, UnsupportedVersion
from eagleray.protocol.codec.frames import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_request_buffers,
    encode_response,
    encode_response_buffers,
)
from eagleray.protocol.codec.primitives import Buffer
from eagleray.protocol.codec.registry import APIS, Api, find_api
from eagleray.protocol.codec.standalone import (
    decode_message,
    decode_versioned,
    encode_message,
    encode_versioned,
    read_prefix,
)

__all__ = [
    "APIS",
    "Api",
    "Buffer",
    "MalformedMessage",
    "Request",
    "Response",
    "UnencodableMessage",
    "UnknownApi",
    "UnsupportedVersion",
    "decode_message",
    "decode_request",
    "decode_response",
    "decode_versioned",
    "encode_message",
    "encode_request",
    "encode_request_buffers",
    "encode_response",
    "encode_response_buffers",
    "encode_versioned",
    "find_api",
    "read_prefix",
]
