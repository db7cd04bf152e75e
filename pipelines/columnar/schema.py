"""The columns of Spark's Kafka source, as Arrow types."""

from __future__ import annotations

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_FIELDS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
    pa.field("timestampType", pa.int32()),
    pa.field("headers", HEADERS),
)


def record_schema(*, include_headers: bool = False) -> pa.Schema:
    """Return the columns in the order of Spark's Kafka source, where the headers come last, if they are wanted."""
    return pa.schema(_FIELDS if include_headers else _FIELDS[:-1])
