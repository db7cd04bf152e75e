"""Messages of the lanes with each of their fields at its limits, one after the other, the rest plausible."""

import enum
from collections.abc import Iterator
from typing import Any

import msgspec.inspect as inspect
from msgspec.structs import replace

NAMES = {
    "transactional_id": "billing",
    "group": "audit",
    "topic": "orders",
    "name": "orders",
    "topics": "orders",
    "names": "orders",
}
PLAUSIBLE = {"producer": 0, "producer_id": 0, "epoch": 0, "timeout_ms": 60_000, "session_timeout_ms": 10_000}
LEAST, MOST = -(2**63), 2**63 - 1


def plausible(kind: type, request_id: int) -> Any:
    return replace(_plausible(inspect.type_info(kind), ""), request_id=request_id)


def extreme_messages(kind: type, request_id: int) -> Iterator[tuple[str, Any]]:
    """Messages that a lane carries, each with what is extreme about it."""
    yield "as it is", plausible(kind, request_id)
    yield from _variants(inspect.type_info(kind), _extremes, request_id)


def impossible_messages(kind: type, request_id: int) -> Iterator[tuple[str, Any]]:
    """Messages that no lane may carry, each with one value beyond its limits."""
    yield from _variants(inspect.type_info(kind), _beyond, request_id)


def unlimited_fields(kind: type) -> Iterator[str]:
    """The numbers and texts in a message that have no limits."""
    for path, info in _leaves(inspect.type_info(kind), kind.__name__, set()):
        if isinstance(info, inspect.IntType) and (info.ge is None or info.le is None):
            yield path
        if isinstance(info, inspect.StrType) and info.max_length is None:
            yield path


def _leaves(info: Any, path: str, seen: set[type]) -> Iterator[tuple[str, Any]]:
    match info:
        case inspect.StructType():
            if info.cls not in seen:
                seen.add(info.cls)
                for field in info.fields:
                    yield from _leaves(field.type, f"{info.cls.__name__}.{field.name}", seen)
        case inspect.UnionType():
            for each in info.types:
                yield from _leaves(each, path, seen)
        case inspect.VarTupleType() | inspect.FrozenSetType() | inspect.ListType():
            yield from _leaves(info.item_type, path, seen)
        case inspect.TupleType():
            for each in info.item_types:
                yield from _leaves(each, path, seen)
        case inspect.DictType():
            yield from _leaves(info.key_type, path, seen)
            yield from _leaves(info.value_type, path, seen)
        case _:
            yield path, info


def _variants(info: Any, values_of: Any, request_id: int | None = None) -> Iterator[tuple[str, Any]]:
    whole = _plausible(info, "")
    if request_id is not None:
        whole = replace(whole, request_id=request_id)
    for field in info.fields:
        if field.name != "request_id":
            for name, value in _of_type(field.type, field.name, values_of):
                yield name, replace(whole, **{field.name: value})


def _of_type(info: Any, name: str, values_of: Any) -> Iterator[tuple[str, Any]]:
    match info:
        case inspect.StructType():
            yield from ((f"{name}.{inner}", value) for inner, value in _variants(info, values_of))
        case inspect.UnionType():
            for each in info.types:
                yield from _of_type(each, name, values_of)
            if values_of is _extremes and any(isinstance(each, inspect.NoneType) for each in info.types):
                yield name, None
        case inspect.VarTupleType() | inspect.FrozenSetType():
            made = tuple if isinstance(info, inspect.VarTupleType) else frozenset
            yield from ((inner, made([value])) for inner, value in _of_type(info.item_type, name, values_of))
            if values_of is _extremes:
                yield name, made([])
                yield name, made([_plausible(info.item_type, name)] * 3)
        case inspect.DictType():
            yield from ((i, {v: _plausible(info.value_type, "")}) for i, v in _of_type(info.key_type, name, values_of))
            yield from ((i, {"orders": value}) for i, value in _of_type(info.value_type, name, values_of))
        case _:
            yield from ((name, value) for value in values_of(info))


def _extremes(info: Any) -> tuple[Any, ...]:
    match info:
        case inspect.IntType():
            least = LEAST if info.ge is None else info.ge
            most = MOST if info.le is None else info.le
            return tuple(sorted(value for value in {least, most, most - 1, -2, -1, 0, 1, 2} if least <= value <= most))
        case inspect.StrType():
            longest = info.max_length or 100_000
            return "", "\0", "..", "__transaction_state", "__consumer_offsets", "x" * longest, "ü" * longest
        case inspect.BytesType():
            return b"", b"\0" * 70, b"x" * 40_000
        case inspect.BoolType():
            return True, False
        case inspect.EnumType():
            return tuple(info.cls)
    return ()


def _beyond(info: Any) -> tuple[Any, ...]:
    match info:
        case inspect.IntType():
            limits = () if info.ge is None else (info.ge - 1, info.le + 1)
            return tuple(each for each in limits if LEAST <= each <= 2**64 - 1)
        case inspect.StrType():
            return () if info.max_length is None else ("x" * (info.max_length + 1),)
    return ()


def _plausible(info: Any, name: str) -> Any:
    match info:
        case inspect.StructType():
            return info.cls(**{field.name: _plausible(field.type, field.name) for field in info.fields})
        case inspect.UnionType():
            is_optional = any(isinstance(each, inspect.NoneType) for each in info.types)
            return None if is_optional and name not in NAMES else _plausible(info.types[0], name)
        case inspect.VarTupleType():
            return (_plausible(info.item_type, name),)
        case inspect.FrozenSetType():
            return frozenset({_plausible(info.item_type, name)})
        case inspect.TupleType():
            return tuple(_plausible(each, name) for each in info.item_types)
        case inspect.DictType():
            return {}
        case inspect.IntType():
            value = PLAUSIBLE.get(name, 0)
            return value if info.ge is None or info.ge <= value <= info.le else info.ge
        case inspect.StrType():
            return NAMES.get(name, "member")
        case inspect.BytesType():
            return b""
        case inspect.BoolType():
            return False
        case inspect.EnumType():
            return next(iter(info.cls)) if issubclass(info.cls, enum.Enum) else None
    return None
