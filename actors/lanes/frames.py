"""The direct lane's bytes: a preface, a welcome, and frames that each carry a list of messages."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from eagleray.actors.lanes.catalog import MESSAGES
from eagleray.broker.messages import Message
from eagleray.protocol.framing import LENGTH

MAGIC: Final = b"EAGL"
"""As the length of a frame this is more than any listener takes, so it cannot be mistaken for Kafka's protocol."""

VERSION: Final = 1
TOKEN_BYTES: Final = 32
_PREFACE = struct.Struct(f">4sH{TOKEN_BYTES}s")
PREFACE_BYTES: Final = _PREFACE.size
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
_SPLIT_BYTES: Final = 4 * 1024 * 1024

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Message]] = msgspec.msgpack.Decoder(list[MESSAGES])


class Welcome(msgspec.Struct, frozen=True, array_like=True):
    """What a listener says to somebody who knows the token."""

    session: int
    node_id: int
    incarnation: int


class NotOurs(Exception):
    """Whoever is at the other end speaks another protocol, another version of it, or does not know the token."""


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


def encode_welcome(welcome: Welcome) -> bytes:
    """The first frame of a listener."""
    return _framed(_encoder.encode(welcome))


def decode_welcome(frame: Any) -> Welcome:  # noqa: ANN401 - any buffer
    """Read the first frame of a listener."""
    return msgspec.msgpack.decode(frame, type=Welcome)


def encode_messages(messages: Sequence[Message]) -> bytes:
    """One payload with all of these messages."""
    return _encoder.encode(messages)


def decode_messages(payload: Any) -> list[Message]:  # noqa: ANN401 - any buffer
    """Read a payload; raises msgspec.DecodeError, which for bytes of another shape is a ValidationError."""
    return _decoder.decode(payload)


def frames_of(messages: Sequence[Message]) -> Sequence[bytes]:
    """Give frames, one where the messages are small; a frame stays far below what a reader takes, if messages do."""
    payload = _encoder.encode(messages)
    if len(payload) <= _SPLIT_BYTES or len(messages) == 1:
        return (_framed(payload),)
    middle = len(messages) // 2
    return (*frames_of(messages[:middle]), *frames_of(messages[middle:]))


def _framed(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload
