"""Sends batches to the leaders of their partitions, and repeats what is not answered."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.partitions.events import Produce
from eagleray.client.accumulator import Accumulator
from eagleray.client.batches import UNASSIGNED, PartitionQueue, ProducerBatch
from eagleray.client.calls import is_only_busy
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import DeliveryTimeout, EaglerayError, error_for
from eagleray.client.guarantees import Plain
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import CompressionType

logger = logging.getLogger(__name__)

_NONE = ErrorCode.NONE
_FEW_QUEUES = 8


class Sender(Accumulator):
    """A producer's records between `send` and their acknowledgement.

    Owns: the batches of each partition. It knows no loop: the runtime calls it at the end of a turn and when time
    passes, peers with replies. Promises: batches of a partition go out in the order of `send`, also when they are
    repeated; each is resolved exactly once, at the latest when delivery.timeout.ms are over.
    """

    __slots__ = ("_acks", "_compression", "is_flushing")

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig) -> None:
        super().__init__(runtime, config)
        self.guarantee = Plain(self)
        self._acks = config.acks_number
        self._compression = CompressionType[config.compression_type.upper()]
        self.is_flushing = False

    # Sending

    def drain(self) -> None:
        """Send what is ready; called at the end of a turn."""
        self.is_draining = False
        if self._ready:
            self._drain()

    def _drain(self) -> None:
        guarantee = self.guarantee
        if not guarantee.may_send:
            guarantee.prepare()
            return
        ready, self._ready = self._ready, []
        now_ms = self._runtime.now_ms()
        for queue in ready:
            queue.is_ready = False
            self._send_from(queue, now_ms)

    def flush(self) -> None:
        """Let no batch linger, and send at once."""
        self.is_flushing = self.unresolved > 0
        for queue in self._active:
            if not queue.is_ready:
                queue.is_ready = True
                self._ready.append(queue)
        if self._ready:
            self._drain()

    def look_at_all(self) -> None:
        """Look at every queue that has something, because now it may be possible to send."""
        for queue in self._active:
            self._look_at(queue)

    def _send_from(self, queue: PartitionQueue, now_ms: int) -> None:
        """Send the batches of a queue in order, up to the first that has to wait."""
        limit = self._config.max_in_flight_requests_per_connection if queue.is_known else 1
        for batch in list(queue.batches):
            if batch.is_in_flight:
                continue
            if queue.in_flight >= limit:
                return
            if batch.ready_at_ms > now_ms and not (self.is_flushing and batch.attempts == 0):
                return
            if queue.needs_new_epoch and self._waits_for_others(queue, batch):
                continue
            node_id = self._runtime.view.leaders.get(queue.partition, NO_NODE)
            if node_id == NO_NODE:
                self.retry(batch, ErrorCode.LEADER_NOT_AVAILABLE)
                return
            if batch.encoded is None and not self._encode(queue, batch):
                return
            self._send(node_id, queue, batch, now_ms)

    def _waits_for_others(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Whether a batch has to wait behind a gap: only what has a sequence goes out until none of it is in doubt."""
        return batch.base_sequence == UNASSIGNED and any(other.base_sequence != UNASSIGNED for other in queue.batches)

    def _encode(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Close a batch and give it its place in its producer's sequence."""
        identity = self.guarantee.identity_for(queue)
        if identity is None:
            return False
        if queue.builder is not None and queue.batches[-1] is batch:
            queue.builder = None
        if identity.producer_id >= 0:
            batch.base_sequence = queue.take_sequence(len(batch.records))
        batch.encoded = batch.records.build(
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=batch.base_sequence,
            transactional=self.guarantee.is_transactional,
            compression=self._compression,
        )
        return True

    def _send(self, node_id: int, queue: PartitionQueue, batch: ProducerBatch, now_ms: int) -> None:
        guarantee = self.guarantee
        guarantee.has_begun = True
        batch.attempts += 1
        batch.sent_ms = now_ms
        batch.was_first = queue.batches[0] is batch or queue.is_first_sent(batch)
        batch.is_in_flight = True
        queue.in_flight += 1
        self._runtime.ask(
            node_id,
            partial(self._on_produced, batch, batch.attempts) if self._acks else None,
            Produce,
            queue.partition,
            batch.encoded,
            self._acks,
            guarantee.transactional_id,
            IMPLICIT_VERSION,
        )
        if self._acks == 0:
            self.resolve(batch, None)

    # Answers

    def _on_produced(self, batch: ProducerBatch, attempt: int, reply: Any) -> None:  # noqa: ANN401 - Produced or None
        if batch.is_done:
            return
        if reply is not None and reply.error_code is _NONE:
            batch.base_offset = reply.base_offset
            batch.append_time_ms = reply.append_time_ms
            batch.queue.is_known = True
            self.resolve(batch, None)
        elif attempt == batch.attempts and batch.is_in_flight:
            self._on_failed(batch, None if reply is None else reply)

    def _on_failed(self, batch: ProducerBatch, reply: Any) -> None:  # noqa: ANN401 - as above
        self._land(batch)
        error_code = ErrorCode.NETWORK_EXCEPTION if reply is None else reply.error_code
        if error_code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.resolve(batch, None)
        elif error_code.is_retriable:
            self.retry(batch, error_code)
        else:
            doing = f"writing {len(batch)} records to {batch.queue.partition}"
            self.guarantee.refused(batch, error_code, error_for(error_code, doing, reply.message))

    def _land(self, batch: ProducerBatch) -> None:
        if batch.is_in_flight:
            batch.is_in_flight = False
            batch.queue.in_flight -= 1

    def retry(self, batch: ProducerBatch, error_code: ErrorCode | None) -> None:
        """Send a batch again, after a pause where there was an error, to whoever leads the partition then."""
        config = self._config
        pause_ms = 0
        if error_code is not None:
            pause_ms = min(config.retry_backoff_ms << min(batch.attempts, 16), config.retry_backoff_max_ms)
            if not is_only_busy(error_code):
                self._runtime.view.refresh()
        batch.ready_at_ms = self._runtime.now_ms() + pause_ms
        # A loop's clock is finer than ours; a look that comes a little too early would be in vain.
        self._runtime.later(pause_ms + 1, partial(self._look_at, batch.queue))

    def resolve(self, batch: ProducerBatch, error: EaglerayError | None) -> None:
        """End a batch's way."""
        queue = batch.queue
        self._land(batch)
        if queue.builder is not None and queue.batches[-1] is batch:
            queue.builder = None
        queue.batches.remove(batch)
        if queue.batches:
            self._look_at(queue)
        else:
            self._active.discard(queue)
        self.unresolved -= 1
        self.buffered_bytes -= batch.charged_bytes
        if error is not None and batch.callbacks is None:
            logger.warning("%d records for %s were not delivered: %s", len(batch), queue.partition, error)
        batch.finish(error)
        if self.room_waiters:
            self._wake_room_waiters()
        if self.unresolved == 0:
            self.is_flushing = False
            self.guarantee.drained()

    def _wake_room_waiters(self) -> None:
        waiters, self.room_waiters = self.room_waiters, []
        for waiter in waiters:
            waiter()

    def fail_all(self, error: EaglerayError) -> None:
        """End every batch's way."""
        for queue in list(self._active):
            for batch in list(queue.batches):
                if not batch.is_done:
                    self.resolve(batch, error)

    def unresolved_batches(self) -> list[ProducerBatch]:
        """Return what is on its way."""
        return [batch for queue in self._active for batch in queue.batches]

    def forget_idle(self) -> None:
        """Forget partitions with nothing on its way, where each transaction begins its sequences anew."""
        if len(self._queues) > _FEW_QUEUES and not self._active:
            self._queues.clear()

    # Time

    def tick(self, now_ms: int) -> bool:
        """Give up what is overdue; repeat what was not answered."""
        oldest_sent_ms = now_ms - self._config.request_timeout_ms
        for queue in list(self._active):
            for batch in list(queue.batches):
                if batch.deadline_ms <= now_ms and not batch.is_done:
                    self.guarantee.expired(batch, self._overdue(batch))
                elif batch.is_in_flight and batch.sent_ms <= oldest_sent_ms:
                    self._on_failed(batch, None)
        self.guarantee.tick(now_ms)
        return self.unresolved > 0 or self.guarantee.is_waiting

    def _overdue(self, batch: ProducerBatch) -> DeliveryTimeout:
        sent = f"it was sent {batch.attempts} times without an answer" if batch.attempts else "it could not be sent"
        return DeliveryTimeout(
            f"{len(batch)} records for {batch.queue.partition} were not acknowledged within "
            f"{self._config.delivery_timeout_ms} ms: {sent}."
        )
