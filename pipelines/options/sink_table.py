"""The options that only a sink has."""

from __future__ import annotations

from typing import Final

from eagleray.pipelines.options.option import Option

SINK_OPTIONS: Final = (
    # What to write
    Option(
        "topic",
        "sink",
        "both",
        None,
        "The topic of all rows, whatever a column `topic` says; without it there has to be that column.",
        "orders",
    ),
    Option(
        "includeHeaders",
        "sink",
        "both",
        "true",
        "Whether a column `headers`, if there is one, is written.",
        "false",
    ),
    Option("compression", "sink", "both", "none", "The codec of batches: none, gzip, snappy, lz4 or zstd.", "lz4"),
    Option(
        "batchBytes",
        "sink",
        "both",
        "256k",
        "How large a batch of one partition gets before it is sent, before compression.",
        "1m",
    ),
    # Transactions
    Option(
        "exactlyOnce",
        "sink",
        "streaming",
        "true",
        "Whether a micro-batch is tagged, so that one which is run again changes nothing. `false` gives at-least-once.",
        "false",
    ),
    Option(
        "group",
        "sink",
        "streaming",
        None,
        "A consumer group under which the offsets of the source are committed in the transaction of each micro-batch.",
        "billing",
        aliases=("groupId",),
    ),
    Option(
        "transactionalIdPrefix",
        "sink",
        "both",
        "spark",
        "What the transactional ids of this sink begin with.",
        "billing",
    ),
    Option(
        "transactionTimeout",
        "sink",
        "both",
        "15m",
        "How long a job or micro-batch may take before the broker aborts it. The broker's own limit is the cluster's "
        "`max.transaction.timeout.ms`.",
        "5m",
    ),
)
