"""What a coordinator does because time has passed."""

from __future__ import annotations

from collections import deque

from eagleray.broker.runtime.deadlines import AT_ONCE_MS, NEVER_MS
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.states import EXPIRABLE
from eagleray.protocol.errors import ErrorCode


class TransactionHousekeeping:
    """Answers those who have waited too long, aborts what has timed out, and forgets ids that are not used any more.

    It looks for what has timed out only while transactions are ongoing.
    """

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._completion = completion
        self._next_timeout_check_ms = 0
        self._next_expiry_check_ms = 0
        self._partitions_to_check: deque[int] = deque()

    @property
    def next_due_ms(self) -> int:
        """When there is something to do."""
        context = self._context
        if self._partitions_to_check:
            return AT_ONCE_MS
        check_ms = self._next_timeout_check_ms if context.has_ongoing else NEVER_MS
        waiting_ms = context.waiting_for_ids.next_due_ms if context.waiting_for_ids else NEVER_MS
        return min(self._next_expiry_check_ms, check_ms, waiting_ms, context.held.next_due_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due by now."""
        config = self._context.config
        self._answer_overdue(now_ms)
        if self._context.has_ongoing and now_ms >= self._next_timeout_check_ms:
            interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._next_timeout_check_ms = now_ms + interval_ms
            self._abort_timed_out(now_ms)
        if now_ms >= self._next_expiry_check_ms:
            interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._next_expiry_check_ms = now_ms + interval_ms
            self._partitions_to_check = deque(self._context.runtime.shards)
        if self._partitions_to_check:
            # One partition a tick: there may be very many transactional ids, and meanwhile no request is served.
            self._expire(self._partitions_to_check.popleft(), now_ms)

    def _answer_overdue(self, now_ms: int) -> None:
        for request in self._context.held.take_overdue(now_ms):
            self._context.reply(request, ErrorCode.CONCURRENT_TRANSACTIONS)
        for request in self._context.waiting_for_ids.take_overdue(now_ms):
            # Older clients take nothing else here for a reason to try again.
            self._context.reply(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _abort_timed_out(self, now_ms: int) -> None:
        shards = self._context.runtime.shards.values()
        for shard in shards:
            for transaction in [*shard.ongoing.values()]:
                current = transaction.current
                if now_ms - current.start_ms > current.timeout_ms:
                    abort = transitions.aborted_by_coordinator(current, is_named=False, now_ms=now_ms)
                    self._completion.decide(transaction, abort)
        self._context.has_ongoing = any(shard.ongoing for shard in shards)

    def _expire(self, log_partition: int, now_ms: int) -> None:
        shard = self._context.runtime.shards.get(log_partition)
        latest_ms = now_ms - self._context.config.transactional_id_expiration_ms
        for transaction in [] if shard is None else [*shard.transactions.values()]:
            current = transaction.current
            if current.updated_ms <= latest_ms and current.state in EXPIRABLE:
                self._context.log(transaction, transitions.expired(current, now_ms))
