"""A few messages of every version, the same ones each time, in which every field has a value of its own.

They are for tests that look at many versions, where drawing values at random would take too long. What they vary
are the things on which codecs branch: nulls, empty and long strings, how many elements an array has, tags.
"""

from collections.abc import Iterator
from functools import cache
from itertools import count

from msgspec import Struct

from eagleray.protocol.codec.schema import FIXED_WIDTH, Layout, Slot, layout_of
from eagleray.protocol.messages.annotations import Message, WireStruct


class Recipe(Struct, frozen=True):
    """How to fill a message."""

    element_count: int
    integer_count: int
    text_length: int
    sign: int = 1
    is_null: bool = False
    is_tagged: bool = True


RECIPES = (
    Recipe(element_count=0, integer_count=0, text_length=0, is_null=True, is_tagged=False),
    Recipe(element_count=1, integer_count=1, text_length=8),
    Recipe(element_count=2, integer_count=17, text_length=126, sign=-1),
    Recipe(element_count=2, integer_count=127, text_length=127, is_tagged=False),
    Recipe(element_count=1, integer_count=130, text_length=16_400, is_null=True),
)


@cache
def samples(message: type[Message], version: int) -> tuple[Message, ...]:
    """Make a message by each recipe."""
    layout = layout_of(message, version, message.wire.is_flexible(version))
    return tuple(fill(layout, recipe, count(1)) for recipe in RECIPES)


def fill(layout: Layout, recipe: Recipe, numbers: Iterator[int]) -> WireStruct:
    slots = layout.slots + (layout.tagged if recipe.is_tagged else ())
    return layout.struct(**{slot.name: value(layout, slot, recipe, numbers) for slot in slots})


def value(layout: Layout, slot: Slot, recipe: Recipe, numbers: Iterator[int]) -> object:
    if recipe.is_null and slot.is_nullable:
        return None
    if not slot.type.is_array:
        return single_value(layout, slot, recipe, numbers)
    length = recipe.element_count if slot.type.struct is not None else recipe.integer_count
    return tuple([single_value(layout, slot, recipe, numbers) for _ in range(length)])


def single_value(layout: Layout, slot: Slot, recipe: Recipe, numbers: Iterator[int]) -> object:
    if slot.type.struct is not None:
        return fill(layout.nested(slot.type), recipe, numbers)
    number = next(numbers)
    match slot.type.name:
        case "bool":
            return number % 2 == 1
        case "uuid":
            return number.to_bytes(16)
        case "string":
            return text(number, recipe.text_length if not slot.type.is_array else min(recipe.text_length, 200))
        case "bytes" | "records":
            return text(number, recipe.text_length).encode()
    _, width = FIXED_WIDTH[slot.type.name]
    return recipe.sign * (number % (1 << 8 * width - 1))


def text(number: int, length: int) -> str:
    """A text of that many bytes, not all of them ASCII, that begins with the number."""
    if length < 8:
        return ""
    return f"{number:06}é".ljust(length - 1, "x")
