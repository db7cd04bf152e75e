"""Each request of Kafka's with each of its fields at its limits, one after the other, the rest as a client has it."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from eagleray.protocol.codec.schema import FIXED_WIDTH, Layout, Slot, layout_of
from eagleray.protocol.messages.annotations import Message

NAMES = {"transactional_id": "billing", "group_id": "audit", "group": "audit", "name": "orders", "topic": "orders"}
LONGEST = 2**15 - 1
TEXTS = (
    "",
    "\0",
    "..",
    "a b",
    "é",
    "__transaction_state",
    "__consumer_offsets",
    "x" * LONGEST,
    "ü" * (LONGEST // 2),
)
TOO_LONG = "x" * (LONGEST + 1)


def extreme_requests(request: type[Message], version: int) -> Iterator[tuple[str, Any]]:
    """Requests of a version, each with what is extreme about it."""
    layout = layout_of(request, version, request.wire.is_flexible(version))
    yield "as it is", plausible(layout)
    yield from _variants(layout)


def plausible(layout: Layout) -> Any:
    return layout.struct(**{slot.name: _plausible(layout, slot) for slot in layout.slots + layout.tagged})


def text_fields(request: type[Message], version: int) -> Iterator[tuple[str, Any]]:
    """Requests of a version that each have one text which Kafka's codec would not read."""
    layout = layout_of(request, version, request.wire.is_flexible(version))
    yield from _variants(layout, texts=(TOO_LONG,))


def _variants(layout: Layout, texts: tuple[str, ...] | None = None) -> Iterator[tuple[str, Any]]:
    whole = plausible(layout)
    for slot in layout.slots + layout.tagged:
        for value in _extremes(layout, slot) if texts is None else _texts(slot, texts):
            yield slot.name, replace(whole, **{slot.name: value})
        if slot.type.struct is not None:
            for name, inner in _variants(layout.nested(slot.type), texts):
                value = (inner,) if slot.type.is_array else inner
                yield f"{slot.name}.{name}", replace(whole, **{slot.name: value})


def _plausible(layout: Layout, slot: Slot) -> Any:
    value = _element(layout, slot)
    return (value,) if slot.type.is_array else value


def _element(layout: Layout, slot: Slot) -> Any:
    if slot.type.struct is not None:
        return plausible(layout.nested(slot.type))
    if slot.name in ("acks", "replica_id"):
        return -1
    match slot.type.name:
        case "string":
            known = [name for ending, name in NAMES.items() if slot.name.endswith(ending)]
            return known[0] if known else None if slot.is_nullable and not slot.type.is_array else "member"
        case "bytes" | "records":
            return b""
        case "bool":
            return False
        case "uuid":
            return bytes(16)
    return 6000 if slot.name.endswith("timeout_ms") and slot.type.name != "int8" else 0


def _texts(slot: Slot, texts: tuple[str, ...]) -> Iterator[Any]:
    if slot.type.name == "string":
        yield from (((text,) if slot.type.is_array else text) for text in texts)


def _extremes(layout: Layout, slot: Slot) -> Iterator[Any]:
    values = _extreme_values(slot)
    if slot.is_nullable:
        yield None
    if not slot.type.is_array:
        yield from values
        return
    element = _element(layout, slot)
    yield from ((value,) for value in values)
    yield from ((), (element, element, element))
    if values:
        yield values[0], element, values[-1]


def _extreme_values(slot: Slot) -> tuple[Any, ...]:
    if slot.type.struct is not None:
        return ()
    match slot.type.name:
        case "string":
            return TEXTS
        case "bytes" | "records":
            return b"", bytes(70), b"x" * 40_000
        case "bool":
            return (True,)
        case "uuid":
            return b"\xff" * 16, bytes(15) + b"\1"
    largest = (1 << 8 * FIXED_WIDTH[slot.type.name][1] - 1) - 1
    return -largest - 1, -2, -1, 1, 2, largest - 1, largest
