"""Kafka's record batches to Arrow columns and back, without an object for any record."""

from eagleray.pipelines.columnar.decoding import RecordColumns, decode
from eagleray.pipelines.columnar.encoding import encode
from eagleray.pipelines.columnar.prepared import PreparedRecords
from eagleray.pipelines.columnar.routing import UnknownPartition, UnknownTopic
from eagleray.pipelines.columnar.rows import Rows
from eagleray.pipelines.columnar.schema import record_schema

__all__ = [
    "PreparedRecords",
    "RecordColumns",
    "Rows",
    "UnknownPartition",
    "UnknownTopic",
    "decode",
    "encode",
    "record_schema",
]
