"""How the shards of a coordinator come and go: assigned, loaded, resigned, and loaded again after a failed append."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from eagleray.broker.runtime.coordinator_events import (
    AppendFailed,
    Committed,
    PartitionAssigned,
    PartitionLoaded,
    PartitionResigned,
)
from eagleray.broker.runtime.coordinator_runtime import CoordinatorRuntime, ShardType
from eagleray.broker.runtime.failures import ReloadPartition, RequestFailed, failed_answer
from eagleray.protocol.errors import ErrorCode


class ShardLifecycle(Generic[ShardType]):
    """Takes what a coordinator is told of its partitions and their logs, by the same rules for every coordinator.

    `loaded` makes what a shard's log has come to the state of the shard. `closed` forgets that, and tells all clients
    that wait for something else than the log the code with which to try again.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[ShardType, Any, Any, Any],
        new_shard: Callable[[int, int], ShardType],
        loaded: Callable[[ShardType, Any, int], None],
        closed: Callable[[ShardType, ErrorCode, int], None],
    ) -> None:
        self._runtime = runtime
        self._new_shard = new_shard
        self._loaded = loaded
        self._closed = closed
        self.handlers: dict[type, Callable[[Any, int], None]] = {
            PartitionAssigned: self._on_assigned,
            PartitionLoaded: self._on_loaded,
            PartitionResigned: self._on_resigned,
            Committed: self._on_committed,
            AppendFailed: self._on_append_failed,
        }

    def _on_assigned(self, event: PartitionAssigned, now_ms: int) -> None:
        known = self._runtime.shards.get(event.log_partition)
        if known is None or known.epoch < event.coordinator_epoch:
            if known is not None:
                self._close(known, ErrorCode.NOT_COORDINATOR, now_ms)
            self._runtime.open(self._new_shard(event.log_partition, event.coordinator_epoch))

    def _on_loaded(self, event: PartitionLoaded, now_ms: int) -> None:
        shard = self._runtime.find(event.log_partition, event.coordinator_epoch)
        if shard is not None and not shard.is_loaded:
            shard.is_loaded = True
            self._loaded(shard, event.state, now_ms)

    def _on_resigned(self, event: PartitionResigned, now_ms: int) -> None:
        shard = self._runtime.shards.get(event.log_partition)
        if shard is not None and shard.epoch <= event.coordinator_epoch:
            self._close(shard, ErrorCode.NOT_COORDINATOR, now_ms)

    def _on_committed(self, event: Committed, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        shard = self._runtime.find(event.log_partition, event.coordinator_epoch)
        if shard is not None:
            self._runtime.committed(shard, event.position)

    def _on_append_failed(self, event: AppendFailed, now_ms: int) -> None:
        shard = self._runtime.find(event.log_partition, event.coordinator_epoch)
        if shard is not None:
            self._close(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
            self._runtime.open(self._new_shard(event.log_partition, event.coordinator_epoch))

    def failed(self, request: Any, error: Exception, partitions: Iterable[int], now_ms: int) -> None:  # noqa: ANN401
        """Answer a request that has failed unexpectedly, and leave the state as if it had never come.

        The partitions that it may have changed are thrown away with what this turn was to append, and loaded again: the
        log has nothing of the request. Others who wait for these partitions are told to try again.
        """
        runtime = self._runtime
        for number in partitions:
            shard = runtime.shards.get(number)
            if shard is not None and shard.is_loaded:
                self._close(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
                runtime.open(self._new_shard(number, shard.epoch))
                runtime.say_at_once(ReloadPartition(number, shard.epoch))
        request_id = getattr(request, "request_id", None)
        if request_id is not None:
            runtime.unsay(request_id)
            runtime.say_at_once(failed_answer(request))
        runtime.say_at_once(RequestFailed(request, error))

    def _close(self, shard: ShardType, error_code: ErrorCode, now_ms: int) -> None:
        self._runtime.close(shard, error_code)
        self._closed(shard, error_code, now_ms)
