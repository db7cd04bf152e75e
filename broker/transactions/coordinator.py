"""The transaction coordinator: what it decides, for the partitions of the transaction log that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eagleray.broker.identities import NO_EPOCH, ProducerIdentity
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branching import ENDED_BRANCH_EPOCH, Branching
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import (
    BranchMarkers,
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
    SendMarkers,
    Tick,
    TransitionLost,
    TransitionsLogged,
)
from eagleray.broker.transactions.housekeeping import TransactionHousekeeping
from eagleray.broker.transactions.queries import QueryServer
from eagleray.broker.transactions.requests import TransactionRequestServer
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import NO_DECISION, Transaction, TransactionShard
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT


class TransactionCoordinator:
    """Decides over the transactions of the transactional ids that hash to its partitions of the transaction log.

    Owns: for each of its partitions, what replaying that partition gives. Persists: nothing itself; every change is a
    `LogTransition`, and takes effect, is answered and has consequences only when `TransitionsLogged` comes back.
    On failure (`TransitionLost`): the transaction is as before, and the clients that waited for it are told to try
    again.
    After a restart: the loaded log is the state, and the markers of decided transactions are sent again.

    Waiting is bounded: a request that meets a transition or markers under way is held until that is over, or answered
    CONCURRENT_TRANSACTIONS when `request_hold_ms` have passed; one for which there is no producer id is answered
    COORDINATOR_LOAD_IN_PROGRESS by then. A `Tick` that comes later than `next_due_ms` lets them wait longer.
    """

    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config
        self._context = CoordinatorContext(config)
        self._table = self._context.table
        self._requests = TransactionRequestServer(self._context)
        self._queries = QueryServer(self._context)
        self._housekeeping = TransactionHousekeeping(self._context)
        self._decisions = 0
        self._ahead: Deadlines[str] = Deadlines()
        """Those that are finished, and by when the log is told of it, unless by what follows."""
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            TransitionsLogged: self._on_logged,
            TransitionLost: self._on_lost,
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
        return self._context.drain()

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens; now or earlier means as soon as others were served."""
        return min(self._ahead.next_due_ms, self._housekeeping.next_due_ms)

    def find(self, transactional_id: str) -> Transaction | ErrorCode:
        """Return what is known of a transactional id, for those who look into it, or why nothing is."""
        return self._queries.find(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        """Go over everything that is known here."""
        return (transaction for transaction in self._table if transaction.current.producer_epoch != NO_EPOCH)

    @property
    def is_loading(self) -> bool:
        """Whether some partition is still being loaded, so that a list would lack its transactions."""
        return self._queries.is_loading

    # The log's answers, and what follows from them

    def _on_logged(self, event: TransitionsLogged, now_ms: int) -> None:
        coordinator_epoch = event.coordinator_epoch
        for transactional_id in event.transactional_ids:
            self._logged(transactional_id, coordinator_epoch, now_ms)

    def _logged(self, transactional_id: str, coordinator_epoch: int, now_ms: int) -> None:
        transaction = self._find_pending(transactional_id, coordinator_epoch)
        if transaction is None:
            return
        request = transaction.request
        current = transaction.complete()
        if request is not None:
            self._context.confirm(request, current)
        if current.state is _ONGOING:
            transaction.shard.ongoing[transactional_id] = transaction
            self._housekeeping.begun()
        elif current.is_decided:
            transaction.shard.ongoing.pop(transactional_id, None)
            self._send_markers(transaction, now_ms)
        elif current.state is TransactionState.DEAD:
            self._table.remove(transaction)
        if transactional_id in self._context.held:
            self._release(transactional_id, now_ms)

    def _on_lost(self, event: TransitionLost, now_ms: int) -> None:
        transaction = self._find_pending(event.transactional_id, event.coordinator_epoch)
        if transaction is None:
            return
        is_note = transaction.pending is transaction.current
        if not is_note:
            self._answer_all(transaction, event.error_code)
        transaction.abandon()
        if transaction.is_ahead:
            self._log_end_later(transaction)
        if is_note:
            # Requests that waited for the end to be in the log go on: what they want does not rest on that.
            self._release(event.transactional_id, now_ms)
        if transaction.current.producer_epoch == NO_EPOCH:
            self._table.remove(transaction)

    def _find_pending(self, transactional_id: str, coordinator_epoch: int) -> Transaction | None:
        """Return the transaction that an answer of the log is about, unless it comes from before a change of epoch."""
        transaction = self._table.find(transactional_id)
        if transaction is None or transaction.pending is None:
            return None
        return transaction if transaction.shard.coordinator_epoch == coordinator_epoch else None

    def _release(self, transactional_id: str, now_ms: int) -> None:
        """Let held requests try again, in the order in which they came, now that something has changed."""
        waiting = self._context.held.take_all(transactional_id)
        for held in waiting:
            if held.deadline_ms <= now_ms:
                self._context.reply(held.request, ErrorCode.CONCURRENT_TRANSACTIONS)
        self._requests.serve_again(transactional_id, [held for held in waiting if held.deadline_ms > now_ms], now_ms)

    def _answer_all(self, transaction: Transaction, error_code: ErrorCode) -> None:
        """Send back all clients that wait for a transactional id."""
        if transaction.pending is not None and transaction.request is not None:
            self._context.refuse(transaction.request, error_code)
        for held in self._context.held.take_all(transaction.transactional_id):
            self._context.reply(held.request, error_code)

    # Markers

    def _send_markers(self, transaction: Transaction, now_ms: int) -> None:
        """Have the markers of a decided transaction written, where it has any."""
        current = transaction.current
        if current.partitions or current.has_branch_partitions:
            self._decisions += 1
            transaction.decision = self._decisions
            self._ask_for_markers(transaction)
        else:
            self._finish(transaction, now_ms)

    def _ask_for_markers(self, transaction: Transaction) -> None:
        current, shard = transaction.current, transaction.shard
        self._context.emit(
            SendMarkers(
                transaction.transactional_id,
                shard.log_partition,
                shard.coordinator_epoch,
                transaction.decision,
                ProducerIdentity(current.producer_id, current.producer_epoch),
                current.state is _PREPARE_COMMIT,
                current.partitions,
                current.client_version,
                () if current.branching is None else _branch_markers(current.branching),
            )
        )

    def _on_markers_written(self, event: MarkersWritten, now_ms: int) -> None:
        transaction = self._table.find(event.transactional_id)
        if (
            transaction is not None
            and transaction.decision == event.decision
            and transaction.shard.coordinator_epoch == event.coordinator_epoch
        ):
            self._finish(transaction, now_ms)
            if transaction.pending is None and event.transactional_id in self._context.held:
                self._release(event.transactional_id, now_ms)

    def _finish(self, transaction: Transaction, now_ms: int) -> None:
        """Let the next transaction begin; its record tells the log of the end of this one, unless it is long in coming.

        The log has the decision, from which a recovery gets to the same end: it has the markers written again, and no
        record of a later transaction can be there before the log has heard of that.
        """
        transaction.finish(transitions.completed(transaction.current, now_ms))
        if self._config.transaction_completion_log_delay_ms:
            self._log_end_later(transaction)
        else:
            self._context.log(transaction, transaction.current)

    def _log_ends(self, now_ms: int) -> None:
        """Tell the log of the ends of transactions that no other has followed for a while."""
        for transactional_id in self._ahead.take_due(now_ms):
            transaction = self._table.find(transactional_id)
            if transaction is not None and not _is_followed(transaction):
                self._context.log(transaction, transaction.current)

    def _log_end_later(self, transaction: Transaction) -> None:
        delay_ms = self._config.transaction_completion_log_delay_ms
        self._ahead.set(transaction.transactional_id, transaction.current.updated_ms + delay_ms)

    def _on_markers_forgotten(self, event: MarkersForgotten, now_ms: int) -> None:  # noqa: ARG002 - as above
        for transaction in self._table:
            if transaction.decision != NO_DECISION:
                self._ask_for_markers(transaction)

    # Partitions of the transaction log

    def _on_assigned(self, event: PartitionAssigned, now_ms: int) -> None:  # noqa: ARG002 - as above
        known = self._table.shards.get(event.log_partition)
        if known is None or known.coordinator_epoch < event.coordinator_epoch:
            if known is not None:
                self._close(known)
            self._table.open_shard(event.log_partition, event.coordinator_epoch)

    def _on_loaded(self, event: PartitionLoaded, now_ms: int) -> None:
        shard = self._table.shards.get(event.log_partition)
        if shard is None or shard.coordinator_epoch != event.coordinator_epoch or shard.is_loaded:
            return
        shard.is_loaded = True
        for transactional_id, snapshot in event.transactions.items():
            transaction = self._table.add(transactional_id, shard, snapshot)
            if snapshot.state is _ONGOING:
                self._housekeeping.begun()
            if snapshot.is_decided:
                self._send_markers(transaction, now_ms)

    def _on_resigned(self, event: PartitionResigned, now_ms: int) -> None:  # noqa: ARG002 - as above
        shard = self._table.shards.get(event.log_partition)
        if shard is not None and shard.coordinator_epoch <= event.coordinator_epoch:
            self._close(shard)

    def _close(self, shard: TransactionShard) -> None:
        """Forget a partition that is no longer led here, and tell all clients that wait on it."""
        for transactional_id, transaction in shard.transactions.items():
            self._ahead.cancel(transactional_id)
            self._answer_all(transaction, ErrorCode.NOT_COORDINATOR)
        for held in self._context.waiting_for_ids.take_all():
            name = held.request.transactional_id
            if name is not None and self._table.partition_of(name) == shard.log_partition:
                self._context.reply(held.request, ErrorCode.NOT_COORDINATOR)
            else:
                self._context.waiting_for_ids.add(held.request, held.deadline_ms)
        self._table.close_shard(shard)

    # Producer ids

    def _on_producer_ids(self, event: ProducerIdsReceived, now_ms: int) -> None:
        self._context.producer_ids.add(event.first_id, event.count)
        for held in self._context.waiting_for_ids.take_all():
            self._requests.serve(held.request, held.deadline_ms, now_ms)

    # Time

    def _on_tick(self, event: Tick, now_ms: int) -> None:  # noqa: ARG002 - it says no more than that time has passed
        self._log_ends(now_ms)
        self._housekeeping.tick(now_ms)


def _is_followed(transaction: Transaction) -> bool:
    """Whether the log has heard of the end of a transaction, or is about to, by what came after it."""
    return transaction.pending is not None or not transaction.is_ahead


def _branch_markers(branching: Branching) -> tuple[BranchMarkers, ...]:
    """The markers of a decided transaction's branches; one without records needs none."""
    return tuple(
        BranchMarkers(ProducerIdentity(producer_id, ENDED_BRANCH_EPOCH), branch.is_committed, branch.partitions)
        for producer_id, branch in branching.branches.items()
        if branch.partitions
    )
