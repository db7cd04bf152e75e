"""Kafka's message definitions, read into the same shape as our annotations.

A definition is a JSON file with comments. What counts is what it means for a version: which fields there are,
in which order, of which type, and so on; not how its ranges are written.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from eagleray.protocol.codec.schema import HIGHEST_VERSION, FieldType, Layout, layout_of
from eagleray.protocol.messages.annotations import ZERO_UUID, Message

NO_VERSION = range(0)
STRUCT_OF_DEFAULTS = "a Struct of defaults"
EMPTY = {"string": "", "bytes": b"", "uuid": ZERO_UUID, "records": None}


class Fact(Struct, frozen=True):
    """What one version says about one field."""

    type: str
    is_nullable: bool
    tag: int | None
    is_compact: bool
    default: object


class Definition:
    """One definition file."""

    def __init__(self, path: Path) -> None:
        without_comments = re.sub(r"(?m)^\s*//.*$", "", path.read_text(encoding="utf-8"))
        self._json = json.loads(without_comments)
        self._structs = {struct["name"]: struct["fields"] for struct in self._json.get("commonStructs", ())}

    @property
    def versions(self) -> range:
        return parse_versions(self._json["validVersions"])

    @property
    def api_key(self) -> int | None:
        return self._json.get("apiKey")

    @property
    def is_latest_unstable(self) -> bool:
        return self._json.get("latestVersionUnstable", False)

    def is_flexible(self, version: int) -> bool:
        return version in parse_versions(self._json["flexibleVersions"])

    def facts(self, version: int) -> dict[str, Fact]:
        """Tell the fields of a version, in their order, by their path."""
        return dict(self._facts(self._json["fields"], "", version))

    def refused(self, version: int) -> set[str]:
        """Tell the fields whose values this version can neither carry nor drop."""
        return set(self._refused(self._json["fields"], "", version))

    def _present(self, fields: list[Any], version: int) -> Iterator[Any]:
        return (field for field in fields if version in versions_of(field))

    def _facts(self, fields: list[Any], path: str, version: int) -> Iterator[tuple[str, Fact]]:
        for field in self._present(fields, version):
            name = path + snake_case(field["name"])
            yield name, self._fact(field, version)
            yield from self._facts(self._nested(field), f"{name}.", version)

    def _refused(self, fields: list[Any], path: str, version: int) -> Iterator[str]:
        for field in fields:
            name = path + snake_case(field["name"])
            if version in versions_of(field):
                yield from self._refused(self._nested(field), f"{name}.", version)
            elif not field.get("ignorable") and not set(self.versions).isdisjoint(versions_of(field)):
                yield name

    def _nested(self, field: dict[str, Any]) -> list[Any]:
        name = field["type"].removeprefix("[]")
        return field.get("fields") or self._structs.get(name, [])

    def _fact(self, field: dict[str, Any], version: int) -> Fact:
        is_tagged = version in parse_versions(field.get("taggedVersions"))
        return Fact(
            field["type"],
            is_nullable=version in parse_versions(field.get("nullableVersions")),
            tag=field["tag"] if is_tagged else None,
            is_compact=self.is_flexible(version) and field.get("flexibleVersions") != "none",
            default=default_of(field),
        )


def versions_of(field: dict[str, Any]) -> range:
    return parse_versions(field.get("versions") or field.get("taggedVersions"))


def parse_versions(text: str | None) -> range:
    """Read a range of versions: "3", "3-5", "3+" or "none"."""
    if text is None or text == "none":
        return NO_VERSION
    lowest, separator, highest = text.partition("+" if text.endswith("+") else "-")
    if separator == "+":
        return range(int(lowest), HIGHEST_VERSION + 1)
    return range(int(lowest), int(highest or lowest) + 1)


def default_of(field: dict[str, Any]) -> object:
    """Give the default of a field; a definition writes it as text, if at all."""
    type_name, text = field["type"], field.get("default", "")
    if text in ("null", None):
        return None
    if type_name.startswith("[]"):
        return ()
    if type_name == "bool":
        return str(text).lower() == "true"
    if type_name.startswith("int"):
        return int(str(text) or "0", 0)
    return EMPTY.get(type_name, STRUCT_OF_DEFAULTS) if text == "" else text


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def our_facts(message: type[Message], version: int) -> dict[str, Fact]:
    """Tell the fields of a version as our annotations have them."""
    layout = layout_of(message, version, message.wire.is_flexible(version))
    return dict(_facts_of(layout, ""))


def _facts_of(layout: Layout, path: str) -> Iterator[tuple[str, Fact]]:
    slots = {slot.name: slot for slot in layout.slots + layout.tagged}
    for name in layout.struct.__struct_fields__:
        if name in slots:
            slot = slots[name]
            default = STRUCT_OF_DEFAULTS if is_default_struct(slot.type, slot.default) else slot.default
            yield path + name, Fact(str(slot.type), slot.is_nullable, slot.tag, slot.is_compact, default)
            if slot.type.struct is not None:
                yield from _facts_of(layout.nested(slot.type), f"{path}{name}.")


def is_default_struct(field_type: FieldType, default: object) -> bool:
    return field_type.struct is not None and not field_type.is_array and default == field_type.struct()


def our_refused(message: type[Message], version: int) -> set[str]:
    """Tell the fields whose values this version can neither carry nor drop, as our annotations have them."""
    return set(_refused_of(layout_of(message, version, message.wire.is_flexible(version)), ""))


def _refused_of(layout: Layout, path: str) -> Iterator[str]:
    yield from (path + slot.name for slot in layout.refused)
    for slot in layout.slots + layout.tagged:
        if slot.type.struct is not None:
            yield from _refused_of(layout.nested(slot.type), f"{path}{slot.name}.")
