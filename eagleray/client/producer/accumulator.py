"""Gathers records into the batches of their partitions, in the threads of those who send them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn, final

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import AbortableError, BufferFull, ForkedClient, MessageTooLarge
from eagleray.client.producer.batches import Delivery, PartitionQueue, PreparedRecords, ProducerBatch
from eagleray.client.producer.delivery_guarantee import DeliveryGuarantee
from eagleray.client.producer.parking import Awaited, ParkedRecord, Parking
from eagleray.client.producer.partitioner import StickyPartition, partition_for_key
from eagleray.client.producer.record_fields import (
    RECORD_OVERHEAD_BYTES,
    HeadersLike,
    OnDelivery,
    as_headers,
    check_partition,
    check_timestamp,
    check_topic,
    headers_size,
)
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import as_bytes
from eagleray.protocol.records import BatchBuilder, Headers

_STILL_WAITING: Final = AbortableError(
    "a send was still waiting for room in buffer.memory when its transaction was to end."
)


@final
class WaitingSend(msgspec.Struct, eq=False):
    """What found no room, checked, to be sent again when there is some; it belongs to the transaction of that time."""

    fields: tuple[Any, ...]
    is_prepared: bool
    """Whether it is a batch, not a record."""

    on_delivery: OnDelivery | None = None


class Accumulator:
    """A producer's records from `send` until the loop takes them over.

    Owns: the open batch of each partition, the records that wait for a topic, and the count of bytes that
    buffer.memory bounds. Threads and loops fill it alike, under its lock, which is never held while code of the
    application runs. The loop is woken once for all that was gathered since it last looked.
    """

    __slots__ = (
        "_config",
        "_failure",
        "_handed",
        "_max_bytes",
        "_partitioner",
        "_queues",
        "_runtime",
        "_sticky",
        "_view",
        "_wall_ms",
        "buffered_bytes",
        "guarantee",
        "is_draining",
        "lock",
        "parking",
        "refusal",
        "room_waiters",
        "unresolved",
        "waiting_sends",
    )

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig) -> None:
        self.guarantee: DeliveryGuarantee
        self.lock = threading.Lock()
        self.refusal: Exception | None = None
        """Why no records are taken; None while they are."""

        self._failure: Exception | None = None
        """The first send that has failed in a transaction, until the loop has heard of it."""

        self._runtime = runtime
        self._view = runtime.view
        self._wall_ms = runtime.wall_ms
        self._config = config
        self._max_bytes = config.max_request_size
        self._partitioner = config.partitioner
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._handed: list[ProducerBatch] = []
        self._sticky: dict[str, StickyPartition] = {}
        self.parking = Parking()
        self.unresolved = 0
        """Batches and parked records that have not come to their end."""

        self.buffered_bytes = 0
        self.is_draining = False
        """Whether the loop will look at what there is."""

        self.room_waiters: list[Callable[[], None]] = []
        self.waiting_sends: set[WaitingSend] = set()
        """Those of the open transaction that wait for room."""

    # Sending, in any thread

    def send(  # noqa: PLR0917 - called once for each record, for which names cost too much
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        partition: int | None,
        timestamp: int | None,
        headers: HeadersLike,
        on_delivery: OnDelivery | None,
        waiting: WaitingSend | None = None,
    ) -> Delivery | WaitingSend:
        """Take a record, or return what has to be sent again where there is no room for it in buffer.memory.

        A record that cannot be taken at all raises why, and fails the transaction where there is one.
        """
        try:
            if type(value) is not bytes:
                value = as_bytes(value)
            if key is not None and type(key) is not bytes:
                key = as_bytes(key)
            size_bytes = RECORD_OVERHEAD_BYTES + (len(value) if value is not None else 0)
            if key is not None:
                size_bytes += len(key)
            named: Headers = ()
            if headers:
                named = as_headers(headers)
                size_bytes += headers_size(named)
            if timestamp is None:
                timestamp = self._wall_ms()
            else:
                check_timestamp(timestamp)
            partitions = self._view.partitions.get(topic)
            if partition is not None:
                check_partition(topic, partition)
            elif partitions is not None and (key is not None or self._partitioner is not None):
                partition = self.choose(topic, value, key, len(partitions))
            placed = self._place(topic, value, key, partition, timestamp, named, size_bytes, partitions, waiting)
        except BaseException as error:
            self.send_failed(error, waiting)
            raise
        if on_delivery is not None:
            if type(placed) is Delivery:
                placed.add_done_callback(partial(_report, on_delivery))
            else:
                placed.on_delivery = on_delivery
        return placed

    def choose(self, topic: str, value: bytes | None, key: bytes | None, partitions: int) -> int | None:
        """Return the partition for a record by its key or by the application's rule; None where any will do."""
        if self._partitioner is not None:
            partition = self._partitioner(topic, key, value, partitions)
            check_partition(topic, partition)
            return partition
        return None if key is None else partition_for_key(key, partitions)

    def _place(  # noqa: PLR0917 - as above
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int,
        headers: Headers,
        size_bytes: int,
        partitions: tuple[TopicPartition, ...] | None,
        waiting: WaitingSend | None,
    ) -> Delivery | WaitingSend:
        if size_bytes > self._max_bytes:
            raise MessageTooLarge(f"the record takes {size_bytes} bytes, but max.request.size is {self._max_bytes}.")
        if partitions is None:
            check_topic(topic)
        with self.lock:
            if waiting is not None and waiting not in self.waiting_sends:
                raise _STILL_WAITING.with_traceback(None)
            if self.refusal is not None:
                raise self.refusal.with_traceback(None)
            if self.buffered_bytes + size_bytes > self._config.buffer_memory and self.unresolved:
                fields = (topic, value, key, partition, timestamp, headers)
                return self._wait(waiting, fields, is_prepared=False)
            if waiting is not None:
                self.waiting_sends.remove(waiting)
            name, awaited = self._destination(topic, partition, partitions, size_bytes)
            if awaited is None:
                batch, index = self.add(name, value, key, timestamp, headers, size_bytes)
                delivery = Delivery(batch, index, timestamp)
            else:
                record = ParkedRecord(self, topic, value, key, partition, timestamp, headers, size_bytes)
                self.parking.add(awaited, record)
                self.unresolved += 1
                delivery = record.delivery
            self.buffered_bytes += size_bytes
            # All other records are in batches that the loop knows of.
            has_news = delivery.index == 0 and not self.is_draining
            if has_news:
                self.is_draining = True
        if has_news:
            self._wake()
        return delivery

    def _destination(
        self, topic: str, partition: int | None, partitions: tuple[TopicPartition, ...] | None, size_bytes: int
    ) -> tuple[TopicPartition, Awaited | None]:
        """Return where a record goes, and what it has to wait for: what is not known, or those that do before it."""
        if partitions is None:
            return TopicPartition(topic, partition or 0), topic
        if partition is None:
            partition = self._stick(topic, len(partitions), size_bytes)
        elif partition >= len(partitions):
            name = TopicPartition(topic, partition)
            return name, topic if topic in self.parking else name
        name = partitions[partition]
        if not self.parking.waiting:
            return name, None
        return name, topic if topic in self.parking else name if name in self.parking else None

    def _stick(self, topic: str, partitions: int, size_bytes: int) -> int:
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = StickyPartition()
        return sticky.choose(partitions, size_bytes, self._config.batch_size)

    def add(  # noqa: PLR0917 - as above
        self,
        name: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        headers: Headers,
        size_bytes: int,
    ) -> tuple[ProducerBatch, int]:
        """Put a record into the open batch, or into a new one where there is none or it is full; under the lock."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PartitionQueue(name)
        builder, batch = queue.builder, queue.open
        index = -1
        if builder is not None and batch is not None:
            index = builder.append(value, key, timestamp, headers)
        if index < 0 or batch is None:
            builder = BatchBuilder(self._config.batch_size)
            index = builder.append(value, key, timestamp, headers)
            batch = self._begin_batch(queue, ProducerBatch(self, queue, builder))
            queue.open, queue.builder = batch, builder
        batch.charged_bytes += size_bytes
        return batch, index

    def _begin_batch(self, queue: PartitionQueue, batch: ProducerBatch) -> ProducerBatch:
        """Put a batch behind the others of its partition, the last of which need not linger any more."""
        if queue.open is not None:
            queue.open.is_full = True
            queue.close(queue.open)
        self._handed.append(batch)
        self.unresolved += 1
        return batch

    def send_prepared(
        self, name: TopicPartition, records: PreparedRecords, waiting: WaitingSend | None = None
    ) -> Delivery | WaitingSend:
        """Take records that are laid out as one batch already, or return what has to be sent again, as `send` does."""
        size_bytes = records.size_bytes
        with self.lock:
            if waiting is not None and waiting not in self.waiting_sends:
                raise _STILL_WAITING.with_traceback(None)
            if self.refusal is not None:
                raise self.refusal.with_traceback(None)
            if self.buffered_bytes + size_bytes > self._config.buffer_memory and self.unresolved:
                return self._wait(waiting, (name, records), is_prepared=True)
            if waiting is not None:
                self.waiting_sends.remove(waiting)
            queue = self._queues.get(name)
            if queue is None:
                queue = self._queues[name] = PartitionQueue(name)
            batch = self._begin_batch(queue, ProducerBatch(self, queue, records))
            batch.is_full = True
            batch.charged_bytes = size_bytes
            self.buffered_bytes += size_bytes
            has_news, self.is_draining = not self.is_draining, True
        if has_news:
            self._wake()
        return Delivery(batch, 0, self._wall_ms())

    def _wake(self) -> None:
        try:  # noqa: SIM105 - a suppress costs three calls for each batch
            self._runtime.drain_soon(self.drain)
        except RuntimeError:
            # The loop was closed meanwhile, and has failed all that was taken before it refused to take more.
            pass

    # Failing, and waiting for room

    def send_failed(self, error: BaseException, waiting: WaitingSend | None = None) -> None:
        """Note that a record is missing from here on, for whatever reason: a transaction cannot commit without it.

        A send that has waited for room fails no transaction but its own.
        """
        if not isinstance(error, Exception):
            error = AbortableError("a send was interrupted before the record was taken.")
            # The interrupt may have come when the loop was to be woken and was not yet.
            self._wake()
        with self.lock:
            if self.refusal is not None or not self.guarantee.is_transactional:
                return
            if waiting is not None and waiting not in self.waiting_sends:
                return
            self._failure = self.refusal = error
            has_news, self.is_draining = not self.is_draining, True
        if has_news:
            self._wake()

    def send_again(self, waiting: WaitingSend) -> Delivery | WaitingSend:
        """Take what has waited for room, where there is some now."""
        fields: tuple[Any, ...] = waiting.fields
        if waiting.is_prepared:
            fields = (*fields, waiting)
            return self.send_prepared(*fields)
        fields = (*fields, waiting.on_delivery, waiting)
        return self.send(*fields)

    def _wait(self, waiting: WaitingSend | None, fields: tuple[Any, ...], *, is_prepared: bool) -> WaitingSend:
        """Let a send wait for room, or go on waiting; under the lock."""
        if waiting is None:
            waiting = WaitingSend(fields, is_prepared=is_prepared)
            self.waiting_sends.add(waiting)
        return waiting

    def give_up(self, waiting: WaitingSend, error: BaseException) -> None:
        """Let a send wait no longer, which fails its transaction."""
        self.send_failed(error, waiting)
        with self.lock:
            self.waiting_sends.discard(waiting)

    def open(self) -> None:
        """Take records, of a transaction that begins; what still waits is of another one."""
        with self.lock:
            self.refusal = None
            self.waiting_sends.clear()

    def shut(self, refusal: Exception) -> AbortableError | None:
        """Take no more records; return what keeps a transaction from being whole: a send that waits for room."""
        with self.lock:
            self.refusal = refusal
            is_whole = not self.waiting_sends
            self.waiting_sends.clear()
        return None if is_whole else _STILL_WAITING

    def when_room(self, callback: Callable[[], None]) -> bool:
        """Call back once when there is more room; return whether that is to come, for nothing may be on its way."""
        with self.lock:
            if self.refusal is not None or not self.unresolved:
                return False
            self.room_waiters.append(callback)
            return True

    def no_room(self) -> NoReturn:
        """Raise that there was no room for too long."""
        config = self._config
        raise BufferFull(
            f"{self.buffered_bytes} of {config.buffer_memory} bytes of buffer.memory were in use for "
            f"{config.max_block_ms} ms."
        )

    # Waiting for deliveries

    def check_wait(self) -> bool:
        """Return whether this thread may wait for a record; raise where a fork has left the loop behind."""
        if isinstance(self.refusal, ForkedClient):
            raise self.refusal.with_traceback(None)
        return not self._runtime.is_on_loop()

    def forked(self, error: ForkedClient) -> None:
        """Refuse everything: this process has no loop. A thread that is not in it either may have held the lock."""
        self.lock = threading.Lock()
        self.refusal = error

    def drain(self) -> None:
        """Send what is ready; called at the end of a turn."""
        raise NotImplementedError


def _report(on_delivery: OnDelivery, delivery: Delivery) -> None:
    error = delivery.exception()
    on_delivery(None if error is not None else delivery.result(), error)  # type: ignore[arg-type]
