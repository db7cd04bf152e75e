"""The defaults of Apache Kafka 4.x for settings of its clients, for the documents: where ours differ they say so."""

from __future__ import annotations

from typing import Final

_BOTH: Final = {
    "request.timeout.ms": "30000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "client.id": "none",
    "metadata.max.age.ms": "300000",
    "connections.max.idle.ms": "540000",
}

PRODUCER_DEFAULTS: Final[dict[str, str]] = {
    **_BOTH,
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
    "buffer.memory": "33554432",
    "max.block.ms": "60000",
    "partitioner": "none: `partitioner.class`, a class in Java",
}

CONSUMER_DEFAULTS: Final[dict[str, str]] = {
    **_BOTH,
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
