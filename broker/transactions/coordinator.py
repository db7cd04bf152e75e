"""The transaction coordinator: what it decides, for the partitions of the transaction log that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import (
    AppendFailed,
    Committed,
    DescribeTransaction,
    Effect,
    Event,
    ListTransactions,
    MarkersForgotten,
    MarkersWritten,
    PartitionAssigned,
    PartitionLoaded,
    PartitionResigned,
    ProducerIdsReceived,
    Tick,
)
from eagleray.broker.transactions.housekeeping import TransactionHousekeeping
from eagleray.broker.transactions.queries import QueryServer
from eagleray.broker.transactions.requests import TransactionRequestServer
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction, TransactionShard
from eagleray.protocol.errors import ErrorCode


def may_always_append(log_partition: int, coordinator_epoch: int) -> ErrorCode:  # noqa: ARG001 - as all of its kind
    """The log of a coordinator that never refuses."""
    return ErrorCode.NONE


class TransactionCoordinator:
    """Decides over the transactions of the transactional ids that hash to its partitions of the transaction log.

    Owns: for each of its partitions, what replaying that partition gives. Persists: nothing itself; the changes of a
    turn are `AppendTransitions`. A change takes effect when it is decided; what is said because of it, or from what it
    has changed, waits for `Committed` (see `CoordinatorRuntime`).
    On failure: where the log says beforehand, by `check_append`, that it takes nothing, requests are answered with that
    and nothing has changed. Where it fails all the same (`AppendFailed`), and where another coordinator takes over, the
    state of the partition is thrown away, and the clients that waited for it are told to try again.
    After a restart: the loaded log is the state, and the markers of decided transactions are sent again.

    A request that meets markers under way is held until they are written, or answered CONCURRENT_TRANSACTIONS when
    `request_hold_ms` have passed; one for which there is no producer id is answered COORDINATOR_LOAD_IN_PROGRESS by
    then. A `Tick` that comes later than `next_due_ms` lets them wait longer. An answer that waits for the log waits as
    long as the log takes.
    """

    def __init__(
        self, config: CoordinatorConfig, check_append: Callable[[int, int], ErrorCode] = may_always_append
    ) -> None:
        self._config = config
        self._context = CoordinatorContext(config, check_append)
        self._runtime = self._context.runtime
        self._table = self._context.table
        self._completion = TransactionCompletion(self._context)
        self._requests = TransactionRequestServer(self._context, self._completion)
        self._queries = QueryServer(self._context)
        self._housekeeping = TransactionHousekeeping(self._context, self._completion)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            Committed: self._on_committed,
            AppendFailed: self._on_append_failed,
            MarkersWritten: self._on_markers_written,
            MarkersForgotten: self._on_markers_forgotten,
            ProducerIdsReceived: self._on_producer_ids,
            PartitionAssigned: self._on_assigned,
            PartitionLoaded: self._on_loaded,
            PartitionResigned: self._on_resigned,
            Tick: self._on_tick,
            DescribeTransaction: self._queries.describe,
            ListTransactions: self._queries.list,
        }

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what it makes necessary, in order."""
        return self.handle_all((event,), now_ms)

    def handle_all(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        """Take the events of a turn, one after the other, and return what they make necessary, in order."""
        serve, handlers = self._requests.handlers.get, self._handlers
        deadline_ms = now_ms + self._config.request_hold_ms
        for event in events:
            kind = type(event)
            of_request = serve(kind)
            if of_request is None:
                handlers[kind](event, now_ms)
            else:
                of_request(event, deadline_ms, now_ms)
        return self._context.end_turn()

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens; now or earlier means as soon as others were served."""
        return min(self._completion.next_due_ms, self._housekeeping.next_due_ms)

    def find(self, transactional_id: str) -> Transaction | ErrorCode:
        """Return what is known of a transactional id, for those who look into it, or why nothing is."""
        return self._queries.find(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        """Go over everything that is known here."""
        return iter(self._table)

    @property
    def is_loading(self) -> bool:
        """Whether some partition is still being loaded, so that a list would lack its transactions."""
        return self._queries.is_loading

    # The log's answers

    def _on_committed(self, event: Committed, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        shard = self._runtime.find(event.log_partition, event.coordinator_epoch)
        if shard is not None:
            self._runtime.committed(shard, event.position)

    def _on_append_failed(self, event: AppendFailed, now_ms: int) -> None:  # noqa: ARG002 - as above
        shard = self._runtime.find(event.log_partition, event.coordinator_epoch)
        if shard is not None:
            self._close(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._runtime.open(TransactionShard(event.log_partition, event.coordinator_epoch))

    # Markers

    def _on_markers_written(self, event: MarkersWritten, now_ms: int) -> None:
        if self._completion.markers_written(event, now_ms) and event.transactional_id in self._context.held:
            self._release(event.transactional_id, now_ms)

    def _on_markers_forgotten(self, event: MarkersForgotten, now_ms: int) -> None:  # noqa: ARG002 - as above
        self._completion.send_markers_again()

    def _release(self, transactional_id: str, now_ms: int) -> None:
        """Let held requests try again, in the order in which they came, now that the markers are written."""
        for held in self._context.held.take_all(transactional_id):
            if held.deadline_ms <= now_ms:
                self._context.reply(held.request, ErrorCode.CONCURRENT_TRANSACTIONS)
            else:
                self._requests.serve(held.request, held.deadline_ms, now_ms)

    # Partitions of the transaction log

    def _on_assigned(self, event: PartitionAssigned, now_ms: int) -> None:  # noqa: ARG002 - as above
        known = self._runtime.shards.get(event.log_partition)
        if known is None or known.epoch < event.coordinator_epoch:
            if known is not None:
                self._close(known, ErrorCode.NOT_COORDINATOR)
            self._runtime.open(TransactionShard(event.log_partition, event.coordinator_epoch))

    def _on_loaded(self, event: PartitionLoaded, now_ms: int) -> None:
        shard = self._runtime.find(event.log_partition, event.coordinator_epoch)
        if shard is None or shard.is_loaded:
            return
        shard.is_loaded = True
        for transactional_id, snapshot in event.transactions.items():
            transaction = self._table.add(transactional_id, shard, snapshot)
            if snapshot.state is TransactionState.ONGOING:
                self._context.has_ongoing = True
            elif snapshot.is_decided:
                self._completion.send_markers(transaction, now_ms)

    def _on_resigned(self, event: PartitionResigned, now_ms: int) -> None:  # noqa: ARG002 - as above
        shard = self._runtime.shards.get(event.log_partition)
        if shard is not None and shard.epoch <= event.coordinator_epoch:
            self._close(shard, ErrorCode.NOT_COORDINATOR)

    def _close(self, shard: TransactionShard, error_code: ErrorCode) -> None:
        """Throw away what is known of a partition, and tell all clients that wait on it to try again."""
        self._runtime.close(shard, error_code)
        for transactional_id in shard.transactions:
            self._completion.forget(transactional_id)
            for held in self._context.held.take_all(transactional_id):
                self._context.reply(held.request, error_code)
        for held in self._context.waiting_for_ids.take_all():
            name = held.request.transactional_id
            if name is not None and self._table.partition_of(name) == shard.partition:
                self._context.reply(held.request, error_code)
            else:
                self._context.waiting_for_ids.add(held.request, held.deadline_ms)
        self._table.remove_all(shard)

    # Producer ids

    def _on_producer_ids(self, event: ProducerIdsReceived, now_ms: int) -> None:
        self._context.producer_ids.add(event.first_id, event.count)
        for held in self._context.waiting_for_ids.take_all():
            self._requests.serve(held.request, held.deadline_ms, now_ms)

    # Time

    def _on_tick(self, event: Tick, now_ms: int) -> None:  # noqa: ARG002 - it says no more than that time has passed
        self._completion.log_ends(now_ms)
        self._housekeeping.tick(now_ms)
