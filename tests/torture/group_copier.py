"""A process that copies one topic into another in transactions, as a member of a group.

python -m tests.torture.group_copier KIND SLOT SPEC        KIND is handles, librdkafka or one to kill

It ends when its standard input does, after it has left the group. A transaction that fails is aborted, and the member
begins anew, as one that was started again.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import Any

import msgspec

from eagleray.actors.lanes.peers import Peers
from eagleray.broker.metadata.image import MetadataImage
from eagleray.client.errors import EaglerayError
from eagleray.client.sync_cluster import SyncCluster
from eagleray.client.types import ConsumerRecord

SOURCE, TARGET, GROUP = "orders", "copies", "copiers"
TRANSACTION_TIMEOUT_MS = 5_000
_BATCH = 20
_POLL_MS = 100
_WAIT_S = 20
_WINDOW_S = 2.0


class CopierSpec(msgspec.Struct, frozen=True):
    """How to reach the nodes, by both protocols."""

    token: bytes
    image: MetadataImage
    bootstrap_servers: str


def say_ready() -> None:
    """Tell the torture that this process may be killed now."""
    print("ready", flush=True)


class HandleCopier:
    """Copies by handles."""

    def begin(self) -> None:
        """Say that copying begins."""
        say_ready()

    def __init__(self, spec: CopierSpec, slot: str) -> None:
        self._cluster = SyncCluster.connect(lambda: Peers(token=spec.token, timeout_s=5), spec.image)
        self._producer = self._cluster.producer(
            transactional_id=f"copier-{slot}", transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        self._consumer = self._cluster.consumer(SOURCE, group=GROUP, max_poll_records=_BATCH)

    def step(self) -> None:
        """Copy what comes, with the group's offsets, in one transaction."""
        records = self._consumer.poll(_POLL_MS)
        if records:
            with self._producer.transaction():
                for record in records:
                    self._producer.send(TARGET, record.value, key=record.key)
                self._producer.send_offsets(self._consumer.positions(), self._consumer.group_metadata())

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
        self._producer.close()
        self._cluster._thread.run(self._cluster._cluster.close())
        self._cluster.close()


class KilledCopier(HandleCopier):
    """Copies by handles; says that it is ready, and waits to be killed, at the worst moment of its first step."""

    _was_ready = False

    def begin(self) -> None:
        """Say nothing yet."""

    def step(self) -> None:
        """Copy what comes, with the group's offsets, in one transaction."""
        records = self._consumer.poll(_POLL_MS)
        if records:
            with self._producer.transaction():
                self._send(records)
                self._producer.send_offsets(self._consumer.positions(), self._consumer.group_metadata())
                self._producer.flush()
                self._be_killed()

    def _send(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            self._producer.send(TARGET, record.value, key=record.key)

    def _be_killed(self) -> None:
        if not self._was_ready:
            self._was_ready = True
            say_ready()
            time.sleep(_WINDOW_S)


class OffsetsFirstCopier(KilledCopier):
    """Commits the group's offsets before the records: those of a transaction that it cannot finish are lost."""

    def step(self) -> None:
        """Copy what comes."""
        records = self._consumer.poll(_POLL_MS)
        if records:
            self._consumer.commit()
            self._be_killed()
            with self._producer.transaction():
                self._send(records)


class OffsetsLastCopier(KilledCopier):
    """Commits the group's offsets behind the records: the member that follows copies them again."""

    def step(self) -> None:
        """Copy what comes."""
        records = self._consumer.poll(_POLL_MS)
        if records:
            with self._producer.transaction():
                self._send(records)
            self._be_killed()
            self._consumer.commit()


class LibrdkafkaCopier:
    """Copies by Kafka's protocol."""

    def begin(self) -> None:
        """Say that copying begins."""
        say_ready()

    def __init__(self, spec: CopierSpec, slot: str) -> None:
        from confluent_kafka import Consumer, Producer

        common: dict[str, Any] = {"bootstrap.servers": spec.bootstrap_servers, "log_level": 0}
        self._producer = Producer(
            common | {"transactional.id": f"copier-{slot}", "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        )
        self._producer.init_transactions(_WAIT_S)
        self._consumer = Consumer(
            common
            | {
                "group.id": GROUP,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([SOURCE])

    def step(self) -> None:
        """Copy what comes, with the group's offsets, in one transaction."""
        messages = [message for message in self._consumer.consume(_BATCH, _POLL_MS / 1000) if not message.error()]
        if not messages:
            return
        producer, consumer = self._producer, self._consumer
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(TARGET, message.value(), message.key())
            positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), _WAIT_S)
            producer.commit_transaction(_WAIT_S)
        except Exception:
            with suppress(Exception):
                producer.abort_transaction(_WAIT_S)
            raise

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


KINDS = {"handles": HandleCopier, "librdkafka": LibrdkafkaCopier}
KILLED_AT_THE_WORST = {
    "in-transaction": KilledCopier,
    "offsets-first": OffsetsFirstCopier,
    "offsets-last": OffsetsLastCopier,
}
"""One that is right, and two that are wrong on purpose, to see that a torture notices."""


def main() -> None:
    """Copy until the standard input ends."""
    kind, slot, path = sys.argv[1:]
    with open(path, "rb") as file:
        spec = msgspec.msgpack.decode(file.read(), type=CopierSpec)
    stopping = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
    while not stopping.is_set():
        copier = (KINDS | KILLED_AT_THE_WORST)[kind](spec, slot)
        copier.begin()
        try:
            while not stopping.is_set():
                copier.step()
        except EaglerayError as error:
            print(f"begins anew: {error}", file=sys.stderr, flush=True)
        except Exception as error:
            # librdkafka's own errors; whatever else it is, is a fault of this program.
            if type(error).__name__ != "KafkaException":
                raise
            print(f"begins anew: {error}", file=sys.stderr, flush=True)
        finally:
            copier.close()


if __name__ == "__main__":
    main()
