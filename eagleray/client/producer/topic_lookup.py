"""Looks for the topics that records wait for, and lets the records go or fail."""

from __future__ import annotations

import logging

from eagleray.broker.identities import TopicPartition
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import EaglerayError, NotConnected, TopicNotFound
from eagleray.client.producer.accumulator import Accumulator
from eagleray.client.producer.batches import Ending, records_for
from eagleray.client.producer.parking import Awaited, ParkedRecord
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime

logger = logging.getLogger(__name__)


class TopicLookup(Accumulator):
    """An accumulator that finds out about the topics and partitions that its parked records wait for.

    Owns: the question that is under way, one for all of them. A record whose topic comes goes into a batch, in the
    order of `send`; one whose topic does not come within max.block.ms fails, and with it its transaction.
    """

    __slots__ = ("_looking_for", "_looks", "is_watched", "retry_policy")

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig) -> None:
        super().__init__(runtime, config)
        self._looking_for: list[Awaited] = []
        """What the question that is under way is to tell of."""

        self._looks = 0
        """How often was looked for what is waited for."""

        self.retry_policy = RetryPolicy.of(config)
        self.is_watched = False

    def tick(self, now_ms: int) -> bool:
        """Let records wait no longer that have waited for too long; return whether some still wait."""
        if self.parking:
            with self.lock:
                overdue = self.parking.overdue(now_ms)
            for awaited, records in overdue.items():
                self._fail_parked(awaited, records, self._never_found(records[0]))
        return bool(self.parking)

    def _take_parked(self) -> None:
        deadline_ms = self._runtime.now_ms() + self._config.max_block_ms
        with self.lock:
            for record in self.parking.records():
                if record.deadline_ms is None:
                    record.deadline_ms = deadline_ms
        if not self.is_watched:
            self._runtime.watch(self)
        if not self._looking_for:
            self._looks = 0
            self._look()

    def _look(self) -> None:
        with self.lock:
            self._looking_for = self.parking.awaited()
        if self._looking_for:
            self._runtime.view.refresh(self._on_news)

    def _on_news(self) -> None:
        """Let those go whose topic is there; a topic may still come, but the partitions of one are what they are."""
        for awaited in self._looking_for:
            if not isinstance(awaited, str) or awaited in self._view.partitions:
                self._unpark(awaited)
        if self._handed:
            self._wake()
        self._runtime.later(self.retry_policy.pause_ms(self._looks), self._look)
        self._looks += 1

    def _unpark(self, awaited: Awaited) -> None:
        while (record := self.parking.first(awaited)) is not None:
            try:
                name = self._name_of(record)
            except Exception as error:  # noqa: BLE001 - what a partitioner of the application raises, too
                # What has no such partition has none for the others either; a partitioner may place the next one.
                failed = [record] if isinstance(awaited, str) else list(self.parking.waiting[awaited])
                self._fail_parked(awaited, failed, error)
                continue
            with self.lock:
                fields = (record.value, record.key, record.delivery.timestamp, record.headers, record.size_bytes)
                record.placed(*self.add(name, *fields))
                self.parking.remove(record)
                self.unresolved -= 1

    def _name_of(self, record: ParkedRecord) -> TopicPartition:
        topic, partition = record.topic, record.partition
        partitions = self._view.partitions.get(topic, ())
        if partition is None:
            partition = self.choose(topic, record.value, record.key, len(partitions))
        if partition is None:
            with self.lock:
                partition = self._stick(topic, len(partitions), record.size_bytes)
        if partition >= len(partitions):
            raise TopicNotFound(f"topic {topic!r} has no partition {partition}; it has {len(partitions)}.")
        return partitions[partition]

    def _fail_parked(self, awaited: Awaited, records: list[ParkedRecord], error: Exception) -> None:
        with self.lock:
            failed = [record for record in records if self.parking.remove(record)]
        if failed and self.guarantee.is_transactional:
            self.guarantee.send_failed(error)
        unseen = sum(not record.is_looked_at for record in failed)
        if unseen:
            logger.warning("%s not delivered: %s", records_for(unseen, awaited), error)
        for record in failed:
            self._end(record, record.size_bytes, error)

    def _never_found(self, record: ParkedRecord) -> EaglerayError:
        max_block_ms = self._config.max_block_ms
        if not self._view.image.nodes:
            return NotConnected(f"no node has been heard of within {max_block_ms} ms.")
        return TopicNotFound(f"there is no topic {record.topic!r} after {max_block_ms} ms.")

    def _end(self, ended: Ending, size_bytes: int, error: Exception | None) -> None:
        raise NotImplementedError
