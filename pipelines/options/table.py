"""Every option of the data source, with its default and meaning: what the parser, the errors and the docs go by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Side = Literal["source", "sink"]
Query = Literal["batch", "streaming", "both"]


class Option(msgspec.Struct, frozen=True):
    """One option: its documented spelling, its meaning, where it applies, and its default as text (None for none)."""

    name: str
    meaning: str
    example: str
    query: Query = "both"
    default: str | None = None
    streaming_default: str | None = None
    aliases: tuple[str, ...] = ()

    def default_for(self, *, streaming: bool) -> str | None:
        """Return the default of one kind of query."""
        return self.streaming_default if streaming and self.streaming_default is not None else self.default


_OFFSETS_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'
_TIMESTAMPS_EXAMPLE = '{"orders": {"0": 1767225600000}}'

SOURCE_OPTIONS: Final = (
    # What to read
    Option("subscribe", "Topics to read, separated by commas.", "orders,payments"),
    Option(
        "subscribePattern",
        "Topics to read: a regular expression (Python's) that the whole name has to match.",
        "orders-.*",
    ),
    Option("assign", "Partitions to read, as JSON.", '{"orders": [0, 1]}'),
    # Where to begin and to end
    Option(
        "startingTimestamp",
        "Begin at the first record of each partition that is as late as this, in milliseconds since 1970. Goes before "
        "`startingOffsetsByTimestamp` and `startingOffsets`.",
        "1767225600000",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "The same with a time for each partition, all of them named. Goes before `startingOffsets`.",
        _TIMESTAMPS_EXAMPLE,
    ),
    Option(
        "startingOffsets",
        "Where a query begins: `earliest`, `latest` (streaming only), or an offset for each partition, all of them "
        "named, with -2 for the earliest and -1 for the latest. A stream that has a checkpoint goes on from that.",
        _OFFSETS_EXAMPLE,
        default="earliest",
        streaming_default="latest",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "Where no record of a partition is as late as the starting time: `error`, or begin at the `latest` offset.",
        "latest",
        default="error",
    ),
    Option(
        "endingTimestamp",
        "End before the first record of each partition that is as late as this, in milliseconds since 1970. Goes "
        "before `endingOffsetsByTimestamp` and `endingOffsets`.",
        "1767312000000",
        query="batch",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "The same with a time for each partition, all of them named. Goes before `endingOffsets`.",
        _TIMESTAMPS_EXAMPLE,
        query="batch",
    ),
    Option(
        "endingOffsets",
        "Where a query ends: `latest`, or an offset for each partition, all of them named, with -1 for the latest.",
        '{"orders": {"0": 50, "1": -1}}',
        query="batch",
        default="latest",
    ),
    # How much at once
    Option(
        "maxOffsetsPerTrigger",
        "How many offsets a micro-batch takes at most, shared out in proportion to what waits in each partition.",
        "100000",
        query="streaming",
    ),
    Option(
        "minOffsetsPerTrigger",
        "How many offsets have to wait before a micro-batch takes them. Not followed with Trigger.AvailableNow.",
        "1000",
        query="streaming",
    ),
    Option(
        "maxTriggerDelay",
        "How long `minOffsetsPerTrigger` may hold a micro-batch back.",
        "30s",
        query="streaming",
        default="15m",
    ),
    Option(
        "minPartitions",
        "How many tasks read at least; large partitions are read by several. Without it, partitions with little to "
        "read share a task.",
        "16",
    ),
    Option(
        "maxRecordsPerPartition",
        "How many offsets one task reads at most; larger partitions are read by several.",
        "50000",
    ),
    # What a row is
    Option(
        "failOnDataLoss",
        "Whether to fail when records are gone that were to be read; else go on with what is left, with a warning. "
        "Gaps left by markers, aborted and compacted records are not losses.",
        "false",
        default="true",
    ),
    Option(
        "isolation",
        "`read_committed` leaves out records of open and aborted transactions, `read_uncommitted` does not.",
        "read_uncommitted",
        default="read_committed",
        aliases=("kafka.isolation.level",),
    ),
    Option("includeHeaders", "Whether rows have a column `headers`.", "true", default="false"),
)
SINK_OPTIONS: Final = (
    # What to write
    Option(
        "topic",
        "The topic of all rows, whatever a column `topic` says; without it there has to be that column.",
        "orders",
    ),
    Option("includeHeaders", "Whether a column `headers`, if there is one, is written.", "false", default="true"),
    Option("compression", "The codec of batches: none, gzip, snappy, lz4 or zstd.", "lz4", default="none"),
    Option(
        "batchBytes",
        "How large a batch of one partition gets before it is sent, before compression.",
        "1m",
        default="256k",
    ),
    # Transactions
    Option(
        "exactlyOnce",
        "Whether a micro-batch is tagged, so that one which is run again changes nothing. `false` gives at-least-once.",
        "false",
        query="streaming",
        default="true",
    ),
    Option(
        "failOnCheckpointMismatch",
        "Whether to fail when a micro-batch may have been written before and the cluster cannot tell: the checkpoint "
        "was set back or copied, or the batch is older than what the cluster remembers of a query "
        "(`transactional.id.expiration.ms`); else write it, perhaps for a second time.",
        "false",
        query="streaming",
        default="true",
    ),
    Option(
        "group",
        "A consumer group under which the offsets of the source are committed in the transaction of each micro-batch.",
        "billing",
        query="streaming",
        aliases=("groupId",),
    ),
    Option("transactionalIdPrefix", "What the transactional ids of this sink begin with.", "billing", default="spark"),
    Option(
        "transactionTimeout",
        "How long a job or micro-batch may take before the broker aborts it. The broker's own limit is the cluster's "
        "`max.transaction.timeout.ms`.",
        "5m",
        default="15m",
    ),
)
SHARED_OPTIONS: Final = (
    # Which cluster
    Option("cluster", "The name of the Eagleray cluster.", "production", default="default"),
    Option("address", "The address of the Ray cluster that it runs on.", "ray-head:6379", default="auto"),
    Option("contact", "A file that tells how to reach the cluster.", "/etc/eagleray/contact"),
)


def options_of(side: Side) -> dict[str, Option]:
    """Return the options of a source or a sink by their names."""
    own = SOURCE_OPTIONS if side == "source" else SINK_OPTIONS
    return {option.name: option for option in (*own, *SHARED_OPTIONS)}


def render_table(options: Iterable[Option]) -> str:
    """Render options as a table in Markdown."""
    heading = ("option", "queries", "default", "meaning", "example")
    rows = [heading, ("---",) * len(heading), *(_row(option) for option in options)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(option: Option) -> tuple[str, ...]:
    names = f"`{option.name}`" + "".join(f", also `{alias}`" for alias in option.aliases)
    queries = "batch, streaming" if option.query == "both" else option.query
    return names, queries, _default(option), option.meaning, f"`{option.example}`"


def _default(option: Option) -> str:
    if option.default is None:
        return ""
    if option.streaming_default is None:
        return f"`{option.default}`"
    return f"batch `{option.default}`, streaming `{option.streaming_default}`"
