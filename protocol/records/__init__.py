"""Record batches (magic 2): views over bytes, their records, compression, markers, and building them.

`split_batches` finds the batches in what a peer sent, `scan_batches` in what a crash left, and
`RecordBatch.records` decodes one. `build_batch`, `build_marker` and `rebuild_batch` make new ones.
"""

from eagleray.protocol.records.batch import (
    RecordBatch,
    check_counts,
    correct_max_timestamp,
    place_in,
    placed_prefix,
    scan_batches,
    split_batches,
    stamp_append_time,
)
from eagleray.protocol.records.build import (
    BatchBuilder,
    build_batch,
    build_from_block,
    build_keyed_batch,
    build_marker,
    rebuild_batch,
)
from eagleray.protocol.records.check import check_client_batch
from eagleray.protocol.records.columns import RecordColumns
from eagleray.protocol.records.committed import committed_batches
from eagleray.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES
from eagleray.protocol.records.control import EndTransactionMarker
from eagleray.protocol.records.header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    PLACEMENT_BYTES,
    BatchHeader,
    BytesLike,
    CompressionType,
    TimestampType,
    decode_header,
)
from eagleray.protocol.records.record import Headers, NewRecord, Record
from eagleray.protocol.records.validation import RecordError, RecordRules, RecordsRefused, check_records

__all__ = [
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "HEADER_BYTES",
    "LOG_OVERHEAD_BYTES",
    "PLACEMENT_BYTES",
    "BatchBuilder",
    "BatchHeader",
    "BytesLike",
    "CompressionType",
    "EndTransactionMarker",
    "Headers",
    "NewRecord",
    "Record",
    "RecordBatch",
    "RecordColumns",
    "RecordError",
    "RecordRules",
    "RecordsRefused",
    "TimestampType",
    "build_batch",
    "build_from_block",
    "build_keyed_batch",
    "build_marker",
    "check_client_batch",
    "check_counts",
    "check_records",
    "committed_batches",
    "correct_max_timestamp",
    "decode_header",
    "place_in",
    "placed_prefix",
    "rebuild_batch",
    "scan_batches",
    "split_batches",
    "stamp_append_time",
]
