"""Where a query begins or ends, as its options say, before any log is read."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.broker.identities import TopicPartition

LATEST: Final = -1
"""In place of an offset in JSON: the end of what can be read."""

EARLIEST: Final = -2
"""In place of an offset in JSON: the start of the log."""


class Earliest(msgspec.Struct, frozen=True):
    """The start of each log."""


class Latest(msgspec.Struct, frozen=True):
    """The end of what can be read of each partition."""


class SpecificOffsets(msgspec.Struct, frozen=True):
    """An offset for each partition, where EARLIEST and LATEST stand for themselves."""

    offsets: dict[TopicPartition, int]


class GlobalTimestamp(msgspec.Struct, frozen=True):
    """The first record of each partition that is as late as this."""

    timestamp_ms: int


class PartitionTimestamps(msgspec.Struct, frozen=True):
    """The same with a time for each partition."""

    timestamps_ms: dict[TopicPartition, int]


Position = Earliest | Latest | SpecificOffsets | GlobalTimestamp | PartitionTimestamps
