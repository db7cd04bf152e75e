"""Write docs/limits.md from the code, or check that it is up to date.

python scripts/limit_tables.py            # write it
python scripts/limit_tables.py --check    # fail if it would change
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from eagleray.actors.common.settings import described_cluster_settings
from eagleray.actors.kafka_server.connection_rates import LONGEST_WAIT_S
from eagleray.actors.kafka_server.descriptors import MOST_RESERVED, RESERVED_SHARE
from eagleray.actors.kafka_server.handlers.fetch import LONGEST_WAIT_MS
from eagleray.actors.lanes.frames import MAX_FRAME_BYTES, PREFACE_BYTES
from eagleray.broker.controller.new_partitions import PARTITIONS_LIMIT
from eagleray.broker.metadata.topic_configs import text_of
from eagleray.broker.metadata.topic_names import LONGEST_NAME
from eagleray.broker.partitions.fetching import MOST_BYTES_A_TURN
from eagleray.broker.settings import Described
from eagleray.protocol.records.validation import MOST_RECORD_ERRORS

DOCUMENT = Path(__file__).parents[1] / "docs" / "limits.md"

INTRODUCTION = """# Limits

The bounds on what a client or a stranger can make a node keep, open or do. Each row says where the bound is by default,
and what is done or answered when it is reached. [configuration.md](configuration.md) says more about each setting, its
range, and Kafka's default.

Limits of connections are for Kafka's clients, and for peers of the direct lane that have not shown the token of the
cluster: nodes and handles have shown it, and are exempt. A bound of 2147483647 is none: as in Kafka, a person who knows
how many clients there are sets it.

## Memory

What a node keeps in memory for Kafka's clients is bounded so:

| what | at most |
| --- | --- |
| requests in flight | twice `queued.max.request.bytes`, and what each connection receives at once |
| parts of requests | half of `queued.max.request.bytes` |
| responses | `queued.max.response.bytes`, and three times the records that a turn reads (below) |
| fetch sessions | `max.incremental.fetch.session.cache.bytes` |
| fetches that wait | `max.delayed.fetches`, of some kilobytes each |
| connections | `max.connections`, of some 5 kB each while they are idle; else the descriptors of the process (below) |
| producers of partitions | `max.producer.ids` for each |
| transactional ids | `max.transactional.ids.per.partition` for each partition |
| groups | `max.groups.per.partition` for each partition |
| their members and offsets | `max.members.per.partition` and `max.offsets.per.partition` for each partition |
| metadata | `max.topics.per.cluster` and `max.partitions.per.cluster` |

Requests in flight are counted by their bytes on the wire; decoded, they may take several times as much.
`tests/nodes/test_bursts.py` measures bursts of strangers against such bounds.

This page is written by `scripts/limit_tables.py` from the code.
"""

SETTINGS = "A person can change these; those of logs for each topic, the others when the cluster is started."
FIXED = "These cannot be changed."

Row = tuple[str, ...]
_SETTING_HEADING: Row = ("setting", "what it bounds", "unit", "default", "when it is reached")
_FIXED_HEADING: Row = ("what is bounded", "unit", "bound", "when it is reached")

FIXED_ROWS: tuple[Row, ...] = (
    (
        "what is read of a peer of the direct lane before it has shown the token of the cluster",
        "bytes",
        str(PREFACE_BYTES),
        "it is closed where the token is another, and by `socket.request.complete.ms` where it does not come",
    ),
    ("a frame of the direct lane", "bytes", str(MAX_FRAME_BYTES), "the connection is closed"),
    (
        "how long a connection waits for its turn by `max.connection.creation.rate`",
        "seconds",
        f"{LONGEST_WAIT_S:g}",
        "a connection that would wait for longer is closed at once",
    ),
    (
        "records that a node reads for fetches before it sends them",
        "bytes",
        str(MOST_BYTES_A_TURN),
        "other fetches are answered after these are sent",
    ),
    (
        "how long a fetch waits for records",
        "ms",
        str(LONGEST_WAIT_MS),
        "it is answered with none, and the client asks again",
    ),
    (
        "descriptors of a process (ulimit -n) that Kafka's clients may take; half of the others are for logs alone",
        "-",
        f"all but one in {RESERVED_SHARE}, or all but {MOST_RESERVED}",
        "the connection is closed",
    ),
    ("partitions that one request adds to a topic", "-", str(PARTITIONS_LIMIT), "POLICY_VIOLATION"),
    ("the name of a topic", "characters", str(LONGEST_NAME), "INVALID_TOPIC_EXCEPTION"),
    ("records that are named in the answer to a refused batch", "-", str(MOST_RECORD_ERRORS), "the first are named"),
)


def render() -> str:
    """Render the whole document."""
    return (
        INTRODUCTION
        + _section("Settings", SETTINGS, _SETTING_HEADING, setting_rows())
        + _section("Fixed", FIXED, _FIXED_HEADING, FIXED_ROWS)
    )


def _section(title: str, text: str, heading: Row, rows: Iterable[Row]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"\n## {title}\n\n{text}\n\n{table}\n"


def setting_rows() -> list[Row]:
    """A row for each setting that bounds what comes from outside."""
    return [_row(each) for each in described_cluster_settings().values() if each.setting.reached]


def _row(each: Described) -> Row:
    return f"`{each.key}`", each.setting.meaning, each.unit or "-", text_of(each.default), each.setting.reached


if __name__ == "__main__":
    from generated_document import write_or_check  # type: ignore[import-not-found] # it lies beside this script

    sys.exit(write_or_check(DOCUMENT, render(), __doc__))
