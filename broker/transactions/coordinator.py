"""The transaction coordinator: what it decides, for the partitions of the transaction log that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eagleray.broker.runtime.connection_bindings import ConnectionClosed
from eagleray.broker.runtime.coordinator_events import TimeSet
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.shard_lifecycle import ShardLifecycle
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.descriptions import DescribeTransaction, ListTransactions
from eagleray.broker.transactions.events import (
    Effect,
    Event,
    HoldLimitsKnown,
    LastDecision,
    MarkersForgotten,
    MarkersWritten,
    ProducerIdsReceived,
)
from eagleray.broker.transactions.holding import Held
from eagleray.broker.transactions.housekeeping import TransactionHousekeeping
from eagleray.broker.transactions.queries import QueryServer
from eagleray.broker.transactions.requests import TransactionRequestServer
from eagleray.broker.transactions.resolver_events import ResolverAnswered
from eagleray.broker.transactions.resolving import OutcomeQueries
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.stamps import as_loaded
from eagleray.broker.transactions.table import Transaction, TransactionShard
from eagleray.protocol.errors import ErrorCode


class TransactionCoordinator:
    """Decides over the transactions of the transactional ids that hash to its partitions of the transaction log.

    Owns: for each of its partitions, what replaying that partition gives. Persists: nothing itself; the changes of a
    turn are `AppendRecords`. A change takes effect when it is decided; what is said because of it, or from what it
    has changed, waits for `Committed` (see `CoordinatorRuntime`).
    A request that fails unexpectedly is answered UNKNOWN_SERVER_ERROR and has changed nothing: the state of its
    partition is thrown away, and loaded again (`ReloadPartition`).
    On failure: where the log says beforehand, by `check_append`, that it takes nothing, requests are answered with that
    and nothing has changed. Where it fails all the same (`AppendFailed`), and where another coordinator takes over, the
    state of the partition is thrown away, and the clients that waited for it are told to try again.
    After a restart: the loaded log is the state, and the markers of decided transactions are sent again.

    A request that meets markers under way is held until they are written, or answered CONCURRENT_TRANSACTIONS when
    `request_hold_ms` have passed; one for which there is no producer id is answered COORDINATOR_LOAD_IN_PROGRESS by
    then. A request that waits does not outlive the connection by which a client has sent it. A `Tick` that comes later
    than `next_due_ms` lets them wait longer. An answer that waits for the log waits as long as the log takes.
    The times that come with events are of a clock that is never set (see `stamps`).
    """

    def __init__(self, config: CoordinatorConfig, check_append: Callable[[int, int], ErrorCode]) -> None:
        self._config = config
        self._context = CoordinatorContext(config, check_append)
        self._table = self._context.table
        self._completion = TransactionCompletion(self._context)
        self._requests = TransactionRequestServer(self._context, self._completion)
        self._queries = QueryServer(self._context, self._completion)
        self._housekeeping = TransactionHousekeeping(self._context, self._completion)
        self._outcomes = OutcomeQueries(self._context, self._completion)
        self._lifecycle = ShardLifecycle(self._context.runtime, self._context.new_shard, self._loaded, self._closed)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            MarkersWritten: self._on_markers_written,
            MarkersForgotten: self._on_markers_forgotten,
            ProducerIdsReceived: self._on_producer_ids,
            HoldLimitsKnown: self._on_hold_limits,
            ResolverAnswered: self._outcomes.answered,
            ConnectionClosed: self._on_connection_closed,
            Tick: self._on_tick,
            TimeSet: self._on_time_set,
            DescribeTransaction: self._queries.describe,
            ListTransactions: self._queries.list,
            LastDecision: self._queries.last_decision,
            **self._lifecycle.handlers,
        }

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what it makes necessary, in order."""
        return self.handle_all((event,), now_ms)

    def handle_all(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        """Take the events of a turn, one after the other, and return what they make necessary, in order."""
        requests, handlers = self._requests.handlers, self._handlers
        deadline_ms = now_ms + self._config.request_hold_ms
        for event in events:
            kind = type(event)
            try:
                if kind in requests:
                    requests[kind](event, deadline_ms, now_ms)
                else:
                    handlers[kind](event, now_ms)
            except Exception as error:  # noqa: BLE001 - the log has nothing of it yet, and the state is taken from there
                self._fail(event, error, now_ms)
            if self._context.freed:
                self._release_freed(now_ms)
        return self._context.end_turn()

    def _serve_again(self, held: Held, now_ms: int) -> None:
        """Take a request that has waited."""
        try:
            self._requests.serve_again(held.request, held.deadline_ms, now_ms)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(held.request, error, now_ms)

    def _fail(self, event: Event, error: Exception, now_ms: int) -> None:
        """Let one request fail, or what is about one transactional id; raise the error where it is about more."""
        name = getattr(event, "transactional_id", None)
        if name is None and not hasattr(event, "request_id"):
            raise error
        self._lifecycle.failed(event, error, () if name is None else (self._table.partition_of(name),), now_ms)

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens; now or earlier means as soon as others were served."""
        return min(self._completion.next_due_ms, self._housekeeping.next_due_ms, self._outcomes.next_due_ms)

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

    # Markers

    def _on_markers_written(self, event: MarkersWritten, now_ms: int) -> None:
        self._completion.markers_written(event, now_ms)

    def _on_markers_forgotten(self, event: MarkersForgotten, now_ms: int) -> None:  # noqa: ARG002 - as above
        self._completion.send_markers_again()

    def _release_freed(self, now_ms: int) -> None:
        freed = self._context.freed
        while freed:
            self._release(freed.pop(0), now_ms)

    def _release(self, transactional_id: str, now_ms: int) -> None:
        """Let held requests try again, in the order in which they came, now that the last transaction has ended."""
        for held in self._context.held.take_all(transactional_id):
            if held.deadline_ms <= now_ms:
                self._context.reply(held.request, ErrorCode.CONCURRENT_TRANSACTIONS)
            else:
                self._serve_again(held, now_ms)

    # Partitions of the transaction log

    def _loaded(self, shard: TransactionShard, transactions: dict[str, Snapshot], now_ms: int) -> None:
        for transactional_id, logged in transactions.items():
            snapshot = as_loaded(logged, self._context.time_set_by_ms, now_ms)
            transaction = self._table.add(transactional_id, shard, snapshot)
            if snapshot.can_time_out:
                self._context.has_ongoing = True
                self._context.hold_limits.watch(transaction)
            elif snapshot.is_decided:
                self._completion.send_markers(transaction, now_ms)
            elif snapshot.resolver is not None:
                self._context.questions.watch(transaction)

    def _closed(self, shard: TransactionShard, error_code: ErrorCode, now_ms: int) -> None:  # noqa: ARG002 - as above
        for transactional_id in shard.transactions:
            self._completion.forget(transactional_id)
            self._outcomes.forget(transactional_id)
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
            self._serve_again(held, now_ms)

    # Limits of topics

    def _on_hold_limits(self, event: HoldLimitsKnown, now_ms: int) -> None:  # noqa: ARG002 - they count from the start
        shards = self._context.runtime.shards.values()
        self._context.hold_limits.change(
            event.limits_ms, (transaction for shard in shards for transaction in shard.ongoing.values())
        )

    # Clients

    def _on_connection_closed(self, event: ConnectionClosed, now_ms: int) -> None:  # noqa: ARG002 - as above
        self._context.connection_closed(event.connection)

    # Time

    def _on_time_set(self, event: TimeSet, now_ms: int) -> None:  # noqa: ARG002 - nothing is due sooner or later by it
        self._context.time_set_by_ms = event.by_ms

    def _on_tick(self, event: Tick, now_ms: int) -> None:
        self._completion.log_ends(now_ms)
        self._outcomes.tick(now_ms)
        self._housekeeping.tick(now_ms, may_expire=event.may_expire)
