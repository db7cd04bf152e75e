"""Small files in two generations: where a disk has changed one of them, the other is there.

A generation has a sequence number, and is written over the older one of the two, with a checksum. So a crash leaves the
one before, and so does a disk that changes a bit. The newest valid one counts. Where a file is there and cannot be
read, what it has said is unknown: that is no reason to take it for one that was never written. Neither is it where
the file is gone: a generation that is not the first has another beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from crc32c import crc32c

from eagleray.broker.filesystem import FileSystem, write_atomically

SECOND_SUFFIX = ".2"
"""What the name of the file of even generations ends in. Files of earlier releases have the other name, and no number;
the first generation takes their place.
"""

FIRST_SEQUENCE: Final = 1
"""That of the generation that is alone until the next is written."""

_CHECKSUM = b"crc32c %08x\n"


class Numbered(Protocol):
    """What is kept in generations."""

    @property
    def sequence(self) -> int:
        """The number of the generation."""


Kept = TypeVar("Kept", bound=Numbered)


class Generations(msgspec.Struct, Generic[Kept], frozen=True):
    """What was found of a file in two generations."""

    newest: Kept | None
    """The newest that can be read."""

    damaged: int
    """How many cannot be read, or were written and are gone: either may have been newer."""


def summed(text: bytes) -> bytes:
    """Put a checksum in the line before a text."""
    return _CHECKSUM % crc32c(text) + text


def unsummed(data: bytes) -> bytes | None:
    """Return the text behind its checksum; None where the two do not agree."""
    size_bytes = len(_CHECKSUM % 0)
    text = data[size_bytes:]
    return text if data[:size_bytes] == _CHECKSUM % crc32c(text) else None


def read_generations(file_system: FileSystem, path: str, decode: Callable[[bytes], Kept | None]) -> Generations[Kept]:
    """Read both generations; `decode` returns None for what it cannot read."""
    paths = [each for each in (path, path + SECOND_SUFFIX) if file_system.exists(each)]
    found = [decode(file_system.read_bytes(each)) for each in paths]
    valid = [each for each in found if each is not None]
    newest = max(valid, key=lambda each: each.sequence, default=None)
    is_one_gone = len(found) == 1 and newest is not None and newest.sequence > FIRST_SEQUENCE
    return Generations(newest, len(found) - len(valid) + is_one_gone)


def write_generation(file_system: FileSystem, path: str, sequence: int, data: bytes) -> None:
    """Write a generation in the place of the one before the last; it is on stable storage when this returns."""
    write_atomically(file_system, path if sequence % 2 else path + SECOND_SUFFIX, data)
