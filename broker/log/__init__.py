"""The partition log: segments, indexes, producer state, transactions, recovery.

`PartitionLog` is the whole of it for its users; each other module is one part of how it works.
"""

from eagleray.broker.log.appending import Appended
from eagleray.broker.log.config import Flush, LogConfig, TimestampType
from eagleray.broker.log.errors import LogDamaged, LogError, LogOffline, LogReadFailed, LogWriteFailed, OffsetOutOfRange
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.producer_state import Origin, Rejection
from eagleray.broker.log.reading import Isolation, LogSlice, TimestampedOffset
from eagleray.broker.log.settling import Surroundings
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.broker.settings import InvalidConfig

__all__ = [
    "AbortedTransaction",
    "Appended",
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
    "OffsetOutOfRange",
    "Origin",
    "PartitionLog",
    "Rejection",
    "Surroundings",
    "TimestampType",
    "TimestampedOffset",
]
