"""Reads the annotations of a Struct once, and lays its fields out as one version has them.

`fields_of` gives the fields of a Struct with all that their annotations say. `layout_of` resolves them for a
version: which fields are there and how each is written, which are tagged, and which the version lacks. The
compiler and the interpreter both work from layouts, and know nothing of annotations.
"""

import types
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from eagleray.protocol.messages.annotations import (
    Ignorable,
    NeverCompact,
    NullableSince,
    Since,
    Tagged,
    Until,
    WireStruct,
    WireType,
)

HIGHEST_VERSION = 0x7FFF

# The code that the struct module has for each type of fixed width, and that width.
FIXED_WIDTH = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uuid": ("16s", 16),
}

_NAMES_OF_PYTHON_TYPES = {bool: "bool", str: "string", bytes: "bytes"}


class FieldType(Struct, frozen=True):
    """The type of a field on the wire: a name that Kafka's definitions use, or a Struct; one, or an array."""

    name: str
    struct: type[WireStruct] | None = None
    is_array: bool = False

    def __str__(self) -> str:
        return f"[]{self.name}" if self.is_array else self.name

    @property
    def element(self) -> "FieldType":
        """The type of one element of an array."""
        return FieldType(self.name, self.struct)

    @property
    def is_fixed(self) -> bool:
        """Whether each value takes the same number of bytes."""
        return not self.is_array and self.name in FIXED_WIDTH


class FieldSchema(Struct, frozen=True):
    """A field of a Struct, over all versions."""

    name: str
    type: FieldType
    default: Any
    since: int = 0
    until: int = HIGHEST_VERSION
    nullable_since: int | None = None
    tag: int | None = None
    ignorable: bool = False
    never_compact: bool = False

    def is_in(self, version: int) -> bool:
        """Say whether the version has this field."""
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        """Say whether the field may be null in the version."""
        return self.nullable_since is not None and version >= self.nullable_since


class Slot(Struct, frozen=True):
    """A field as one version writes it."""

    name: str
    type: FieldType
    default: Any
    is_nullable: bool
    is_compact: bool
    tag: int | None = None

    @property
    def element(self) -> "Slot":
        """The slot of one element of an array, which can never be null."""
        return Slot(self.name, self.type.element, None, is_nullable=False, is_compact=self.is_compact)

    def has_default(self, value: object) -> bool:
        """Say whether the value is the default; an empty array is one, whatever sequence it comes as."""
        if self.type.is_array and self.default is not None:
            return value is not None and not value
        return bool(value == self.default)


class Layout(Struct, frozen=True):
    """A Struct as one version writes it.

    `slots` are written one after the other, `tagged` ones, sorted by tag, in the section at the end that only
    a flexible version has. `refused` are those that the version cannot carry and that must not be dropped.
    """

    struct: type[WireStruct]
    version: int
    is_flexible: bool
    slots: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    refused: tuple[Slot, ...]

    def nested(self, field_type: FieldType) -> "Layout":
        """Lay out the Struct that a field of this one holds."""
        assert field_type.struct is not None
        return layout_of(field_type.struct, self.version, self.is_flexible)

    @property
    def minimum_bytes(self) -> int:
        """The fewest bytes that an encoded Struct can take."""
        return sum(map(self.minimum_slot_bytes, self.slots)) + self.is_flexible

    def minimum_slot_bytes(self, slot: Slot) -> int:
        """Count the fewest bytes that an encoded slot can take."""
        if slot.type.is_fixed:
            return FIXED_WIDTH[slot.type.name][1]
        if slot.type.struct is not None and not slot.type.is_array:
            return 1 if slot.is_nullable else self.nested(slot.type).minimum_bytes
        if slot.is_compact:
            return 1
        return 2 if slot.type.name == "string" and not slot.type.is_array else 4

    def minimum_element_bytes(self, slot: Slot) -> int:
        """Count the fewest bytes that an element of an array can take: never none, or no count had a bound."""
        minimum_bytes = self.minimum_slot_bytes(slot.element)
        if minimum_bytes == 0:
            raise TypeError(f"{self.struct.__name__}.{slot.name} has elements of no bytes in {self.version}")
        return minimum_bytes


@cache
def layout_of(struct: type[WireStruct], version: int, is_flexible: bool) -> Layout:
    """Lay out a Struct for a version of the message that it is part of."""
    fields = fields_of(struct)
    present = [_slot(field, version, is_flexible) for field in fields if field.is_in(version)]
    absent = [_slot(field, version, is_flexible) for field in fields if not field.is_in(version)]
    ignorable = {field.name for field in fields if field.ignorable}
    return Layout(
        struct,
        version,
        is_flexible,
        slots=tuple(slot for slot in present if slot.tag is None),
        tagged=tuple(sorted((slot for slot in present if slot.tag is not None), key=_tag)),
        refused=tuple(slot for slot in absent if slot.name not in ignorable),
    )


@cache
def fields_of(struct: type[WireStruct]) -> tuple[FieldSchema, ...]:
    """Read the fields of a Struct from its annotations."""
    hints = get_type_hints(struct, include_extras=True)
    names, defaults = struct.__struct_fields__, struct.__struct_defaults__
    if len(names) != len(defaults):
        raise TypeError(f"every field of {struct.__name__} needs a default")
    return tuple(
        _field(f"{struct.__name__}.{name}", name, hints[name], default)
        for name, default in zip(names, defaults, strict=True)
    )


def _slot(field: FieldSchema, version: int, is_flexible: bool) -> Slot:
    return Slot(
        field.name,
        field.type,
        field.default,
        is_nullable=field.is_nullable_in(version),
        is_compact=is_flexible and not field.never_compact,
        tag=field.tag,
    )


def _tag(slot: Slot) -> int:
    assert slot.tag is not None
    return slot.tag


def _field(path: str, name: str, hint: object, default: object) -> FieldSchema:
    field_type, marks, is_nullable = _read_hint(path, hint)
    settings: dict[str, Any] = {"nullable_since": 0} if is_nullable else {}
    for mark in marks:
        match mark:
            case Since(version):
                settings["since"] = version
            case Until(version):
                settings["until"] = version
            case NullableSince(version):
                settings["nullable_since"] = version
            case Tagged(tag):
                settings["tag"] = tag
            case Ignorable():
                settings["ignorable"] = True
            case NeverCompact():
                settings["never_compact"] = True
            case _:
                raise TypeError(f"{path} has an annotation that is not ours: {mark!r}")
    if "tag" in settings and is_nullable and default is not None and field_type.struct and not field_type.is_array:
        # Where null is the default it is never written, and what is there bears the same mark as outside of a tag.
        raise TypeError(f"{path} is a tagged Struct that may be null and is not by default: no message has one")
    return FieldSchema(name, field_type, default, **settings)


def _read_hint(path: str, hint: object) -> tuple[FieldType, list[object], bool]:
    bare, marks = _without_marks(hint)
    is_nullable = False
    if get_origin(bare) in (Union, types.UnionType) and type(None) in get_args(bare):
        (bare,) = (argument for argument in get_args(bare) if argument is not type(None))
        bare, inner_marks = _without_marks(bare)
        marks += inner_marks
        is_nullable = True
    if get_origin(bare) is tuple:
        element, _ = get_args(bare)
        bare, element_marks = _without_marks(element)
        field_type = _type_of(path, bare, element_marks, is_array=True)
    else:
        field_type = _type_of(path, bare, marks, is_array=False)
    return field_type, [mark for mark in marks if not isinstance(mark, WireType)], is_nullable


def _without_marks(hint: object) -> tuple[object, list[object]]:
    if get_origin(hint) is Annotated:
        bare, *marks = get_args(hint)
        return bare, marks
    return hint, []


def _type_of(path: str, bare: object, marks: list[object], *, is_array: bool) -> FieldType:
    for mark in marks:
        if isinstance(mark, WireType):
            return FieldType(mark.name, is_array=is_array)
    if isinstance(bare, type) and bare in _NAMES_OF_PYTHON_TYPES:
        return FieldType(_NAMES_OF_PYTHON_TYPES[bare], is_array=is_array)
    if isinstance(bare, type) and issubclass(bare, WireStruct):
        return FieldType(bare.__name__, bare, is_array=is_array)
    raise TypeError(f"{path} has a type that the wire does not know: {bare!r}")
