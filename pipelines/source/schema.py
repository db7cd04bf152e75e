"""The columns of the source, as Spark's Kafka source has them."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

_SOURCE_FIELDS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)


def source_schema(include_headers: bool) -> StructType:
    """Return the columns of the source, as Spark's Kafka source has them."""
    headers = (StructField("headers", HEADERS_TYPE),) if include_headers else ()
    return StructType([*_SOURCE_FIELDS, *headers])
