"""Write docs/configuration.md from the code, or check that it is up to date.

python scripts/configuration_tables.py            # write it
python scripts/configuration_tables.py --check    # fail if it would change
"""

import enum
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import get_origin

from eagleray.actors.common.settings import described_cluster_settings
from eagleray.broker.metadata.topic_configs import (
    described_topic_settings,
    text_of,
)
from eagleray.broker.settings import NOT_IN_KAFKA, Described, Setting
from eagleray.client.config import ConsumerConfig, ProducerConfig

DOCUMENT = Path(__file__).parents[1] / "docs" / "configuration.md"

INTRODUCTION = """# Configuration

Settings have Kafka's names where Kafka has the setting. Cluster settings go to `eagleray.start(config={...})` or
`eagleray start --config key=value`; topic settings to `admin.create_topic(configs={...})`, `admin.alter_topic` or
`eagleray topic create --config key=value`; those of producers and consumers to `cluster.producer(...)` and
`cluster.consumer(...)`, with dots in a dictionary or with underscores as keywords. A name that does not exist, a value
of another type or out of its range is an error that says what to write.

The column "Kafka's default" is that of Apache Kafka 4.x: "same", or its value where it differs, or "none" for a setting
that Kafka does not have. Where Kafka's default would surprise an application that has only just begun, ours differs: a
consumer reads committed records from the earliest on.

This page is written by `scripts/configuration_tables.py` from the code.
"""

CLUSTER = """The last settings, from `cleanup.policy` on, are those of logs: what topics have that do not set their own.
A Kafka broker knows most of these with the prefix `log.`, such as `log.retention.ms`.

`transactional.id.timeout.ms` is an older name for `transactional.id.expiration.ms`. It is accepted; to give both, with
different values, is an error."""

TOPICS = (
    "`admin.alter_topic` and Kafka's tools change a topic's settings at any time, but for those that say otherwise."
)

CLIENTS = "They are given when the {kind} is made, and cannot be changed later."

Row = tuple[str, ...]
_EMPTY = "empty"
_BROKER_HEADING: Row = ("setting", "meaning", "unit", "range", "default", "Kafka's default", "can be changed")
_CLIENT_HEADING: Row = ("setting", "meaning", "unit", "range", "default", "Kafka's default")
_COUNT = "-"
_UNITS = {"ms": "ms", "bytes": "bytes", "size": "bytes", "memory": "bytes"}
"""The unit of a client's setting by the last word of its name."""

# The defaults of Apache Kafka 4.x for settings of its clients: where ours differ, the page says so.
_KAFKA_BOTH = {
    "request.timeout.ms": "30000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "client.id": "none",
    "metadata.max.age.ms": "300000",
    "connections.max.idle.ms": "540000",
}

PRODUCER_DEFAULTS = {
    **_KAFKA_BOTH,
    "transactional.id": "none",
    "enable.idempotence": "true",
    "acks": "all",
    "retries": "2147483647",
    "linger.ms": "5",
    "batch.size": "16384",
    "compression.type": "none",
    "max.in.flight.requests.per.connection": "5",
    "max.request.size": "1048576",
    "delivery.timeout.ms": "120000",
    "transaction.timeout.ms": "60000",
    "transaction.two.phase.commit.enable": "false",
    "buffer.memory": "33554432",
    "max.block.ms": "60000",
    "partitioner": "none: `partitioner.class`, a class in Java",
}

CONSUMER_DEFAULTS = {
    **_KAFKA_BOTH,
    "group.id": "none",
    "group.instance.id": "none",
    "group.protocol": "classic",
    "group.remote.assignor": "none",
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "latest",
    "enable.auto.commit": "true",
    "auto.commit.interval.ms": "5000",
    "fetch.min.bytes": "1",
    "fetch.max.bytes": "52428800",
    "fetch.max.wait.ms": "500",
    "max.partition.fetch.bytes": "1048576",
    "max.poll.records": "500",
    "max.poll.interval.ms": "300000",
    "session.timeout.ms": "45000",
    "heartbeat.interval.ms": "3000",
    "default.api.timeout.ms": "60000",
    "allow.auto.create.topics": "true",
}


def render() -> str:
    """Render the whole document."""
    sections = [
        ("Cluster", CLUSTER, _BROKER_HEADING, cluster_rows()),
        ("Topics", TOPICS, _BROKER_HEADING, topic_rows()),
        ("Producers", CLIENTS.format(kind="producer"), _CLIENT_HEADING, producer_rows()),
        ("Consumers", CLIENTS.format(kind="consumer"), _CLIENT_HEADING, consumer_rows()),
    ]
    return INTRODUCTION + "".join(_section(*section) for section in sections)


def _section(title: str, text: str, heading: Row, rows: Iterable[Row]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"\n## {title}\n\n{text}\n\n{table}\n"


def cluster_rows() -> list[Row]:
    """A row for each setting of a cluster: its own, and then those that topics begin with."""
    inherited = described_topic_settings().keys() - {"min.insync.replicas"}
    known = described_cluster_settings()
    own = [_broker_row(each) for key, each in known.items() if key not in inherited]
    return [*own, *(_broker_row(each) for key, each in known.items() if key in inherited)]


def topic_rows() -> list[Row]:
    """A row for each setting of a topic."""
    return [_broker_row(each) for each in described_topic_settings().values()]


def _broker_row(each: Described) -> Row:
    setting = each.setting
    return (
        f"`{each.key}`",
        setting.meaning,
        each.unit or _COUNT,
        _range_of(each),
        text_of(each.default) or _EMPTY,
        setting.kafka,
        str(setting.changed),
    )


def _range_of(each: Described) -> str:
    """Return the values that a setting may have, as text for people."""
    also = f"; {each.setting.also}" if each.setting.also else ""
    return f"{_plain_range(each.kind, each.setting)}{also}"


def _plain_range(kind: object, setting: Setting) -> str:
    if kind is str:
        return "a text"
    if kind is bool:
        return "true, false"
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return ", ".join(kind)
    if get_origin(kind) is tuple:
        return "names with commas between them"
    return f"{setting.least:g} to {setting.most:g}" if kind is float else f"{setting.least} to {setting.most}"


def producer_rows() -> list[Row]:
    """A row for each setting of a producer."""
    return [_client_row(row, PRODUCER_DEFAULTS) for row in ProducerConfig.table()]


def consumer_rows() -> list[Row]:
    """A row for each setting of a consumer."""
    return [_client_row(row, CONSUMER_DEFAULTS) for row in ConsumerConfig.table()]


def _client_row(row: object, kafka_defaults: dict[str, str]) -> Row:
    key, default = row.key, row.default or "none"  # type: ignore[attr-defined]
    default = default.lower() if default in ("True", "False") else default
    kafka = kafka_defaults.get(key, NOT_IN_KAFKA)
    return (
        f"`{key}`",
        row.meaning,  # type: ignore[attr-defined]
        _UNITS.get(key.rpartition(".")[2], _COUNT),
        row.range or _any_of(row.type),  # type: ignore[attr-defined]
        default,
        "same" if kafka == default else kafka,
    )


def _any_of(kind: str) -> str:
    return {"bool": "true, false", "str": "any text", "callable": "a function"}.get(kind, kind)


if __name__ == "__main__":
    from generated_document import write_or_check  # type: ignore[import-not-found] # it lies beside this script

    sys.exit(write_or_check(DOCUMENT, render(), __doc__))
