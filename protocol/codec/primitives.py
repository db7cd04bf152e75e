"""What generated codecs call where inlining does not pay: long lengths, unknown tags, and errors.

Positions are indexes into `data`, which is bytes or a view of bytes. Functions that read return the value and
the position behind it, and raise ValueError, or IndexError where the data ends: the caller, which knows the
message, makes a MalformedMessage of both. Slices may reach past the end, because they cut themselves short and
the position, which does not, then fails the check at the end of the message.
"""

from struct import error as struct_error
from typing import NoReturn

MAXIMUM_UVARINT = 0xFFFF_FFFF

# A count or length is written plus one in compact form, and most need a single byte. The last entry is also
# the one with the index -1, which stands for null.
HIGHEST_SHORT_LENGTH = 126
COMPACT_LENGTHS = (*(bytes([length + 1]) for length in range(HIGHEST_SHORT_LENGTH + 1)), b"\0")

# Record data below this size is cheaper to copy into its frame than to hand to the transport by itself.
LARGE_RECORDS_BYTES = 4096

# Arrays of integers up to this count are read and written by functions that are ready.
PREPARED_COUNT = 16

# What decoding takes, and what it works on.
Buffer = bytes | bytearray | memoryview
Data = bytes | memoryview


def as_data(buffer: Buffer) -> Data:
    """Give the buffer as what compiled decoders work on: bytes as they are, all else as a view of bytes."""
    if type(buffer) is bytes:
        return buffer
    view = memoryview(buffer)
    return view if view.format == "B" else view.cast("B")


def read_uvarint(data: Data, position: int) -> tuple[int, int]:
    """Read an unsigned number of up to 32 bits, seven of them in each byte, the lowest first."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAXIMUM_UVARINT:
                raise ValueError("a varint is wider than 32 bits")
            return value, position
    raise ValueError("a varint is longer than five bytes")


def encode_uvarint(value: int) -> bytes:
    """Write an unsigned number of up to 32 bits, seven of them in each byte, the lowest first."""
    if not 0 <= value <= MAXIMUM_UVARINT:
        raise ValueError(f"{value} does not fit into a varint of 32 bits")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_compact(length: int) -> bytes:
    """Write a compact length; -1 is null."""
    return encode_uvarint(length + 1)


def encode_tagged(tag: int, field: bytes) -> bytes:
    """Write a field of a tagged section: its tag, its size, itself."""
    return encode_uvarint(tag) + encode_uvarint(len(field)) + field


def long_text(data: Data, position: int, is_nullable: bool) -> tuple[str | None, int]:
    """Read a compact string whose length takes any number of bytes."""
    length, start = _long_length(data, position, is_nullable)
    if length < 0:
        return None, start
    return str(data[start : start + length], "utf-8"), start + length


def long_bytes(data: Data, position: int, is_nullable: bool) -> tuple[bytes | None, int]:
    """Read compact bytes whose length takes any number of bytes."""
    length, start = _long_length(data, position, is_nullable)
    if length < 0:
        return None, start
    return bytes(data[start : start + length]), start + length


def long_count(data: Data, position: int, is_nullable: bool, minimum_element_bytes: int) -> tuple[int, int]:
    """Read a compact count that takes any number of bytes, and check that its elements can all be there."""
    count, position = _long_length(data, position, is_nullable)
    if count * minimum_element_bytes > len(data) - position:
        bad_count(count)
    return count, position


def _long_length(data: Data, position: int, is_nullable: bool) -> tuple[int, int]:
    """Read a compact length, -1 for null: even a null may be written in more bytes than it needs."""
    length, position = read_uvarint(data, position)
    if length == 0 and not is_nullable:
        bad_null()
    return length - 1, position


def skip_tagged(data: Data, position: int) -> int:
    """Pass over a tagged section none of whose tags is known."""
    count, position = read_uvarint(data, position)
    previous_tag = -1
    for _ in range(count):
        previous_tag, end, position = next_tag(data, position, previous_tag)
        position = end
    return position


def next_tag(data: Data, position: int, previous_tag: int) -> tuple[int, int, int]:
    """Read what stands before a tagged field: give its tag, where it ends and where it begins."""
    tag, position = read_uvarint(data, position)
    length, position = read_uvarint(data, position)
    if tag <= previous_tag:
        raise ValueError(f"tag {tag} comes after tag {previous_tag}")
    return tag, position + length, position


def explain(error: Exception) -> str:
    """Say what an error while decoding means for the message."""
    return "it is cut short" if isinstance(error, IndexError | struct_error) else str(error)


def bad_null() -> NoReturn:
    """Raise for a null where none may be."""
    raise ValueError("null in a field that cannot be null")


def bad_length(length: int) -> NoReturn:
    """Raise for a length that is negative, and not a null that is allowed."""
    if length == -1:
        bad_null()
    raise ValueError(f"a length is {length}")


def bad_count(count: int) -> NoReturn:
    """Raise for a count that is negative, or of more elements than the message has room for."""
    if count < 0:
        bad_length(count)
    raise ValueError(f"{count} elements do not fit into what is left")


def bad_presence(mark: int) -> NoReturn:
    """Raise for the byte before a Struct that may be null."""
    raise ValueError(f"a Struct is marked {mark}, neither absent nor present")


def bad_tagged_size(tag: int) -> NoReturn:
    """Raise for a tagged field that is not as long as it says."""
    raise ValueError(f"the field with tag {tag} does not have the size that it claims")


def bad_end(position: int, size: int) -> NoReturn:
    """Raise for a message that does not end where its bytes do."""
    if position > size:
        raise ValueError("it is cut short")
    raise ValueError(f"{size - position} bytes follow it")


def bad_uuid(value: bytes) -> NoReturn:
    """Raise for an id of a wrong size, which the struct module would pad or cut."""
    raise ValueError(f"an id has {len(value)} bytes, not 16")


def bad_field(name: str) -> NoReturn:
    """Raise for a value in a field that the version lacks."""
    raise ValueError(f"this version has no {name}, and it must not be lost")
