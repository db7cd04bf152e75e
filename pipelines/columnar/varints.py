"""Zigzag varints by the column: decoded at many positions of a buffer at once, and written to many."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eagleray.protocol.errors import InvalidRecord

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]

PADDING_BYTES = 32
"""How much a buffer has to go on behind its end: more than the varints of a record take before its key."""

_ONE = np.uint64(1)
_SEVEN_BITS = np.uint64(0x7F)


def decode_varints(data: Bytes, positions: Integers, bits: int) -> tuple[Integers, Integers]:
    """Decode a number of up to `bits` bits at each position; return them with the positions after them.

    Raises InvalidRecord when one has more bits, and IndexError when one lies outside of the data.
    """
    byte = data[positions]
    unsigned = (byte & 0x7F).astype(np.uint64)
    after = positions + 1
    longer = np.flatnonzero(byte > 0x7F)
    if longer.size:
        _decode_rest(data, unsigned, after, longer, bits)
    return ((unsigned >> _ONE) ^ -(unsigned & _ONE)).view(np.int64), after


def _decode_rest(data: Bytes, unsigned: npt.NDArray[np.uint64], after: Integers, longer: Integers, bits: int) -> None:
    """Go on with those numbers of which more bytes follow, in place."""
    for shift in range(7, bits, 7):
        byte = data[after[longer]]
        unsigned[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        if shift + 7 > bits and (byte >> (bits - shift)).any():
            raise InvalidRecord(f"a varint has more than {bits} bits")
        longer = longer[byte > 0x7F]
        if not longer.size:
            return
    # The last byte that may come would have had too many bits, had it said that more follow.
    raise AssertionError("a varint went on behind its last byte")


def zigzag(numbers: Integers) -> npt.NDArray[np.uint64]:
    """Return what is written of each number: small for small ones, negative or not."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def varint_sizes(unsigned: npt.NDArray[np.uint64]) -> Integers:
    """Return how many bytes each number takes."""
    sizes = np.ones(len(unsigned), np.int64)
    largest = int(unsigned.max()) if len(unsigned) else 0
    for shift in range(7, largest.bit_length(), 7):
        sizes += unsigned >> np.uint64(shift) != 0
    return sizes


def write_varints(target: Bytes, positions: Integers, unsigned: npt.NDArray[np.uint64]) -> None:
    """Write each number to its position."""
    longer = np.flatnonzero(unsigned > _SEVEN_BITS)
    target[positions] = unsigned & _SEVEN_BITS
    while longer.size:
        target[positions[longer]] |= 0x80
        positions, unsigned = positions[longer] + 1, unsigned[longer] >> np.uint64(7)
        target[positions] = unsigned & _SEVEN_BITS
        longer = np.flatnonzero(unsigned > _SEVEN_BITS)
