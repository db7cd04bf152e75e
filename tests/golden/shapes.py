"""What a Struct is on the disk or on a lane, as text: all that a reader of another version relies on."""

import msgspec.inspect as inspect

from eagleray.protocol.errors import ErrorCode

_PLAIN = {
    inspect.IntType: "int",
    inspect.StrType: "str",
    inspect.BoolType: "bool",
    inspect.BytesType: "bytes",
    inspect.FloatType: "float",
    inspect.NoneType: "None",
    inspect.AnyType: "any",
}


def shape(of):
    """Describe a type: `(…)` is an array, whose order counts, `{…}` a map, whose names count; `?` may be absent."""
    return _shape(inspect.type_info(of))


def shapes_by_tag(structs):
    """Describe Structs that their tags tell apart, and those of the unions in them; each once, in order.

    In a union they stand as `<tag>`, so that a line is about one message.
    """
    return sorted({_struct(info, _by_tag) for info in _with_members(structs)})


def tagged_structs(structs):
    """Those of the Structs, and of all that are in them, that are written with a tag; by name."""
    waiting, seen = [*map(inspect.type_info, structs)], {}
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.StructType) and seen.setdefault(info.cls, info) is not info:
            continue
        waiting += info.types if isinstance(info, inspect.UnionType) else _within(info)
    tagged = [struct for struct, info in seen.items() if info.tag is not None]
    return sorted(tagged, key=lambda struct: (struct.__name__, struct.__module__))


def _with_members(structs):
    """Structs, and all that are members of unions in them."""
    waiting, seen = [*map(inspect.type_info, structs)], set()
    while waiting:
        info = waiting.pop()
        if info.cls not in seen:
            seen.add(info.cls)
            waiting += _members(info)
            yield info


def _members(info):
    """The tagged Structs of all unions within a type."""
    if isinstance(info, inspect.UnionType):
        tagged = [each for each in info.types if isinstance(each, inspect.StructType) and each.tag is not None]
        return tagged if len(tagged) > 1 else [each for inner in info.types for each in _members(inner)]
    return [each for inner in _within(info) for each in _members(inner)]


def _within(info):
    if isinstance(info, inspect.StructType):
        return [field.type for field in info.fields]
    if isinstance(info, inspect.DictType):
        return [info.key_type, info.value_type]
    if isinstance(info, inspect.TupleType):
        return info.item_types
    return [info.item_type] if hasattr(info, "item_type") else []


def _by_tag(info):
    if isinstance(info, inspect.UnionType):
        members = {each.cls for each in _members(info)}
        return " | ".join(
            f"<{each.tag}>" if isinstance(each, inspect.StructType) and each.cls in members else _shape(each, _by_tag)
            for each in info.types
        )
    return _shape(info, _by_tag)


def _shape(info, inner=None):
    """Describe a type, and with `inner` what is in it."""
    inner = inner or _shape
    if isinstance(info, inspect.StructType):
        return _struct(info, inner)
    if isinstance(info, inspect.UnionType):
        return " | ".join(map(inner, info.types))
    if isinstance(info, inspect.DictType):
        return f"{{{inner(info.key_type)}: {inner(info.value_type)}}}"
    if isinstance(info, inspect.TupleType):
        return f"({', '.join(map(inner, info.item_types))})"
    if isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.FrozenSetType):
        return f"[{inner(info.item_type)}]"
    if isinstance(info, inspect.EnumType):
        if info.cls is ErrorCode:
            return "error code"
        return "enum(" + ", ".join(str(member.value) for member in info.cls) + ")"
    return _PLAIN[type(info)]


def _struct(info, inner):
    fields = [f"{field.encode_name}{'' if field.required else '?'}: {inner(field.type)}" for field in info.fields]
    if info.tag is not None:
        fields.insert(0, repr(info.tag))
    opening, closing = "()" if info.array_like else "{}"
    return opening + ", ".join(fields) + closing
