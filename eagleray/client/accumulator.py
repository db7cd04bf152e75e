"""Gathers records into the batches of their partitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.client.batches import Delivery, PartitionQueue, PreparedRecords, ProducerBatch, Records
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import MessageTooLarge
from eagleray.client.guarantees import Plain
from eagleray.client.partitioner import StickyPartition, partition_for_key
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.records import BatchBuilder, Headers, NewRecord

RECORD_OVERHEAD_BYTES: Final = 70
"""What a record is charged beside its key and value: its share of a batch, at the most."""


class Accumulator:
    """A producer's records from `send` until their batch is ready to go.

    Owns: the batches of each partition, and the count of bytes that buffer.memory bounds.
    """

    __slots__ = (
        "_active",
        "_config",
        "_queues",
        "_ready",
        "_runtime",
        "_sticky",
        "buffered_bytes",
        "guarantee",
        "is_draining",
        "is_watched",
        "room_waiters",
        "unresolved",
    )

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig) -> None:
        self.guarantee: Plain
        self._runtime = runtime
        self._config = config
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: set[PartitionQueue] = set()
        self._ready: list[PartitionQueue] = []
        self._sticky: dict[str, StickyPartition] = {}
        self.unresolved = 0
        self.buffered_bytes = 0
        self.is_draining = False
        self.is_watched = False
        self.room_waiters: list[Callable[[], None]] = []

    def send(  # noqa: PLR0917 - called once for each record, for which names cost too much
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: Headers,
    ) -> Delivery | None:
        """Take a record; None where that has to wait, for room or for the topic to be known."""
        if self.guarantee.refusal is not None:
            raise self.guarantee.refusal.with_traceback(None)
        config = self._config
        size_bytes = _size_of(value, key, headers)
        if size_bytes > config.max_request_size:
            raise MessageTooLarge(
                f"the record takes {size_bytes} bytes, but max.request.size is {config.max_request_size}."
            )
        partitions = self._runtime.view.partitions.get(topic)
        if partitions is None or (self.buffered_bytes + size_bytes > config.buffer_memory and self.unresolved):
            return None
        if partition is None:
            partition = self._choose(topic, key, value, len(partitions), size_bytes)
        if not 0 <= partition < len(partitions):
            return None
        name = partitions[partition]
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PartitionQueue(name)
        if timestamp is None:
            timestamp = self._runtime.wall_ms()
        record = NewRecord(value, key, timestamp, headers)
        batch = self._add(queue, record)
        batch.charged_bytes += size_bytes
        self.buffered_bytes += size_bytes
        return Delivery(batch, len(batch.records) - 1, timestamp)

    def _choose(self, topic: str, key: bytes | None, value: bytes | None, partitions: int, size_bytes: int) -> int:
        config = self._config
        if config.partitioner is not None:
            return config.partitioner(topic, key, value, partitions)
        if key is not None:
            return partition_for_key(key, partitions)
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = StickyPartition()
        return sticky.choose(partitions, size_bytes, config.batch_size)

    def _add(self, queue: PartitionQueue, record: NewRecord) -> ProducerBatch:
        """Put a record into the open batch, or into a new one where there is none or it is full."""
        builder = queue.builder
        if builder is not None:
            batch = queue.batches[-1]
            if builder.add(record):
                return batch
            batch.ready_at_ms = 0
            self._look_at(queue)
        builder = BatchBuilder(self._config.batch_size)
        builder.add(record)
        return self._begin_batch(queue, builder, builder, self._config.linger_ms)

    def _begin_batch(
        self, queue: PartitionQueue, records: Records, builder: BatchBuilder | None, linger_ms: int
    ) -> ProducerBatch:
        """Put a batch behind the others of its partition; with a builder it takes more records while it lingers."""
        batch = ProducerBatch(queue, records, self._runtime.now_ms(), linger_ms, self._config.delivery_timeout_ms)
        if not queue.batches:
            self._active.add(queue)
        queue.batches.append(batch)
        queue.builder = builder
        self.unresolved += 1
        if not self.is_watched:
            self._runtime.watch(self)
        if linger_ms == 0:
            self._look_at(queue)
        else:
            self._runtime.later(linger_ms, partial(self._look_at, queue))
        return batch

    def send_prepared(self, name: TopicPartition, records: PreparedRecords) -> ProducerBatch | None:
        """Take records that are laid out as one batch already; None where that has to wait for room."""
        if self.guarantee.refusal is not None:
            raise self.guarantee.refusal.with_traceback(None)
        size_bytes = records.size_bytes
        if self.buffered_bytes + size_bytes > self._config.buffer_memory and self.unresolved:
            return None
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PartitionQueue(name)
        if queue.builder is not None:
            queue.batches[-1].ready_at_ms = 0
        batch = self._begin_batch(queue, records, None, 0)
        batch.charged_bytes = size_bytes
        self.buffered_bytes += size_bytes
        return batch

    def _look_at(self, queue: PartitionQueue) -> None:
        """Have the queue looked at, at the end of this turn."""
        if not queue.is_ready:
            queue.is_ready = True
            self._ready.append(queue)
        if not self.is_draining:
            self.is_draining = True
            self._runtime.drain_soon(self)

    def drain(self) -> None:
        """Send what is ready; called at the end of a turn."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> bool:
        """Look for what has waited too long; return whether there is still something to wait for."""
        raise NotImplementedError


def _size_of(value: bytes | None, key: bytes | None, headers: Headers) -> int:
    size_bytes = RECORD_OVERHEAD_BYTES
    if value is not None:
        size_bytes += len(value)
    if key is not None:
        size_bytes += len(key)
    if headers:
        size_bytes += sum(len(name) + len(content or b"") + 4 for name, content in headers)
    return size_bytes
