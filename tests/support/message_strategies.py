"""Strategies for messages, derived from the layouts of their versions."""

from functools import cache

from hypothesis import strategies as st

from eagleray.protocol.codec.schema import FIXED_WIDTH, Layout, Slot, layout_of
from eagleray.protocol.messages.annotations import Message, WireStruct

# Where lengths begin to need a second byte in compact form, and counts more than the prepared readers.
EDGE_LENGTHS = (0, 1, 125, 126, 127, 128, 300)
EDGE_COUNTS = (0, 1, 16, 17, 126, 127, 140)

texts = st.text(max_size=6) | st.sampled_from(["a" * length for length in EDGE_LENGTHS])
binaries = st.binary(max_size=6) | st.sampled_from([b"b" * length for length in (*EDGE_LENGTHS, 16_383, 16_384)])
SCALARS = {
    "bool": st.booleans(),
    "string": texts,
    "bytes": binaries,
    "records": binaries,
    "uuid": st.binary(min_size=16, max_size=16) | st.just(bytes(16)),
}


@cache
def messages(message: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Any message that the version can carry."""
    return structs(layout_of(message, version, message.wire.is_flexible(version)))


@cache
def structs(layout: Layout) -> st.SearchStrategy[WireStruct]:
    fields = {slot.name: values(layout, slot) for slot in layout.slots + layout.tagged}
    return st.builds(layout.struct, **fields)


def values(layout: Layout, slot: Slot) -> st.SearchStrategy[object]:
    """Any value of a slot; for a tagged one its default often, for that is when it is left out."""
    strategy = arrays(layout, slot) if slot.type.is_array else single_values(layout, slot)
    if slot.is_nullable:
        strategy = st.none() | strategy
    return st.just(slot.default) | strategy if slot.tag is not None else strategy


def arrays(layout: Layout, slot: Slot) -> st.SearchStrategy[tuple[object, ...]]:
    elements = single_values(layout, slot)
    few = st.lists(elements, max_size=3).map(tuple)
    if slot.type.struct is not None:
        return few
    return few | st.builds(lambda element, count: (element,) * count, elements, st.sampled_from(EDGE_COUNTS))


def single_values(layout: Layout, slot: Slot) -> st.SearchStrategy[object]:
    if slot.type.struct is not None:
        return structs(layout.nested(slot.type))
    return SCALARS[slot.type.name] if slot.type.name in SCALARS else integers(slot.type.name)


@cache
def integers(type_name: str) -> st.SearchStrategy[int]:
    _, width = FIXED_WIDTH[type_name]
    limit = 1 << 8 * width - 1
    return st.integers(-limit, limit - 1)
