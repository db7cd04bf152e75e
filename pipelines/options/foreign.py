"""Options that come from elsewhere: those that Spark adds by itself, and those of its Kafka connector."""

from __future__ import annotations

from typing import Final

SPARKS_OWN: Final = frozenset(name.lower() for name in ("checkpointLocation", "path", "paths", "queryName"))
"""What Spark's readers and writers put among the options of any source, in lower case; it is let through."""

_FINDS_CLUSTER: Final = "a cluster is found through Ray: use cluster, address or contact"
_TRIES_AGAIN: Final = "the client tries again by itself and there is nothing to set: leave it out"
_BYTES: Final = "keys and values are binary columns: use cast() on them"

_KAFKA_CONNECTOR: Final = {
    "kafka.bootstrap.servers": _FINDS_CLUSTER,
    "kafka.security.protocol": _FINDS_CLUSTER,
    "kafka.group.id": "Spark's checkpoint keeps the offsets: leave it out, or see the sink's option group",
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets: leave it out, or see the sink's option group",
    "kafka.max.poll.records": "use maxOffsetsPerTrigger or maxRecordsPerPartition",
    "kafka.key.deserializer": _BYTES,
    "kafka.value.deserializer": _BYTES,
    "kafka.key.serializer": _BYTES,
    "kafka.value.serializer": _BYTES,
    "kafka.compression.type": "use compression",
    "kafka.batch.size": "use batchBytes",
    "kafka.transactional.id": "use transactionalIdPrefix",
    "kafka.transaction.timeout.ms": "use transactionTimeout",
    "kafka.isolation.level": "a sink does not read: leave it out",
    "kafka.acks": "every write is acknowledged by all replicas in sync: leave it out",
    "kafka.enable.idempotence": "every write is part of a transaction: leave it out",
    "kafkaConsumer.pollTimeoutMs": _TRIES_AGAIN,
    "kafkaConsumer.consumerCacheTimeout": _TRIES_AGAIN,
    "fetchOffset.numRetries": _TRIES_AGAIN,
    "fetchOffset.retryIntervalMs": _TRIES_AGAIN,
    "groupIdPrefix": "no group is joined to read: leave it out, or see the sink's option group",
}
_ADVICE: Final = {name.lower(): (name, advice) for name, advice in _KAFKA_CONNECTOR.items()}


def advice_on(key: str) -> str | None:
    """Return what to do instead about an option of Spark's Kafka connector; None for any other option."""
    name, advice = _ADVICE.get(key.lower(), (key, None))
    if advice is None and key.lower().startswith("kafka."):
        advice = "it is a setting of Kafka's clients, which are not used here: leave it out"
    return None if advice is None else f"{name} is an option of Spark's Kafka connector. Here {advice}."
