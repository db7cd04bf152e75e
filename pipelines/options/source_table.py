"""The options that only a source has."""

from __future__ import annotations

from typing import Final

from eagleray.pipelines.options.option import Option

_OFFSETS_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'
_TIMESTAMPS_EXAMPLE = '{"orders": {"0": 1767225600000}}'

SOURCE_OPTIONS: Final = (
    # What to read
    Option("subscribe", "source", "both", None, "Topics to read, separated by commas.", "orders,payments"),
    Option(
        "subscribePattern",
        "source",
        "both",
        None,
        "Topics to read: a regular expression (Python's) that the whole name has to match.",
        "orders-.*",
    ),
    Option("assign", "source", "both", None, "Partitions to read, as JSON.", '{"orders": [0, 1]}'),
    # Where to begin and to end
    Option(
        "startingTimestamp",
        "source",
        "both",
        None,
        "Begin at the first record of each partition that is as late as this, in milliseconds since 1970. Goes before "
        "`startingOffsetsByTimestamp` and `startingOffsets`.",
        "1767225600000",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "source",
        "both",
        None,
        "The same with a time for each partition, all of them named. Goes before `startingOffsets`.",
        _TIMESTAMPS_EXAMPLE,
    ),
    Option(
        "startingOffsets",
        "source",
        "both",
        "earliest",
        "Where a query begins: `earliest`, `latest` (streaming only), or an offset for each partition, all of them "
        "named, with -2 for the earliest and -1 for the latest. A stream that has a checkpoint goes on from that.",
        _OFFSETS_EXAMPLE,
        streaming_default="latest",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "source",
        "both",
        "error",
        "Where no record of a partition is as late as the starting time: `error`, or begin at the `latest` offset.",
        "latest",
    ),
    Option(
        "endingTimestamp",
        "source",
        "batch",
        None,
        "End before the first record of each partition that is as late as this, in milliseconds since 1970. Goes "
        "before `endingOffsetsByTimestamp` and `endingOffsets`.",
        "1767312000000",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "source",
        "batch",
        None,
        "The same with a time for each partition, all of them named. Goes before `endingOffsets`.",
        _TIMESTAMPS_EXAMPLE,
    ),
    Option(
        "endingOffsets",
        "source",
        "batch",
        "latest",
        "Where a query ends: `latest`, or an offset for each partition, all of them named, with -1 for the latest.",
        '{"orders": {"0": 50, "1": -1}}',
    ),
    # How much at once
    Option(
        "maxOffsetsPerTrigger",
        "source",
        "streaming",
        None,
        "How many offsets a micro-batch takes at most, shared out in proportion to what waits in each partition.",
        "100000",
    ),
    Option(
        "minOffsetsPerTrigger",
        "source",
        "streaming",
        None,
        "How many offsets have to wait before a micro-batch takes them. Not followed with Trigger.AvailableNow.",
        "1000",
    ),
    Option(
        "maxTriggerDelay",
        "source",
        "streaming",
        "15m",
        "How long `minOffsetsPerTrigger` may hold a micro-batch back.",
        "30s",
    ),
    Option(
        "minPartitions",
        "source",
        "both",
        None,
        "How many tasks read at least; large partitions are read by several. Without it, partitions with little to "
        "read share a task.",
        "16",
    ),
    Option(
        "maxRecordsPerPartition",
        "source",
        "both",
        None,
        "How many offsets one task reads at most; larger partitions are read by several.",
        "50000",
    ),
    # What a row is
    Option(
        "failOnDataLoss",
        "source",
        "both",
        "true",
        "Whether to fail when records are gone that were to be read; else go on with what is left, with a warning. "
        "Gaps left by markers, aborted and compacted records are not losses.",
        "false",
    ),
    Option(
        "isolation",
        "source",
        "both",
        "read_committed",
        "`read_committed` leaves out records of open and aborted transactions, `read_uncommitted` does not.",
        "read_uncommitted",
        aliases=("kafka.isolation.level",),
    ),
    Option(
        "includeHeaders",
        "source",
        "both",
        "false",
        "Whether rows have a column `headers`.",
        "true",
    ),
)
