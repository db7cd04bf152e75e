"""Small files that a person can read: JSON below a line with its checksum, so that a changed bit is found."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from eagleray.broker.generations import summed, unsummed

Content = TypeVar("Content", bound=msgspec.Struct)


class FileDamaged(Exception):
    """A small file holds what was never written there."""


def encode_checked(content: msgspec.Struct) -> bytes:
    """Return the bytes of the file."""
    return summed(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def decode_checked(data: bytes, kind: type[Content]) -> Content:
    """Return what a file holds; raises FileDamaged, which says what is wrong with it."""
    text = unsummed(data)
    if text is None:
        raise FileDamaged("its checksum does not match")
    return _decode(text, kind)


def decode_checked_or_older(data: bytes, kind: type[Content]) -> Content:
    """Like `decode_checked`, for a file that was written without a checksum before it had one."""
    if data.startswith(b"{"):
        return _decode(data, kind)
    return decode_checked(data, kind)


def _decode(text: bytes, kind: type[Content]) -> Content:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FileDamaged(str(error)) from error
