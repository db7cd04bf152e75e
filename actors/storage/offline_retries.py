"""Trying again, off the loop, to open the logs that are offline."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING

from eagleray.actors.storage.disk import PartitionLocked
from eagleray.actors.storage.log_opening import LogOpening
from eagleray.actors.storage.offline_logs import OfflineLogs
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged, LogError, PartitionLog

if TYPE_CHECKING:
    import asyncio

    from eagleray.actors.storage.context import StorageContext
    from eagleray.actors.storage.replica_manager import ReplicaManager


class OfflineRetries:
    """Opens damaged logs again, in a thread: each may be read from its beginning to where it is damaged.

    Owns: the thread. While it has a log, nothing else opens that. A log that can be opened is served from then on.
    """

    def __init__(self, context: StorageContext, replicas: ReplicaManager, offline: OfflineLogs) -> None:
        self._context = context
        self._replicas = replicas
        self._offline = offline

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="open-offline")

    def retry_due(self, steady_ms: int) -> None:
        """Try those that have waited for long enough."""
        for partition in self._offline.take_due(steady_ms):
            try:
                opening = self._replicas.begin_opening(partition)
            except (PartitionLocked, LogError, OSError) as error:
                self._offline.disk_failed(partition, str(error), steady_ms)
                continue
            self._offline.being_opened.add(partition)
            future = self._context.loop.run_in_executor(self._executor, opening.run)
            future.add_done_callback(partial(self._done, opening))

    def _done(self, opening: LogOpening, future: asyncio.Future[PartitionLog]) -> None:
        self._offline.being_opened.discard(opening.partition)
        if not future.cancelled():
            error = future.exception()
            if error is None:
                self._opened(opening, future.result())
            else:
                self._failed(opening.partition, error)

    def _opened(self, opening: LogOpening, log: PartitionLog) -> None:
        partition = opening.partition
        if partition not in self._offline:
            # The node keeps it no longer.
            opening.give_up(log)
            return
        self._offline.forget(partition)
        if self._context.image.topics[partition.topic].topic_id == opening.surroundings.topic_id:
            self._replicas.logs.adopt(opening, log)
        else:
            # It is that of a topic that was deleted meanwhile, and another has its name.
            opening.give_up(log)
        if self._context.is_registered:
            self._replicas.open(partition)

    def _failed(self, partition: TopicPartition, error: BaseException) -> None:
        if partition not in self._offline:
            return
        if isinstance(error, LogDamaged):
            self._replicas.damaged(partition, error)
        elif isinstance(error, LogError | OSError):
            self._offline.disk_failed(partition, str(error), self._context.steady_ms())
        else:
            self._context.fail(error)
