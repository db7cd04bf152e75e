"""Zigzag varints: small numbers, negative or not, in few bytes; at most 5 for 32 bits and 10 for 64."""

from __future__ import annotations

from eagleray.protocol.errors import InvalidRecord

_KEPT = 1024


def encode_varint(number: int) -> bytes:
    """Encode a number of up to 64 bits."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} does not fit into 64 bits")
    left = number << 1 if number >= 0 else ~(number << 1)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


class _Varints(dict[int, bytes]):
    def __missing__(self, number: int) -> bytes:
        return encode_varint(number)


VARINTS = _Varints((number, encode_varint(number)) for number in range(-1, _KEPT))
"""The encoding of each number. Lengths and deltas are nearly always small, so that theirs cost no call."""

SINGLE_BYTE_VALUES: tuple[int | None, ...] = (
    *((byte >> 1) ^ -(byte & 1) for byte in range(0x80)),
    *[None] * 0x80,
)
"""What a byte stands for by itself, None where more bytes follow: for loops that cannot afford a call."""


def decode_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Decode a number of up to 32 bits; return it with the position after it.

    Raises InvalidRecord when there are more bits. Running off the buffer raises IndexError, which the caller
    turns into an error about the record, since it knows which one that is.
    """
    number = SINGLE_BYTE_VALUES[buffer[position]]
    if number is None:
        return decode_longer(buffer, position + 1, 32)
    return number, position + 1


def decode_longer(buffer: bytes, position: int, bits: int) -> tuple[int, int]:
    """Go on with a varint whose first byte, right before `position`, says that more follow."""
    byte = buffer[position]
    unsigned = buffer[position - 1] & 0x7F | (byte & 0x7F) << 7
    position += 1
    if byte > 0x7F:
        unsigned, position = _decode_rest(buffer, position, bits, unsigned)
    return (unsigned >> 1) ^ -(unsigned & 1), position


def _decode_rest(buffer: bytes, position: int, bits: int, unsigned: int) -> tuple[int, int]:
    for shift in range(14, bits, 7):
        byte = buffer[position]
        position += 1
        unsigned |= (byte & 0x7F) << shift
        if byte < 0x80:
            if unsigned >> bits:
                break
            return unsigned, position
    raise InvalidRecord(f"the varint that ends at {position} has more than {bits} bits")
