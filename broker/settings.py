"""What a setting is: its meaning, unit, range, Kafka's default and when it can be changed, as data beside its field.

    class CleanerConfig(msgspec.Struct, frozen=True, kw_only=True):
        threads: Annotated[int, Setting("The number of threads that compact logs.", least=1)] = 1

        def __post_init__(self) -> None:
            check_ranges(self)

The documents and DescribeConfigs are written from this data, and the ranges that they show are those that are checked.
"""

from __future__ import annotations

import enum
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

SAME: Final = "same"
NOT_IN_KAFKA: Final = "none: not in Kafka"


class InvalidConfig(ValueError):
    """A setting that is unknown, is not of its type or is out of its range; the text says what to write."""


class Changed(enum.StrEnum):
    """When the value of a setting can be changed."""

    AT_START = "when the cluster is started again"
    NEVER = "never: fixed when the cluster is created"
    ANY_TIME = "at any time"
    AT_CREATION = "never: fixed when the topic is created"


class Setting(msgspec.Struct, frozen=True):
    """One setting, but for its name, type and default, which are those of the field that it stands beside."""

    meaning: str
    """A sentence or two that say all without the name of the setting or the rows around it."""

    unit: str = ""
    """Empty for what has none, and for numbers that are counts."""

    least: float = 0
    most: float = INT32_MAX
    also: str = ""
    """What is checked beside the range: how the value has to compare with those of other settings."""

    kafka: str = SAME
    """The default of Apache Kafka 4.x, where it differs from ours."""

    changed: Changed = Changed.AT_START

    def range_of(self, kind: object) -> str:
        """The values that a field of this type may have, for people."""
        return f"{self._plain_range(kind)}{f'; {self.also}' if self.also else ''}"

    def _plain_range(self, kind: object) -> str:
        if kind is bool:
            return "true, false"
        if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
            return ", ".join(kind)
        if get_origin(kind) is tuple:
            return "names with commas between them"
        return f"{self.least:g} to {self.most:g}" if kind is float else f"{self.least} to {self.most}"


class Described(msgspec.Struct, frozen=True):
    """A setting with the name, type and default of its field."""

    key: str
    kind: Any
    default: Any
    setting: Setting


def key_of(field: str) -> str:
    """The name of a field's setting."""
    return field.replace("_", ".")


@cache
def described(component: type[msgspec.Struct]) -> dict[str, Described]:
    """Every setting of a component that stands beside a field, by the name of the field."""
    hints = get_type_hints(component, include_extras=True)
    defaults = dict(zip(component.__struct_fields__, component.__struct_defaults__, strict=True))
    found = {}
    for field in component.__struct_fields__:
        kind, *notes = get_args(hints[field]) if get_origin(hints[field]) is Annotated else (hints[field],)
        for setting in notes:
            if isinstance(setting, Setting):
                found[field] = Described(key_of(field), kind, defaults[field], setting)
    return found


def check_ranges(config: msgspec.Struct) -> None:
    """Raise InvalidConfig for a number that is out of the range of its setting."""
    for field, each in described(type(config)).items():
        value, setting = getattr(config, field), each.setting
        if each.kind in (int, float) and not setting.least <= value <= setting.most:
            raise InvalidConfig(f"{each.key} is {value}; expected a value from {setting.least} to {setting.most}")
