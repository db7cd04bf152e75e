"""Sends batches to the leaders of their partitions, and repeats what is not answered."""

from __future__ import annotations

import logging
from functools import partial

from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.partitions.events import Produce, Produced
from eagleray.client.calls import is_only_busy
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import DeliveryTimeout, EaglerayError, RecordRefused, error_for
from eagleray.client.producer.batches import UNASSIGNED, Ending, PartitionQueue, ProducerBatch
from eagleray.client.producer.delivery_guarantee import DeliveryGuarantee
from eagleray.client.producer.topic_lookup import TopicLookup
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import CompressionType

logger = logging.getLogger(__name__)

_NONE = ErrorCode.NONE
_FEW_QUEUES = 8


class Sender(TopicLookup):
    """A producer's records from the loop's first sight of them until their acknowledgement.

    Owns: the batches of each partition. It knows no loop: the runtime calls it at the end of a turn and when time
    passes, peers with replies. Promises: batches of a partition go out in the order of `send`, also when they are
    repeated; each is resolved exactly once, at the latest when delivery.timeout.ms are over.
    """

    __slots__ = ("_acks", "_active", "_compression", "_ready", "is_flushing")

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig) -> None:
        super().__init__(runtime, config)
        self.guarantee = DeliveryGuarantee(self)
        self._active: set[PartitionQueue] = set()
        self._ready: list[PartitionQueue] = []
        self._acks = config.acks_number
        self._compression = CompressionType[config.compression_type.upper()]
        self.is_flushing = False

    # Taking over

    def take(self) -> None:
        """Take over what was gathered since the last time, and hear of sends that have failed."""
        with self.lock:
            handed, self._handed = self._handed, []
            failure, self._failure = self._failure, None
        if handed:
            self._take_batches(handed)
        if self.parking.waiting:
            self._take_parked()
        if failure is not None:
            self.guarantee.send_failed(failure)

    def _take_news(self) -> None:
        """Take over what was gathered, where there is any; for those who need not shut out a send of this moment."""
        if self._handed or self._failure is not None or self.parking.waiting:
            self.take()

    def _take_batches(self, handed: list[ProducerBatch]) -> None:
        now_ms, config = self._runtime.now_ms(), self._config
        for batch in handed:
            queue = batch.queue
            batch.taken(now_ms, 0 if batch.is_full else config.linger_ms, config.delivery_timeout_ms)
            if not queue.batches:
                self._active.add(queue)
            queue.batches.append(batch)
            self._make_ready(queue)
            if config.linger_ms and not batch.is_full:
                self._runtime.later(config.linger_ms, partial(self._look_at, queue))
        if not self.is_watched:
            self._runtime.watch(self)

    def _make_ready(self, queue: PartitionQueue) -> None:
        if not queue.is_ready:
            queue.is_ready = True
            self._ready.append(queue)

    def _look_at(self, queue: PartitionQueue) -> None:
        """Have the queue looked at, at the end of this turn."""
        self._make_ready(queue)
        if not self.is_draining:
            self.is_draining = True
            self._runtime.drain_soon(self.drain)

    # Sending

    def drain(self) -> None:
        """Send what is ready; called at the end of a turn."""
        self.is_draining = False
        self._take_news()
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
        self._take_news()
        self.is_flushing = self.unresolved > 0
        for queue in self._active:
            self._make_ready(queue)
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
            if batch.ready_at_ms > now_ms and not ((self.is_flushing or batch.is_full) and batch.attempts == 0):
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
        with self.lock:
            queue.close(batch)
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
        encoded = batch.encoded
        assert encoded is not None, "a batch is closed before it is sent"
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
            encoded,
            self._acks,
            guarantee.transactional_id,
            IMPLICIT_VERSION,
        )
        if self._acks == 0:
            self.resolve(batch, None)

    # Answers

    def _on_produced(self, batch: ProducerBatch, attempt: int, reply: Produced | Malformed | None) -> None:
        if batch.is_done:
            return
        if isinstance(reply, Produced) and reply.error_code is _NONE:
            batch.base_offset = reply.base_offset
            batch.append_time_ms = reply.append_time_ms
            batch.queue.is_known = True
            self.resolve(batch, None)
        elif attempt == batch.attempts and batch.is_in_flight:
            self._on_failed(batch, reply)

    def _on_failed(self, batch: ProducerBatch, reply: Produced | Malformed | None) -> None:
        self._land(batch)
        error_code = ErrorCode.NETWORK_EXCEPTION if reply is None else reply.error_code
        if error_code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.resolve(batch, None)
        elif error_code.is_retriable and batch.attempts <= self._config.retries:
            self.retry(batch, error_code)
        elif error_code.is_retriable:
            # It may have been written all the same, as with one that has run out of time.
            self.guarantee.expired(batch, self._out_of_retries(batch, error_code))
        else:
            self.guarantee.refused(batch, error_code, _refusal(batch, error_code, reply))

    def _land(self, batch: ProducerBatch) -> None:
        if batch.is_in_flight:
            batch.is_in_flight = False
            batch.queue.in_flight -= 1

    def retry(self, batch: ProducerBatch, error_code: ErrorCode | None) -> None:
        """Send a batch again, after a pause where there was an error, to the leader that the partition has then."""
        pause_ms = 0
        if error_code is not None:
            pause_ms = self.retry_policy.pause_ms(batch.attempts)
            if not is_only_busy(error_code):
                self._runtime.view.refresh()
        batch.ready_at_ms = self._runtime.now_ms() + pause_ms
        # A loop's clock is finer than ours; a look that comes a little too early would be in vain.
        self._runtime.later(pause_ms + 1, partial(self._look_at, batch.queue))

    def resolve(self, batch: ProducerBatch, error: EaglerayError | None) -> None:
        """End a batch's way."""
        queue = batch.queue
        self._land(batch)
        with self.lock:
            queue.close(batch)
        queue.batches.remove(batch)
        if queue.batches:
            self._look_at(queue)
        else:
            self._active.discard(queue)
        if error is not None and not batch.is_looked_at:
            logger.warning("%s not delivered: %s", batch, error)
        self._end(batch, batch.charged_bytes, error)

    def _end(self, ended: Ending, size_bytes: int, error: Exception | None) -> None:
        """Give the room back, and tell those who wait: for this, for room, for everything."""
        with self.lock:
            self.unresolved -= 1
            self.buffered_bytes -= size_bytes
            waiters, self.room_waiters = self.room_waiters, []
        ended.finish(error)
        for waiter in waiters:
            waiter()
        if self.unresolved == 0:
            self.is_flushing = False
            self.guarantee.drained()

    def fail_all(self, error: EaglerayError) -> None:
        """End the way of every record."""
        self.take()
        for awaited, records in list(self.parking.waiting.items()):
            self._fail_parked(awaited, list(records), error)
        for queue in list(self._active):
            for batch in list(queue.batches):
                if not batch.is_done:
                    self.resolve(batch, error)
        self._wake_room_waiters()

    def _wake_room_waiters(self) -> None:
        with self.lock:
            waiters, self.room_waiters = self.room_waiters, []
        for waiter in waiters:
            waiter()

    def unresolved_endings(self) -> list[Ending]:
        """Return what is on its way, or waits for its topic."""
        self.take()
        return [*self.parking.records(), *(batch for queue in self._active for batch in queue.batches)]

    def forget_idle(self) -> None:
        """Forget partitions with nothing on its way, where each transaction begins its sequences anew."""
        if len(self._queues) > _FEW_QUEUES:
            with self.lock:
                if not self.unresolved:
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
        super().tick(now_ms)
        self.guarantee.tick(now_ms)
        return self.unresolved > 0 or self.guarantee.is_waiting

    def _overdue(self, batch: ProducerBatch) -> DeliveryTimeout:
        sent = f"it was sent {batch.attempts} times without an answer" if batch.attempts else "it could not be sent"
        node_id = self._view.leaders.get(batch.queue.partition, NO_NODE)
        why = self._runtime.peers.why_unreachable(node_id) or sent
        return DeliveryTimeout(f"{batch} not acknowledged within {self._config.delivery_timeout_ms} ms: {why}.")

    def _out_of_retries(self, batch: ProducerBatch, error_code: ErrorCode) -> DeliveryTimeout:
        return DeliveryTimeout(
            f"{batch} not acknowledged: sent {batch.attempts} times, which are as many as "
            f"retries={self._config.retries} allows, and the last error was {error_code.name}."
        )


def _refusal(batch: ProducerBatch, error_code: ErrorCode, reply: Produced | Malformed | None) -> EaglerayError:
    error = error_for(error_code, f"writing {batch}", None if reply is None else reply.message)
    if isinstance(error, RecordRefused) and isinstance(reply, Produced):
        error.record_errors = reply.record_errors
    return error
