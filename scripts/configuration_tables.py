"""Write docs/configuration.md from the code, or check that it is up to date.

python scripts/configuration_tables.py            # write it
python scripts/configuration_tables.py --check    # fail if it would change
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

# The folders of the repository have their names as packages only where they are installed, and mypy looks here.
from eagleray.actors.settings import CLUSTER_KEYS  # type: ignore[import-not-found]
from eagleray.broker.controller.config import ControllerConfig  # type: ignore[import-not-found]
from eagleray.broker.controller.topic_configs import TopicConfig  # type: ignore[import-not-found]
from eagleray.broker.groups.config import GroupConfig  # type: ignore[import-not-found]
from eagleray.broker.log.config import CONFIG_KEYS  # type: ignore[import-not-found]
from eagleray.broker.transactions.config import CoordinatorConfig  # type: ignore[import-not-found]
from eagleray.client.config import ConsumerConfig, ProducerConfig

DOCUMENT = Path(__file__).parents[1] / "docs" / "configuration.md"

INTRODUCTION = """# Configuration

Settings have Kafka's names where Kafka has the setting. Cluster settings go to `eagleray.start(config={...})` or
`eagleray start --config key=value`; topic settings to `admin.create_topic(configs={...})`, `admin.alter_topic` or
`eagleray topic create --config key=value`; those of producers and consumers to `cluster.producer(...)` and
`cluster.consumer(...)`, with dots in a dictionary or with underscores as keywords. A name that does not exist, a value
of another type or out of its range is an error that says what to write.

Where Kafka's default would surprise somebody who has only just begun, ours differs: a consumer reads committed records
from the earliest on.

This page is written by `scripts/configuration_tables.py` from the code.
"""

MEANINGS = {
    # Transactions
    "transaction.state.log.num.partitions": "Partitions of `__transaction_state`; fixed once the cluster exists.",
    "max.transaction.timeout.ms": "The longest timeout that a producer may ask for.",
    "transactional.id.expiration.ms": "How long an idle transactional id is remembered.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often to look for transactions that timed out.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often to look for ids that expired.",
    "request.hold.ms": "How long a request waits for what is under way before the client has to try again. Ours.",
    "request.hold.limit": "How many requests may wait for one transactional id. Ours.",
    "max.transaction.branches": "How many branches a transaction with many writers may have. Ours.",
    # Groups
    "offsets.topic.num.partitions": "Partitions of `__consumer_offsets`; fixed once the cluster exists.",
    "offset.metadata.max.bytes": "How long the text beside a committed offset may be.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept.",
    "offsets.retention.check.interval.ms": "How often to look for offsets that expired.",
    "group.min.session.timeout.ms": "The shortest session that a member of a group may ask for.",
    "group.max.session.timeout.ms": "The longest session that a member of a group may ask for.",
    "group.max.size": "How many members a group may have.",
    "group.initial.rebalance.delay.ms": "How long the first generation of an empty group waits for more members.",
    # Topics and metadata
    "num.partitions": "How many partitions a topic has whose creator names no number.",
    "dedicated.nodes.limit": "How many partitions may have an actor of their own. Ours.",
    "queued.requests.limit": "How many changes of metadata may wait. Ours.",
    "metadata.changes.kept": "How many changes a node may be behind before it is sent all the metadata. Ours.",
    "metadata.max.wait.ms": "How long a node may wait for news of the metadata. Ours.",
    # Logs
    "segment.bytes": "How large a segment may get.",
    "segment.ms": "How long a segment is appended to.",
    "segment.index.bytes": "How large an index may get before its segment is closed.",
    "index.interval.bytes": "After how many bytes the index has another entry.",
    "retention.ms": "How long records are kept; -1 for ever.",
    "retention.bytes": "How much of a partition is kept; -1 for everything.",
    "cleanup.policy": "`delete`, `compact` or both.",
    "min.cleanable.dirty.ratio": "How much of a log has to be new before it is compacted.",
    "delete.retention.ms": "How long a tombstone stays in a compacted log.",
    "min.compaction.lag.ms": "How long a record is left alone by compaction.",
    "max.compaction.lag.ms": "After how long a record has to have been compacted.",
    "max.message.bytes": "How large a batch may be.",
    "message.timestamp.type": "Whose clock stamps the records: `CreateTime` or `LogAppendTime`.",
    "message.timestamp.before.max.ms": "How far in the past a timestamp may lie.",
    "message.timestamp.after.max.ms": "How far in the future a timestamp may lie.",
    "producer.id.expiration.ms": "How long an idle producer is remembered.",
    "flush": "`os`: when the operating system likes. `commit`: before anything is acknowledged. Ours.",
    # Topics alone
    "leader.placement": "`shared`, or `dedicated`: each partition has an actor of its own. Fixed at creation. Ours.",
    "min.insync.replicas": "Accepted; there is one replica so far.",
    "unclean.leader.election.enable": "Accepted; there is one replica so far.",
    "compression.type": "Accepted; batches stay as their producer made them.",
}

Row = tuple[str, ...]


def render() -> str:
    """Render the whole document."""
    sections = [
        ("Cluster", "Those of logs are what topics have that do not say otherwise.", _cluster_rows()),
        ("Topics", "", _topic_rows()),
        ("Producers", "", _client_rows(ProducerConfig.table())),
        ("Consumers", "", _client_rows(ConsumerConfig.table())),
    ]
    return INTRODUCTION + "".join(_section(*section) for section in sections)


def _section(title: str, text: str, rows: Iterable[Row]) -> str:
    heading = ("setting", "default", "meaning")
    lines = [heading, ("---", "---", "---"), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"\n## {title}\n\n{text + chr(10) * 2 if text else ''}{table}\n"


def _cluster_rows() -> Iterable[Row]:
    defaults = {
        field.replace("_", "."): str(getattr(component(), field))
        for component in (CoordinatorConfig, GroupConfig, ControllerConfig)
        for field in component.__struct_fields__
    }
    topic = TopicConfig().as_text()
    for key in sorted(CLUSTER_KEYS - CONFIG_KEYS):
        yield f"`{key}`", defaults[key], MEANINGS[key]
    for key in sorted(CONFIG_KEYS):
        yield f"`{key}`", topic[key], MEANINGS[key]


def _topic_rows() -> Iterable[Row]:
    for key, default in TopicConfig().as_text().items():
        yield f"`{key}`", default, MEANINGS[key]


def _client_rows(rows: Iterable[object]) -> Iterable[Row]:
    for row in rows:
        allowed = f" ({row.range})" if row.range else ""  # type: ignore[attr-defined]
        yield f"`{row.key}`", row.default, f"{row.meaning}{allowed}"  # type: ignore[attr-defined]


def main() -> int:
    """Write or check the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the document would change")
    rendered = render()
    if parser.parse_args().check:
        if not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != rendered:
            print(f"{DOCUMENT} is out of date: run python {sys.argv[0]}", file=sys.stderr)
            return 1
        return 0
    DOCUMENT.write_text(rendered, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
