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

_UNITS: Final = frozenset({"ms", "seconds", "bytes"})


class InvalidConfig(ValueError):
    """A setting that is unknown, has a value of the wrong type or is out of its range; the text says what to write."""


class Changed(enum.StrEnum):
    """When the value of a setting can be changed."""

    AT_START = "when the cluster is started again"
    NEVER = "never: fixed when the cluster is created"
    ANY_TIME = "at any time"
    AT_CREATION = "never: fixed when the topic is created"


class Setting(msgspec.Struct, frozen=True):
    """One setting, but for its name, type and default, which are those of the field that it stands beside."""

    meaning: str
    """One or two sentences that can be read without the name of the setting or the rows around it."""

    unit: str = ""
    """What the value is counted in, where the name of the field does not end in it."""

    least: float = 0
    most: float = INT32_MAX
    also: str = ""
    """What is checked besides the range: how the value has to compare with those of other settings."""

    kafka: str = SAME
    """The default of Apache Kafka 4.x, where it differs from ours."""

    changed: Changed = Changed.AT_START

    reached: str = ""
    """What is done or answered when this bound is reached; empty for a setting that bounds nothing of a client's."""


class TopicSetting(Setting, frozen=True):
    """A setting of a topic, which can be changed at any time unless it says otherwise."""

    changed: Changed = Changed.ANY_TIME


class Described(msgspec.Struct, frozen=True):
    """A setting with the name, type and default of its field."""

    key: str
    kind: Any
    default: Any
    setting: Setting

    @property
    def unit(self) -> str:
        """Empty for settings without a unit, and for counts."""
        ending = self.key.rpartition(".")[2]
        return self.setting.unit or (ending if ending in _UNITS else "")


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
