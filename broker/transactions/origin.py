"""Where a transaction comes from: for those who look for what holds their readers back."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.limits import Int64, Text
from eagleray.broker.messages import Message

ORIGIN_VERSION: Final = 1
ORIGIN_BYTES: Final = 200
"""No origin takes more in a record: it stands in each that the coordinator writes about the transactional id."""


class Origin(Message, frozen=True):
    """Which program has begun, as far as it or its connection says. It is shown, and decides nothing.

    The coordinator takes note of it with the identity of the producer. What a program cannot know stays empty.
    """

    client_address: Text = ""
    """The address that the request came from."""

    client_id: Text = ""
    """The `client.id` of the producer."""

    ray_job: Text = ""
    """The Ray job that the program belongs to."""

    ray_task: Text = ""
    """The actor of that job, by its name where it has one, or else the task that has connected."""

    spark_application: Text = ""
    spark_query: Text = ""
    spark_batch: Int64 = -1
    principal: Text = ""
    """Who the client has shown that it is, as in User:ada; empty for one that has shown nothing, and for handles."""


UNKNOWN_ORIGIN: Final = Origin()

_DEFAULTS: Final = msgspec.structs.astuple(UNKNOWN_ORIGIN)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Origin)


def encode_origin(origin: Origin | None) -> bytes:
    """Give the bytes that keep an origin, with its longest texts cut where they are too many; none for an unknown."""
    fields: list[Any] = [] if origin is None else [*msgspec.structs.astuple(origin)]
    while fields and fields[-1] == _DEFAULTS[len(fields) - 1]:
        fields.pop()
    if not fields:
        return b""
    while len(encoded := bytes([ORIGIN_VERSION]) + _encoder.encode(fields)) > ORIGIN_BYTES:
        place = max(range(len(fields)), key=lambda place: len(str(fields[place])))
        fields[place] = str(fields[place])[: len(str(fields[place])) * 3 // 4]
    return encoded


def decode_origin(data: bytes) -> Origin:
    """Read an origin; one that cannot be read is an unknown one."""
    if not data or data[0] != ORIGIN_VERSION:
        return UNKNOWN_ORIGIN
    try:
        return _decoder.decode(data[1:])
    except CANNOT_DECODE:
        return UNKNOWN_ORIGIN
