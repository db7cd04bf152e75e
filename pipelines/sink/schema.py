"""The columns that the sink takes, checked before a query runs."""

from __future__ import annotations

import difflib
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from eagleray.pipelines.source.schema import HEADERS_TYPE

_SINK_COLUMNS: Final[dict[str, tuple[DataType, ...]]] = {
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
    "headers": (HEADERS_TYPE,),
}


class SchemaError(ValueError):
    """The columns of a DataFrame are not those that the sink can write; the message says which and how to change it."""


def check_sink_schema(schema: StructType, topic: str | None) -> None:
    """Raise SchemaError, with everything that is wrong, unless the sink can write these columns.

    `topic` is the option of that name, without which the rows have to have a column `topic`.
    """
    problems = [*_unknown_columns(schema), *_missing_columns(schema, topic), *_wrong_types(schema)]
    if problems:
        raise SchemaError(" ".join(problems))


def _unknown_columns(schema: StructType) -> list[str]:
    unknown = [name for name in schema.names if name not in _SINK_COLUMNS]
    if not unknown:
        return []
    near = {name: difflib.get_close_matches(name.lower(), _SINK_COLUMNS, 1) for name in unknown}
    hints = "".join(f" Did you mean {match[0]} by {name}?" for name, match in near.items() if match)
    text = (
        f"The sink does not write the column{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}: it takes "
        f"{', '.join(_SINK_COLUMNS)}.{hints} Put more into value, such as with to_json(struct(*)), or drop it."
    )
    return [text]


def _missing_columns(schema: StructType, topic: str | None) -> list[str]:
    problems = []
    if "value" not in schema.names:
        problems.append(
            "The sink needs a column value (string or binary), such as to_json(struct(*)) AS value in selectExpr."
        )
    if topic is None and "topic" not in schema.names:
        problems.append("The sink does not know where to write: set the option topic, or add a column topic (string).")
    return problems


def _wrong_types(schema: StructType) -> list[str]:
    problems = []
    for name, allowed in _SINK_COLUMNS.items():
        fields = [field for field in schema.fields if field.name == name]
        if len(fields) > 1:
            problems.append(f"There are {len(fields)} columns {name}: keep one of them.")
        problems.extend(
            f"The column {name} is {field.dataType.simpleString()}, but has to be "
            f"{' or '.join(each.simpleString() for each in allowed)}: {_cast_hint(name, field.dataType, allowed)}."
            for field in fields
            if not any(_same_type(field.dataType, each) for each in allowed)
        )
    return problems


def _same_type(found: DataType, expected: DataType) -> bool:
    """Compare types without regard to what may be null, as Spark's Kafka sink does."""
    if isinstance(found, ArrayType) and isinstance(expected, ArrayType):
        return _same_type(found.elementType, expected.elementType)
    if isinstance(found, StructType) and isinstance(expected, StructType):
        return found.names == expected.names and all(
            _same_type(mine.dataType, theirs.dataType)
            for mine, theirs in zip(found.fields, expected.fields, strict=True)
        )
    # A string with a collation is a string.
    return type(found) is type(expected)


def _cast_hint(name: str, found: DataType, allowed: tuple[DataType, ...]) -> str:
    if isinstance(found, (StructType, ArrayType)) and name in ("key", "value"):
        return f"use to_json({name}) AS {name}"
    if isinstance(found, TimestampNTZType):
        return f"use CAST({name} AS timestamp), which takes the time zone of the session"
    return f"use CAST({name} AS {allowed[0].simpleString()})"
