"""Messages by themselves: records of the coordinators' logs, the consumer protocol, or just a body.

In a log a key stands behind the number of its record type, and a value behind its version, two bytes each; so
does what the consumers of a group tell each other. `decode_versioned` and `encode_versioned` are for those;
`decode_message` and `encode_message` have nothing before the message.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct as Packing
from typing import Any, TypeVar

from eagleray.protocol.codec.compiler import compile_decoder, compile_encoder
from eagleray.protocol.codec.errors import MalformedMessage, UnsupportedVersion
from eagleray.protocol.codec.primitives import Buffer, as_data
from eagleray.protocol.codec.schema import Layout, layout_of
from eagleray.protocol.messages.annotations import Message

AnyMessage = TypeVar("AnyMessage", bound=Message)

_PREFIX = Packing(">h")


def decode_message(message: type[AnyMessage], version: int, buffer: Buffer) -> AnyMessage:
    """Decode a message with nothing before it. Raises UnsupportedVersion or MalformedMessage."""
    data = as_data(buffer)
    decoded: AnyMessage = _decoder(message, version, 0, False, type(data) is memoryview)(data)
    return decoded


def encode_message(message: Message, version: int) -> bytes:
    """Encode a message with nothing before it. Raises UnsupportedVersion or UnencodableMessage."""
    return _encoder(type(message), version, None)(message)


def read_prefix(buffer: Buffer) -> int:
    """Give the number before a stored message: the record type of a key, or the version of a value."""
    if len(buffer) < _PREFIX.size:
        raise MalformedMessage("a stored message", None, f"{len(buffer)} bytes are too few for its version")
    (prefix,) = _PREFIX.unpack_from(buffer)
    return int(prefix)


def decode_versioned(message: type[AnyMessage], buffer: Buffer) -> AnyMessage:
    """Decode a message behind its record type or version. Raises UnsupportedVersion or MalformedMessage."""
    data = as_data(buffer)
    version, allows_more = _stored_version(message, read_prefix(data))
    decode = _decoder(message, version, _PREFIX.size, allows_more, type(data) is memoryview)
    decoded: AnyMessage = decode(data)
    return decoded


def encode_versioned(message: Message, version: int | None = None) -> bytes:
    """Encode a message behind its record type or version, which is the highest unless another is given."""
    wire = message.wire
    version = wire.versions[1] if version is None else version
    return _encoder(type(message), version, version if wire.record_type is None else wire.record_type)(message)


def _stored_version(message: type[Message], prefix: int) -> tuple[int, bool]:
    """Say as which version to read what stands behind a prefix, and whether more may follow than it has."""
    wire = message.wire
    _, highest = wire.versions
    if wire.record_type is None:
        return (highest, True) if wire.reads_newer and prefix > highest else (prefix, False)
    if prefix != wire.record_type:
        raise MalformedMessage(message.__name__, None, f"its record type is {wire.record_type}, not {prefix}")
    return highest, False


@cache
def _decoder(
    message: type[Message], version: int, skipped_bytes: int, allows_more: bool, reads_view: bool
) -> Callable[[Any], Any]:
    return compile_decoder(
        [_layout(message, version)],
        skipped_bytes=skipped_bytes,
        allows_more=allows_more,
        reads_view=reads_view,
    )


@cache
def _encoder(message: type[Message], version: int, prefix: int | None) -> Callable[[Any], bytes]:
    return compile_encoder(_layout(message, version), prefix=prefix)


def _layout(message: type[Message], version: int) -> Layout:
    wire = message.wire
    if not wire.is_valid(version):
        raise UnsupportedVersion(message.__name__, version, wire.versions, wire.api_key)
    return layout_of(message, version, wire.is_flexible(version))
