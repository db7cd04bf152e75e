"""How decided transactions come to their end: the decision, its markers, and what the log hears of the end."""

from __future__ import annotations

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches.branching import ENDED_BRANCH_EPOCH, Branching
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import BranchMarkers, MarkersWritten, Request, SendMarkers
from eagleray.broker.transactions.pools.pool import Pool
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import NO_DECISION, Transaction

_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT


class TransactionCompletion:
    """Has decisions logged and their markers written, and lets the next transaction begin when all of them are."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._decisions = 0
        self._delay_ms = context.config.transaction_completion_log_delay_ms
        self._ahead: Deadlines[str] = Deadlines()
        """The transactions that are finished, and by when the log is told of it, unless by what follows."""

    def decide(self, transaction: Transaction, decision: Snapshot, request: Request | None = None) -> bool:
        """Log a decision and have its markers written; False where the log refuses, and nothing has changed."""
        if not self._context.log(transaction, decision, request):
            return False
        transaction.shard.ongoing.pop(transaction.transactional_id, None)
        if decision.preparation is not None:
            self._context.questions.forget(transaction.transactional_id)
        transaction.why_ended = None
        self.send_markers(transaction, decision.updated_ms)
        return True

    # Markers

    def last_finished(self, transaction: Transaction | None) -> int:
        """Say up to which number the decisions about a transactional id, if there is one, are over.

        The numbers ascend for all ids together, and what is not under way is over. So this holds as well for an id that
        was forgotten, or read from the log again at the same epoch.
        """
        if transaction is None or transaction.decision == NO_DECISION:
            return self._decisions
        return transaction.decision - 1

    def send_markers(self, transaction: Transaction, now_ms: int) -> None:
        """Have the markers of a decided transaction written, where it has any."""
        current = transaction.current
        if current.partitions or current.has_branch_partitions:
            self._decisions += 1
            transaction.decision = self._decisions
            if transaction.pool is not None:
                transaction.pool.under_way.add(transaction.transactional_id)
            self._ask_for_markers(transaction)
        else:
            self._finish(transaction, now_ms)

    def send_markers_again(self) -> None:
        """Ask for all markers that are under way once more: those who were asked have forgotten it."""
        for transaction in self._context.table:
            if transaction.decision != NO_DECISION:
                self._ask_for_markers(transaction)

    def _ask_for_markers(self, transaction: Transaction) -> None:
        current, shard = transaction.current, transaction.shard
        self._context.say(
            shard,
            SendMarkers(
                transaction.transactional_id,
                shard.partition,
                shard.epoch,
                transaction.decision,
                ProducerIdentity(current.producer_id, current.producer_epoch),
                current.state is _PREPARE_COMMIT,
                current.partitions,
                current.client_version,
                () if current.branching is None else _branch_markers(current.branching),
            ),
        )

    def markers_written(self, event: MarkersWritten, now_ms: int) -> bool:
        """Finish the transaction whose markers these are; return whether there is one."""
        transaction = self._context.table.find(event.transactional_id)
        if (
            transaction is None
            or transaction.decision != event.decision
            or transaction.shard.epoch != event.coordinator_epoch
        ):
            return False
        self._finish(transaction, now_ms)
        return True

    # Ends

    def _finish(self, transaction: Transaction, now_ms: int) -> None:
        """Let the next transaction begin; its record tells the log of the end of this one, unless it is long in coming.

        The log has the decision, from which a recovery gets to the same end: it has the markers written again, and no
        record of a later transaction can be there before the log has heard of that.
        """
        transaction.finish(transitions.completed(transaction.current, now_ms))
        if transaction.transactional_id in self._context.held:
            self._context.freed.append(transaction.transactional_id)
        if transaction.pool is not None:
            self._finish_slot(transaction.transactional_id, transaction.pool)
        if self._delay_ms:
            self._ahead.set_by(transaction.transactional_id, now_ms + self._delay_ms)
        else:
            self._log_end(transaction, now_ms)

    def _finish_slot(self, transactional_id: str, pool: Pool) -> None:
        """Let those go on who wait for all slots of a pool, with the last of them."""
        pool.under_way.discard(transactional_id)
        if not pool.under_way and pool.name in self._context.held:
            self._context.freed.append(pool.name)

    @property
    def next_due_ms(self) -> int:
        """When the log is to be told of an end."""
        return self._ahead.next_due_ms

    def log_ends(self, now_ms: int) -> None:
        """Tell the log of the ends of transactions that no other has followed for a while."""
        for transactional_id in self._ahead.take_due(now_ms):
            transaction = self._context.table.find(transactional_id)
            if transaction is None or not transaction.is_ahead:
                continue
            # The deadline may be that of an earlier transaction of the same producer.
            due_ms = transaction.current.updated_ms + self._delay_ms
            if due_ms > now_ms:
                self._ahead.set(transactional_id, due_ms)
            else:
                self._log_end(transaction, now_ms)

    def forget(self, transactional_id: str) -> None:
        """Leave a transaction alone that is coordinated here no longer."""
        self._ahead.cancel(transactional_id)

    def _log_end(self, transaction: Transaction, now_ms: int) -> None:
        if not self._context.log(transaction, transaction.current):
            delay_ms = self._delay_ms or self._context.config.request_hold_ms
            self._ahead.set(transaction.transactional_id, now_ms + delay_ms)


def _branch_markers(branching: Branching) -> tuple[BranchMarkers, ...]:
    """The markers of a decided transaction's branches; one without records needs none."""
    return tuple(
        BranchMarkers(ProducerIdentity(producer_id, ENDED_BRANCH_EPOCH), branch.is_committed, branch.partitions)
        for producer_id, branch in branching.branches.items()
        if branch.partitions
    )
