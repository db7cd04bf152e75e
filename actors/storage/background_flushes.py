"""Flushes that no client waits for, in a thread of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from eagleray.broker.filesystem import FlushFailed
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogError, PartitionLog
from eagleray.broker.log.flushing import BackgroundFlush

if TYPE_CHECKING:
    import asyncio

    from eagleray.actors.storage.context import StorageContext
    from eagleray.actors.storage.replica_manager import ReplicaManager

MOST_AT_ONCE: Final = 64
"""How many logs are flushed before what has come of it is noted."""


class Flushing(NamedTuple):
    """A flush of a log that is under way."""

    partition: TopicPartition
    log: PartitionLog
    flush: BackgroundFlush


_Flushed: TypeAlias = tuple[Flushing, FlushFailed | None]


class BackgroundFlushes:
    """Flushes the logs of a node that are due, off the loop, one after the other.

    Owns: the thread. At most one batch of flushes is under way; what is due meanwhile waits for the next. A flush that
    fails takes its log offline, and the node's incarnation ends. One whose log was closed meanwhile is forgotten.
    """

    def __init__(self, context: StorageContext, replicas: ReplicaManager) -> None:
        self._context = context
        self._replicas = replicas
        self.since_ms: int | None = None
        """Since when a batch is under way, by the steady clock; None where none is."""

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="flush")

    def start_due(self, steady_ms: int) -> None:
        """Start flushing what is due, unless the last batch is under way."""
        if self.is_running:
            return
        begun = self._replicas.logs.begin_flushes(steady_ms, MOST_AT_ONCE)
        if begun:
            self.since_ms = self._context.steady_ms()
            self._context.loop.run_in_executor(self._executor, _run_all, begun).add_done_callback(self._done)

    def _done(self, future: asyncio.Future[list[_Flushed]]) -> None:
        self.since_ms = None
        if future.cancelled():
            return
        for flushing, error in future.result():
            try:
                self._replicas.logs.finish_flush(flushing, error)
            except LogError:
                self._replicas.failed(flushing.partition)
        self._replicas.chores.logs_are_due(self._replicas.logs.next_due_ms)

    @property
    def is_running(self) -> bool:
        """Whether a batch is under way, which looks at what is due when it is done."""
        return self.since_ms is not None


def _run_all(begun: list[Flushing]) -> list[_Flushed]:
    return [(each, each.flush.run()) for each in begun]
