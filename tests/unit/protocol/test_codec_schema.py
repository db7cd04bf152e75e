"""Annotations, and what they mean for a version."""

from typing import Annotated

import pytest
from msgspec import Struct

from eagleray.protocol.codec.schema import FieldSchema, FieldType, fields_of, layout_of
from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int8,
    Int16,
    Int32,
    Int64,
    NeverCompact,
    NullableSince,
    Records,
    Since,
    Tagged,
    Until,
    Uuid,
    Wire,
    WireStruct,
)


class Inner(WireStruct, frozen=True):
    number: Int8 = 0
    later: Annotated[Int64, Since(3)] = 0


class Outer(WireStruct, frozen=True):
    plain: Int16 = 0
    flag: bool = False
    text: str = ""
    nullable_text: str | None = None
    later_nullable: Annotated[str | None, NullableSince(2)] = ""
    blob: Annotated[bytes, Since(1), Until(2)] = b""
    identifier: Annotated[Uuid, Since(1), Ignorable()] = ZERO_UUID
    records: Records | None = None
    name: Annotated[str | None, NeverCompact()] = None
    numbers: tuple[Int32, ...] | None = ()
    second_tag: Annotated[Int64, Since(2), Tagged(1)] = -1
    first_tag: Annotated[Inner, Since(2), Tagged(0)] = Inner()
    inner: Inner = Inner()
    inners: Annotated[tuple[Inner, ...], Since(1)] = ()


def test_annotations_give_the_layout():
    fields = {field.name: field for field in fields_of(Outer)}
    assert list(fields) == list(Outer.__struct_fields__)
    assert fields["plain"] == FieldSchema("plain", FieldType("int16"), 0)
    assert fields["flag"].type == FieldType("bool")
    assert fields["text"].nullable_since is None
    assert fields["nullable_text"].nullable_since == 0
    assert fields["later_nullable"].nullable_since == 2
    assert (fields["blob"].since, fields["blob"].until, fields["blob"].ignorable) == (1, 2, False)
    assert fields["identifier"].ignorable
    assert fields["records"].type == FieldType("records")
    assert fields["records"].nullable_since == 0
    assert fields["name"].never_compact
    assert str(fields["numbers"].type) == "[]int32"
    assert fields["numbers"].nullable_since == 0
    assert (fields["second_tag"].tag, fields["first_tag"].tag) == (1, 0)
    assert fields["inner"].type == FieldType("Inner", Inner)
    assert fields["inners"].type == FieldType("Inner", Inner, is_array=True)


def names(slots) -> list[str]:
    return [slot.name for slot in slots]


def test_a_layout_has_what_the_version_has():
    oldest = layout_of(Outer, 0, False)
    assert "blob" not in names(oldest.slots)
    assert names(oldest.refused) == ["blob", "second_tag", "first_tag", "inners"]
    assert oldest.tagged == ()
    flexible = layout_of(Outer, 2, True)
    assert "blob" in names(flexible.slots)
    assert names(flexible.tagged) == ["first_tag", "second_tag"]
    assert flexible.refused == ()
    assert names(layout_of(Outer, 3, True).refused) == ["blob"]


def test_a_slot_is_written_as_the_version_writes_it():
    old = {slot.name: slot for slot in layout_of(Outer, 1, False).slots}
    new = {slot.name: slot for slot in layout_of(Outer, 2, True).slots}
    assert not old["text"].is_compact
    assert new["text"].is_compact
    assert not new["name"].is_compact
    assert not old["later_nullable"].is_nullable
    assert new["later_nullable"].is_nullable


def test_nested_layouts_have_the_version_of_the_outer_one():
    layout = layout_of(Outer, 3, True)
    (inner,) = (slot for slot in layout.slots if slot.name == "inner")
    assert layout.nested(inner.type) == layout_of(Inner, 3, True)


def test_the_fewest_bytes():
    assert layout_of(Inner, 0, False).minimum_bytes == 1
    assert layout_of(Inner, 3, True).minimum_bytes == 1 + 8 + 1
    old = 2 + 1 + 2 + 2 + 2 + 4 + 2 + 4 + 1
    assert layout_of(Outer, 0, False).minimum_bytes == old
    flexible = 2 + 1 + 1 + 1 + 1 + 1 + 16 + 1 + 2 + 1 + (1 + 1) + 1 + 1
    assert layout_of(Outer, 2, True).minimum_bytes == flexible


def test_elements_of_no_bytes_are_refused():
    class Nothing(WireStruct, frozen=True):
        later: Annotated[Int8, Since(1)] = 0

    class Array(WireStruct, frozen=True):
        items: tuple[Nothing, ...] = ()

    layout = layout_of(Array, 0, False)
    with pytest.raises(TypeError, match=r"Array\.items has elements of no bytes"):
        layout.minimum_element_bytes(layout.slots[0])
    flexible = layout_of(Array, 0, True)
    assert flexible.minimum_element_bytes(flexible.slots[0]) == 1


def test_an_empty_array_is_its_default_in_any_sequence():
    slot = next(slot for slot in layout_of(Outer, 0, False).refused if slot.name == "inners")
    assert slot.has_default(())
    assert slot.has_default([])
    assert not slot.has_default(None)
    assert not slot.has_default((Inner(),))


class WithFloat(WireStruct, frozen=True):
    number: float = 0.0


class WithPlainInteger(WireStruct, frozen=True):
    number: int = 0


class WithForeignMark(WireStruct, frozen=True):
    number: Annotated[Int8, "kept in seconds"] = 0


class WithoutDefault(WireStruct, frozen=True):
    number: Int8


class WithNullableTaggedStruct(WireStruct, frozen=True):
    inner: Annotated[Inner | None, Tagged(0)] = Inner()


class Foreign(Struct, frozen=True):
    number: Int8 = 0


class WithForeignStruct(WireStruct, frozen=True):
    foreign: Foreign = Foreign()


@pytest.mark.parametrize(
    "struct",
    [WithFloat, WithPlainInteger, WithForeignMark, WithoutDefault, WithNullableTaggedStruct, WithForeignStruct],
)
def test_annotations_that_mean_nothing_are_refused(struct: type[WireStruct]):
    with pytest.raises(TypeError, match=struct.__name__):
        fields_of(struct)


def test_versions_of_a_message():
    wire = Wire(versions=(2, 5), flexible_since=4)
    assert [version for version in range(9) if wire.is_valid(version)] == [2, 3, 4, 5]
    assert [wire.is_flexible(version) for version in (3, 4, 5)] == [False, True, True]
    assert not Wire(versions=(0, 5)).is_flexible(5)
