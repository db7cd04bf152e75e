"""Reads typed values of given options, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from eagleray.pipelines.options import values
from eagleray.pipelines.options.given import Given
from eagleray.pipelines.options.option import Option

_Value = TypeVar("_Value")


def optional(given: Given, name: str, parse: Callable[[Option, str], _Value]) -> _Value | None:
    """Parse an option that may be absent."""
    text = given.text(name)
    return None if text is None else parse(given.options[name], text)


def required(given: Given, name: str, parse: Callable[[Option, str], _Value]) -> _Value:
    """Parse an option that has a default."""
    value = optional(given, name, parse)
    assert value is not None, f"the table has no default for {name}"
    return value


def positive(option: Option, text: str) -> int:
    """Parse a number from 1 on."""
    return values.whole_number(option, text, 1)


def positive_integer(option: Option, text: str) -> int:
    """Parse a number from 1 on that fits Spark's integers."""
    return values.whole_number(option, text, 1, values.LARGEST_INTEGER)


def milliseconds(option: Option, text: str) -> int:
    """Parse a time in milliseconds since 1970."""
    return values.whole_number(option, text, 0)


def one_of(*choices: str) -> Callable[[Option, str], str]:
    """Make a parser of one of a few words."""
    return lambda option, text: values.choice(option, text, choices)
