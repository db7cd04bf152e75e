"""What no request of Kafka's may hold, whichever it is: the limits of Kafka's own codec that ours does not have."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from eagleray.protocol.codec.schema import fields_of
from eagleray.protocol.messages.annotations import WireStruct

LONGEST_TEXT_BYTES: Final = 2**15 - 1
"""Kafka reads no longer text, in any version: keys and values of its logs have two bytes for the length of one."""


class _Fields(NamedTuple):
    texts: tuple[str, ...]
    structs: tuple[str, ...]
    arrays_of_texts: tuple[str, ...]
    arrays_of_structs: tuple[str, ...]


def refusal_of(message: WireStruct, size_bytes: int) -> str | None:
    """Say what is wrong with a request of a size, where something is; what its fields mean is for its handler."""
    if size_bytes <= LONGEST_TEXT_BYTES:
        return None
    name = _field_with_long_text(message)
    return None if name is None else f"its {name} is longer than {LONGEST_TEXT_BYTES} bytes in UTF-8"


def _field_with_long_text(message: WireStruct) -> str | None:
    fields = _fields_of(type(message))
    for name in fields.texts:
        if _is_long(getattr(message, name)):
            return name
    for name in fields.arrays_of_texts:
        if any(map(_is_long, getattr(message, name) or ())):
            return name
    nested = [getattr(message, name) for name in fields.structs]
    for name in fields.arrays_of_structs:
        nested += getattr(message, name) or ()
    found = (_field_with_long_text(each) for each in nested if each is not None)
    return next((name for name in found if name is not None), None)


def _is_long(text: str | None) -> bool:
    if text is None or 4 * len(text) <= LONGEST_TEXT_BYTES:
        return False
    return len(text) > LONGEST_TEXT_BYTES or len(text.encode()) > LONGEST_TEXT_BYTES


@cache
def _fields_of(struct: type[WireStruct]) -> _Fields:
    fields = fields_of(struct)
    return _Fields(
        tuple(field.name for field in fields if field.type.name == "string" and not field.type.is_array),
        tuple(field.name for field in fields if field.type.struct is not None and not field.type.is_array),
        tuple(field.name for field in fields if field.type.name == "string" and field.type.is_array),
        tuple(field.name for field in fields if field.type.struct is not None and field.type.is_array),
    )
