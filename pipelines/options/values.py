"""From the text of one option to its value, with errors that say what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final, NoReturn, TypeVar

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.options.errors import OptionError
from eagleray.pipelines.options.positions import EARLIEST
from eagleray.pipelines.options.table import Option

LARGEST_LONG: Final = 2**63 - 1
LARGEST_INTEGER: Final = 2**31 - 1

_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?", re.ASCII)
_UNITS_MS: Final = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE: Final = re.compile(r"(\d+)\s*(b|k|kb|m|mb)?", re.ASCII)
_UNITS_BYTES: Final = {None: 1, "b": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2}

_Partition = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)]
_PartitionOffsets = dict[str, dict[_Partition, Annotated[int, msgspec.Meta(ge=EARLIEST, le=LARGEST_LONG)]]]
_PartitionTimestamps = dict[str, dict[_Partition, Annotated[int, msgspec.Meta(ge=0, le=LARGEST_LONG)]]]
_Partitions = dict[str, list[_Partition]]
_Parsed = TypeVar("_Parsed")


def refuse(option: Option, value: str, expected: str) -> NoReturn:
    """Raise OptionError for a value that cannot be used."""
    raise OptionError(f"{option.name} is {value!r}, but has to be {expected}, such as {option.example!r}.")


def boolean(option: Option, value: str) -> bool:
    """Parse true or false."""
    text = value.strip().lower()
    if text not in ("true", "false"):
        refuse(option, value, "true or false")
    return text == "true"


def one_of(*choices: str) -> Callable[[Option, str], str]:
    """Make a parser of one of a few words."""

    def parse(option: Option, value: str) -> str:
        text = value.strip().lower()
        if text not in choices:
            refuse(option, value, f"{', '.join(choices[:-1])} or {choices[-1]}")
        return text

    return parse


def name(option: Option, value: str) -> str:
    """Parse a text that may not be empty."""
    text = value.strip()
    if not text:
        refuse(option, value, "a text that is not empty")
    return text


def whole_number(option: Option, value: str, least: int, most: int = LARGEST_LONG) -> int:
    """Parse a number within a range."""
    text = value.strip()
    if not re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) or not least <= int(text) <= most:
        refuse(option, value, f"a whole number from {least} to {most}")
    return int(text)


def positive(option: Option, text: str) -> int:
    """Parse a number from 1 on."""
    return whole_number(option, text, 1)


def positive_integer(option: Option, text: str) -> int:
    """Parse a number from 1 on that fits Spark's integers."""
    return whole_number(option, text, 1, LARGEST_INTEGER)


def milliseconds(option: Option, text: str) -> int:
    """Parse a time in milliseconds since 1970."""
    return whole_number(option, text, 0)


def duration_ms(option: Option, value: str) -> int:
    """Parse a time with a unit as Spark has them, or in milliseconds without."""
    match = _DURATION.fullmatch(value.strip().lower())
    duration = int(match[1]) * _UNITS_MS[match[2]] if match else 0
    if not 1 <= duration <= LARGEST_INTEGER:
        refuse(option, value, "a time of 1 ms to 24 days: milliseconds, or a number with ms, s, m, h or d")
    return duration


def size_bytes(option: Option, value: str, least: int, most: int) -> int:
    """Parse a number of bytes, with k or m for larger ones."""
    match = _SIZE.fullmatch(value.strip().lower())
    size = int(match[1]) * _UNITS_BYTES[match[2]] if match else -1
    if not least <= size <= most:
        refuse(option, value, f"a size from {least} to {most} bytes: a number, or one with k or m")
    return size


def topic_names(option: Option, value: str) -> tuple[str, ...]:
    """Parse topics that are separated by commas, each of them once."""
    topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
    if not topics:
        refuse(option, value, "at least one topic")
    return topics


def pattern(option: Option, value: str) -> str:
    """Parse a regular expression; it stays a text, which travels well."""
    text = value.strip()
    try:
        re.compile(text)
    except re.error as error:
        refuse(option, value, f"a regular expression (this one has an error: {error})")
    return text or refuse(option, value, "a regular expression that is not empty")


def partition_list(option: Option, value: str) -> tuple[TopicPartition, ...]:
    """Parse partitions as JSON, {"topic": [0, 1]}."""
    topics = _json(option, value, _Partitions)
    partitions = {TopicPartition(topic, partition) for topic, numbers in topics.items() for partition in numbers}
    if not partitions:
        refuse(option, value, "at least one partition")
    return tuple(sorted(partitions))


def partition_offsets(option: Option, value: str) -> dict[TopicPartition, int]:
    """Parse offsets as JSON, {"topic": {"0": 23}}, with -1 for the latest and -2 for the earliest."""
    return _flat(option, value, _json(option, value, _PartitionOffsets))


def partition_timestamps(option: Option, value: str) -> dict[TopicPartition, int]:
    """Parse times as JSON, {"topic": {"0": 1767225600000}}."""
    return _flat(option, value, _json(option, value, _PartitionTimestamps))


def _json(option: Option, value: str, expected: type[_Parsed]) -> _Parsed:
    try:
        return msgspec.json.decode(value, type=expected)
    except msgspec.MsgspecError as error:
        refuse(option, value, f"JSON of its form (this one has an error: {error})")


def _flat(option: Option, value: str, topics: dict[str, dict[int, int]]) -> dict[TopicPartition, int]:
    flat = {
        TopicPartition(topic, partition): number
        for topic, partitions in topics.items()
        for partition, number in partitions.items()
    }
    return flat or refuse(option, value, "JSON with at least one partition")
