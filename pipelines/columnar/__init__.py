"""Kafka's record batches to Arrow columns and back, without an object for any record."""

from eagleray.pipelines.columnar.decoder import RecordColumns, decode, record_schema
from eagleray.pipelines.columnar.encoder import PreparedRecords, encode
from eagleray.pipelines.columnar.routing import Rows, UnknownPartition, UnknownTopic

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
