"""A codec that walks layouts field by field: slow, and plain enough to be believed.

The compiled codec is tested against it, and shares nothing with it but the layouts. Values, bytes and
the kinds of error are the same for both.
"""

from collections.abc import Sequence
from struct import error as struct_error
from struct import pack, unpack_from
from typing import Any, TypeVar

from eagleray.protocol.codec.errors import MalformedMessage, UnencodableMessage, UnsupportedVersion
from eagleray.protocol.codec.schema import FIXED_WIDTH, Layout, Slot, layout_of
from eagleray.protocol.messages.annotations import Message, WireStruct

AnyMessage = TypeVar("AnyMessage", bound=Message)


def decode(
    message: type[AnyMessage], version: int, data: bytes | memoryview, *, allows_more: bool = False
) -> AnyMessage:
    """Decode a message that begins with the data and, unless it allows more, ends with it."""
    (decoded,) = decode_sequence([(message, version)], data, allows_more=allows_more)
    assert isinstance(decoded, message)
    return decoded


def decode_sequence(
    messages: Sequence[tuple[type[Message], int]], data: bytes | memoryview, *, allows_more: bool = False
) -> list[WireStruct]:
    """Decode messages that follow one another, each in its version, such as a header and a body."""
    layouts = [_layout(message, version) for message, version in messages]
    reader = _Reader(data)
    try:
        decoded = [reader.struct(layout) for layout in layouts]
        reader.expect_end(allows_more=allows_more)
    except ValueError as error:
        message, version = messages[-1]
        raise MalformedMessage(message.__name__, version, str(error)) from error
    return decoded


def encode(message: Message, version: int) -> bytes:
    """Encode a message by itself."""
    writer = _Writer()
    try:
        writer.struct(_layout(type(message), version), message)
    except (AttributeError, TypeError, ValueError, struct_error) as error:
        raise UnencodableMessage(type(message).__name__, version, str(error)) from error
    return bytes(writer.data)


def _layout(message: type[Message], version: int) -> Layout:
    if not message.wire.is_valid(version):
        raise UnsupportedVersion(message.__name__, version, message.wire.versions, message.wire.api_key)
    return layout_of(message, version, message.wire.is_flexible(version))


class _Reader:
    """Takes values off the front of the data. Every step checks that the data has what it takes."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)

    def expect_end(self, *, allows_more: bool) -> None:
        if self._data and not allows_more:
            raise ValueError(f"{len(self._data)} bytes follow it")

    def take(self, count: int) -> memoryview:
        if count > len(self._data):
            raise ValueError(f"{count} bytes are wanted where {len(self._data)} are left")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def struct(self, layout: Layout) -> WireStruct:
        values: dict[str, Any] = {slot.name: self.slot(layout, slot) for slot in layout.slots}
        if layout.is_flexible:
            values |= self.tagged_section(layout)
        return layout.struct(**values)

    def tagged_section(self, layout: Layout) -> dict[str, Any]:
        values = {}
        slots = {slot.tag: slot for slot in layout.tagged}
        previous_tag = -1
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            if tag <= previous_tag:
                raise ValueError(f"tag {tag} comes after tag {previous_tag}")
            previous_tag = tag
            field = _Reader(self.take(self.uvarint()))
            if tag in slots:
                values[slots[tag].name] = field.slot(layout, slots[tag])
                field.expect_end(allows_more=False)
        return values

    def slot(self, layout: Layout, slot: Slot) -> object:
        if slot.type.is_array:
            return self.array(layout, slot)
        if slot.type.is_fixed:
            return self.fixed(*FIXED_WIDTH[slot.type.name])
        if slot.type.struct is not None:
            return self.struct_slot(layout, slot)
        length = self.length(slot)
        if length is None:
            return None
        taken = self.take(length)
        if slot.type.name == "string":
            return str(taken, "utf-8")
        return taken if slot.type.name == "records" else bytes(taken)

    def struct_slot(self, layout: Layout, slot: Slot) -> WireStruct | None:
        if slot.is_nullable:
            mark = self.integer(1)
            if mark == -1:
                return None
            if mark != 1:
                raise ValueError(f"a Struct is marked {mark}, neither absent nor present")
        return self.struct(layout.nested(slot.type))

    def array(self, layout: Layout, slot: Slot) -> tuple[object, ...] | None:
        count = self.length(slot)
        if count is None:
            return None
        if count * layout.minimum_element_bytes(slot) > len(self._data):
            raise ValueError(f"{count} elements do not fit into what is left")
        return tuple([self.slot(layout, slot.element) for _ in range(count)])

    def length(self, slot: Slot) -> int | None:
        """Take the length of a string or bytes, or the count of an array; None is null."""
        if slot.is_compact:
            length = self.uvarint() - 1
        elif slot.type.name == "string" and not slot.type.is_array:
            length = self.integer(2)
        else:
            length = self.integer(4)
        if length == -1 and slot.is_nullable:
            return None
        if length < 0:
            raise ValueError(f"a length is {length}")
        return length

    def fixed(self, code: str, width: int) -> object:
        (value,) = unpack_from(f">{code}", self.take(width))
        return value

    def integer(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big", signed=True)

    def uvarint(self) -> int:
        value = 0
        for index in range(5):
            byte = self.take(1)[0]
            value += (byte % 128) << (7 * index)
            if byte < 128:
                if value >= 2**32:
                    raise ValueError("a varint is wider than 32 bits")
                return value
        raise ValueError("a varint is longer than five bytes")


class _Writer:
    """Adds values to the end of the data."""

    def __init__(self) -> None:
        self.data = bytearray()

    def struct(self, layout: Layout, value: WireStruct) -> None:
        for slot in layout.refused:
            if not slot.has_default(getattr(value, slot.name)):
                raise ValueError(f"this version has no {slot.name}, and it must not be lost")
        for slot in layout.slots:
            self.slot(layout, slot, getattr(value, slot.name))
        if layout.is_flexible:
            self.tagged_section(layout, value)

    def tagged_section(self, layout: Layout, value: WireStruct) -> None:
        slots = [slot for slot in layout.tagged if not slot.has_default(getattr(value, slot.name))]
        self.uvarint(len(slots))
        for slot in slots:
            assert slot.tag is not None
            field = _Writer()
            field.slot(layout, slot, getattr(value, slot.name))
            self.uvarint(slot.tag)
            self.uvarint(len(field.data))
            self.data += field.data

    def slot(self, layout: Layout, slot: Slot, value: object) -> None:
        if value is None:
            self.null(slot)
        elif slot.type.is_array:
            self.array(layout, slot, value)
        elif slot.type.is_fixed:
            self.fixed(slot, value)
        elif slot.type.struct is not None:
            self.struct_slot(layout, slot, value)
        else:
            self.text(slot, value)

    def null(self, slot: Slot) -> None:
        if not slot.is_nullable:
            raise ValueError(f"{slot.name} cannot be null")
        if slot.type.struct is not None and not slot.type.is_array:
            self.data += b"\xff"
        else:
            self.length(slot, -1)

    def array(self, layout: Layout, slot: Slot, value: object) -> None:
        if not isinstance(value, Sequence):
            raise TypeError(f"{slot.name} is no sequence")
        self.length(slot, len(value))
        for element in value:
            self.slot(layout, slot.element, element)

    def struct_slot(self, layout: Layout, slot: Slot, value: object) -> None:
        if not isinstance(value, WireStruct):
            raise TypeError(f"{slot.name} is no Struct")
        if slot.is_nullable:
            self.data += b"\x01"
        self.struct(layout.nested(slot.type), value)

    def text(self, slot: Slot, value: object) -> None:
        if slot.type.name == "string":
            value = value.encode() if isinstance(value, str) else None
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"{slot.name} is no {slot.type.name}")
        self.length(slot, len(value))
        self.data += value

    def length(self, slot: Slot, length: int) -> None:
        if slot.is_compact:
            self.uvarint(length + 1)
        elif slot.type.name == "string" and not slot.type.is_array:
            self.data += pack(">h", length)
        else:
            self.data += pack(">i", length)

    def fixed(self, slot: Slot, value: object) -> None:
        code, width = FIXED_WIDTH[slot.type.name]
        if isinstance(value, bytes) and len(value) != width:
            raise ValueError(f"an id has {len(value)} bytes, not {width}")
        self.data += pack(f">{code}", value)

    def uvarint(self, value: int) -> None:
        while value >= 128:
            self.data.append(value % 128 + 128)
            value //= 128
        self.data.append(value)
