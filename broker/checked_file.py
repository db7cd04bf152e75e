"""Small files that a person can read: JSON below a line with its checksum, so that a changed bit is found."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from eagleray.broker.generations import summed, unsummed

CANNOT_DECODE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that were never encoded: of another shape, with text that is not UTF-8, or nested
without end.
"""

_MOST_DIGITS: Final = 19
"""Of what eight bytes hold: Python refuses to read much longer numbers."""

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
    except CANNOT_DECODE as error:
        raise FileDamaged(str(error)) from error


def count_in(text: bytes) -> int | None:
    """Return the number that a file holds and nothing else; None where it holds something else, or no such number."""
    digits = text.strip()
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None
