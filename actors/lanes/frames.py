"""The direct lane's bytes: a preface, a welcome, and frames that each carry a list of messages."""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from eagleray.actors.lanes.catalog import MESSAGES
from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.messages import Message
from eagleray.protocol.framing import LENGTH
from eagleray.protocol.records import BytesLike

MAGIC: Final = b"EAGL"
"""As the length of a frame this is more than any listener takes, so it cannot be mistaken for Kafka's protocol."""

VERSION: Final = 3
"""Another number wherever a peer of the last could not read what is sent; see `tests/golden/lane_messages.txt`."""

TOKEN_BYTES: Final = 32
_PREFACE = struct.Struct(f">4sH{TOKEN_BYTES}s")
PREFACE_BYTES: Final = _PREFACE.size
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
_SPLIT_BYTES: Final = 4 * 1024 * 1024

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Message]] = msgspec.msgpack.Decoder(list[MESSAGES])

encode_messages: Final[Callable[[Sequence[Message]], bytes]] = _encoder.encode
"""Returns one payload with all of these messages."""

decode_messages: Final[Callable[[BytesLike], list[Message]]] = _decoder.decode
"""Reads a payload; raises one of CANNOT_DECODE, which for bytes of another shape is a msgspec.ValidationError."""

_one_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(MESSAGES)

CANNOT_ENCODE: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""What encoding raises for a message with something that no lane carries: a number of 70 bits, an unknown object."""


class Welcome(msgspec.Struct, frozen=True, array_like=True):
    """What a listener says to a client that knows the token."""

    session: int
    node_id: int
    incarnation: int


class NotOurs(Exception):
    """The other end speaks another protocol, another version of it, or for another session; or knows no token."""


def encode_preface(token: bytes) -> bytes:
    """What a connection begins with."""
    return _PREFACE.pack(MAGIC, VERSION, token)


def decode_preface(data: bytes) -> bytes:
    """Return the token; raises NotOurs."""
    magic, version, token = _PREFACE.unpack_from(data)
    if magic != MAGIC:
        raise NotOurs(f"a connection begins with {magic!r}; expected {MAGIC!r}")
    if version != VERSION:
        raise NotOurs(f"a peer speaks version {version} of the direct lane; expected {VERSION}")
    return bytes(token)


def check_preface(data: bytes, token: bytes) -> None:
    """Raise NotOurs where a connection does not begin like one of a peer that knows the token."""
    if not hmac.compare_digest(decode_preface(data), token):
        raise NotOurs("the peer does not know the token of this cluster")


def encode_welcome(welcome: Welcome) -> bytes:
    """The first frame of a listener."""
    return _framed(_encoder.encode(welcome))


def decode_welcome(frame: BytesLike) -> Welcome:
    """Read the first frame of a listener."""
    return msgspec.msgpack.decode(frame, type=Welcome)


def decode_readable(payload: BytesLike) -> tuple[list[Message], list[Malformed]]:
    """Read what can be read of a payload that `decode_messages` refused, and give the answers to the rest.

    Many askers share a connection: one question with a text in the place of a number must not cost the others theirs.
    Raises one of CANNOT_DECODE where not even the questions can be told apart.
    """
    readable: list[Message] = []
    malformed: list[Malformed] = []
    for parts in msgspec.msgpack.decode(payload, type=list[list[Any]]):
        try:
            readable.append(_one_decoder.decode(_encoder.encode(parts)))
        except msgspec.ValidationError as error:
            if len(parts) < 2 or type(parts[1]) is not int:
                raise
            malformed.append(Malformed(parts[1], f"{parts[0]} cannot be read: {error}"))
    return readable, malformed


def split_encodable(messages: Sequence[Message]) -> tuple[list[Message], list[Malformed]]:
    """Separate messages that can be encoded from the rest, which each get an answer that says why not."""
    encodable: list[Message] = []
    malformed: list[Malformed] = []
    for message in messages:
        try:
            frames_of((message,))
        except CANNOT_ENCODE as error:
            request_id: int = message.request_id  # type: ignore[attr-defined] # every message of a lane has one
            malformed.append(Malformed(request_id, f"{type(message).__name__} cannot be encoded: {error}"))
        else:
            encodable.append(message)
    return encodable, malformed


def frames_of(messages: Sequence[Message]) -> Sequence[bytes]:
    """Give frames, one where the messages are small; raises one of CANNOT_ENCODE."""
    payload = _encoder.encode(messages)
    if len(payload) <= _SPLIT_BYTES:
        return (_framed(payload),)
    if len(messages) == 1:
        if len(payload) > MAX_FRAME_BYTES:
            raise ValueError(f"it has {len(payload)} bytes; at most {MAX_FRAME_BYTES} go into a frame")
        return (_framed(payload),)
    middle = len(messages) // 2
    return (*frames_of(messages[:middle]), *frames_of(messages[middle:]))


def _framed(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload
