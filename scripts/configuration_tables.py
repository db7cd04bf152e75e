"""Write docs/configuration.md from the code, or check that it is up to date.

python scripts/configuration_tables.py            # write it
python scripts/configuration_tables.py --check    # fail if it would change
"""

import sys
from collections.abc import Iterable
from pathlib import Path

# The folders of the repository have their names as packages only where they are installed, and mypy looks here.
from eagleray.actors.settings import CLUSTER_KEYS, COMPONENTS  # type: ignore[import-not-found]
from eagleray.broker.controller.config_entries import (  # type: ignore[import-not-found]
    TOPIC_CONFIG_MEANINGS,
)
from eagleray.broker.controller.topic_configs import TopicConfig, text_of  # type: ignore[import-not-found]
from eagleray.broker.log.config import CONFIG_KEYS  # type: ignore[import-not-found]
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
    "transaction.completion.log.delay.ms": (
        "How long the log need not hear that a transaction has all its markers, unless the next one of its producer "
        "says so; 0: at once, as in Kafka. Ours."
    ),
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
    "group.consumer.heartbeat.interval.ms": "How often a member of a KIP-848 group is to be heard from.",
    "group.consumer.min.heartbeat.interval.ms": "The least that the interval may be.",
    "group.consumer.max.heartbeat.interval.ms": "The most that the interval may be.",
    "group.consumer.session.timeout.ms": "How long a member of a KIP-848 group may be silent before it is given up.",
    "group.consumer.min.session.timeout.ms": "The least that this may be.",
    "group.consumer.max.session.timeout.ms": "The most that this may be.",
    "group.consumer.max.size": "How many members a KIP-848 group may have.",
    "group.consumer.assignors": "Who may assign partitions in KIP-848 groups; the first does where nobody asks.",
    # Topics and metadata
    "num.partitions": "How many partitions a topic has whose creator names no number.",
    "default.replication.factor": "How many replicas the partitions of a topic have whose creator names no number.",
    "min.insync.replicas": "How many replicas have to be in sync for `acks=all`; a new topic takes it over.",
    "transaction.state.log.replication.factor": "Replicas of `__transaction_state`; at most one for each machine.",
    "transaction.state.log.min.isr": "How many of them have to be in sync; at most as many as there are.",
    "offsets.topic.replication.factor": "Replicas of `__consumer_offsets`; at most one for each machine.",
    "auto.leader.rebalance.enable": "Whether the first replicas lead again by themselves, after they were away.",
    "leader.imbalance.check.interval.seconds": "How often to look for partitions that another replica leads.",
    "dedicated.nodes.limit": "How many partitions may have an actor of their own. Ours.",
    "queued.requests.limit": "How many changes of metadata may wait. Ours.",
    "metadata.changes.kept": "How many changes a node may be behind before it is sent all the metadata. Ours.",
    "metadata.max.wait.ms": "How long a node may wait for news of the metadata. Ours.",
    # Replication
    "replica.lag.time.max.ms": "How long a replica may lag before it is in sync no longer.",
    "replica.push.max.bytes": "How much a leader sends a follower at once; one larger batch goes alone. Ours.",
    "replica.push.timeout.ms": "After how long without an answer to send it again. Ours.",
    "broker.session.timeout.ms": "After how long without a heartbeat a node is taken for dead.",
    "broker.heartbeat.interval.ms": "How often a node is to be heard from.",
    "leader.lease.ms": "How long a leader may acknowledge after a heartbeat; less than the session. Ours.",
    # The quorum that keeps the metadata
    "controller.quorum.election.timeout.ms": "How long a node that keeps the metadata waits for a leader before it "
    "votes for another; it stands itself after up to twice that.",
    "controller.quorum.lease.ms": "How long the controller may answer after sending what a majority has answered; at "
    "most nine elevenths of the election timeout. Ours.",
    "controller.quorum.heartbeat.interval.ms": "How often the controller tells the others that it is there. Ours.",
    "controller.quorum.push.timeout.ms": "After how long what the controller sent the others is sent again. Ours.",
    "controller.quorum.push.max.bytes": "How much of the metadata log is sent at once. Ours.",
    # Listeners
    "connections.max.idle.ms": "How long a connection may be silent while nothing of it is in flight.",
    "max.connections": "How many Kafka clients may be connected to one node.",
    "max.connections.per.ip": "How many of them may come from one address.",
    "socket.request.max.bytes": "How large a request may be.",
    "socket.request.complete.ms": "How long after its first byte a request has to be whole; large ones get more. Ours.",
    "queued.max.requests": "How many requests of one connection may be in flight before it is read no further.",
    "queued.max.request.bytes": "The same in bytes, for each connection.",
    "connection.requests.per.second": "How many requests a second are taken from one connection; 0 for any. Ours.",
    "max.incremental.fetch.session.cache.slots": "How many fetch sessions a node remembers.",
    "auto.create.topics.enable": "Whether a topic is created when a client asks for its metadata and there is none.",
    # Processes
    "spare.worker.processes": "How many worker processes Ray keeps ready on each machine, for nodes whose own has "
    "ended; each takes some 80 MB. Ours.",
    # Logs and topics
    **TOPIC_CONFIG_MEANINGS,
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
        field.replace("_", "."): text_of(getattr(component(), field))
        for component in COMPONENTS
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


if __name__ == "__main__":
    from generated_document import write_or_check  # type: ignore[import-not-found] # it lies beside this script

    sys.exit(write_or_check(DOCUMENT, render(), __doc__))
