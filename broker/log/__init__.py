"""The partition log: segments, indexes, producer state, transactions, recovery.

`PartitionLog` is the whole of it for those who use it; each other module is one noun of how it works.
"""

from eagleray.broker.log.appending import Appended, NewMarker
from eagleray.broker.log.compaction import Compaction, CompactionReport
from eagleray.broker.log.config import Flush, LogConfig, TimestampType
from eagleray.broker.log.errors import (
    CompactionFailed,
    LogDamaged,
    LogError,
    LogOffline,
    LogReadFailed,
    LogWriteFailed,
    OffsetOutOfRange,
)
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.producer_state import Origin, Rejection
from eagleray.broker.log.reading import Isolation, LogSlice, TimestampedOffset
from eagleray.broker.log.recovery import Recovery
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.broker.settings import InvalidConfig

__all__ = [
    "AbortedTransaction",
    "Appended",
    "Compaction",
    "CompactionFailed",
    "CompactionReport",
    "Flush",
    "InvalidConfig",
    "Isolation",
    "LogConfig",
    "LogDamaged",
    "LogError",
    "LogOffline",
    "LogReadFailed",
    "LogSlice",
    "LogWriteFailed",
    "NewMarker",
    "OffsetOutOfRange",
    "Origin",
    "PartitionLog",
    "Recovery",
    "Rejection",
    "TimestampType",
    "TimestampedOffset",
]
