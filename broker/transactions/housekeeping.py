"""What a coordinator does because time has passed."""

from __future__ import annotations

from collections import deque

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.runtime.deadlines import AT_ONCE_MS, NEVER_MS
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import HeldTooLong
from eagleray.broker.transactions.holding_back import why_ended
from eagleray.broker.transactions.origin import decode_origin
from eagleray.broker.transactions.states import EXPIRABLE
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode


class TransactionHousekeeping:
    """Answers those who have waited too long, aborts what has timed out, and forgets ids that are not used any more.

    It looks for what has timed out only while transactions are ongoing. What holds back the readers of a topic with a
    limit ends by a deadline of its own.
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
        held_ms, hold_ms = context.held.next_due_ms, context.hold_limits.next_due_ms
        return min(self._next_expiry_check_ms, check_ms, waiting_ms, held_ms, hold_ms)

    def tick(self, now_ms: int, *, may_expire: bool = True) -> None:
        """Do what is due by now; where nothing `may_expire`, transactional ids that are not used stay."""
        config = self._context.config
        self._answer_overdue(now_ms)
        self._abort_held_too_long(now_ms)
        if self._context.has_ongoing and now_ms >= self._next_timeout_check_ms:
            interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._next_timeout_check_ms = now_ms + interval_ms
            self._abort_timed_out(now_ms)
        if now_ms >= self._next_expiry_check_ms:
            interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._next_expiry_check_ms = now_ms + interval_ms
            self._partitions_to_check = deque(self._context.runtime.shards if may_expire else ())
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
                # A slot that was lost with its pool is left over from a takeover that was not carried through.
                if now_ms - current.start_ms > current.timeout_ms or transaction.is_lost:
                    abort = transitions.aborted_by_coordinator(current, is_named=False, now_ms=now_ms)
                    self._completion.decide(transaction, abort)
        self._context.has_ongoing = any(shard.ongoing for shard in shards)

    def _abort_held_too_long(self, now_ms: int) -> None:
        """Abort what has held back the readers of a topic for longer than that allows."""
        limits = self._context.hold_limits
        for transactional_id in limits.take_due(now_ms):
            transaction = self._context.table.find(transactional_id)
            limit = None if transaction is None else limits.limit_of(transaction.current)
            if transaction is None or limit is None:
                continue
            held_ms = now_ms - transaction.current.start_ms
            if held_ms < limit.limit_ms:
                # The deadline was that of an earlier transaction.
                limits.watch(transaction)
            elif not self._abort_and_say(transaction, why_ended(limit, held_ms), now_ms):
                limits.watch_again(transaction, now_ms + self._context.config.request_hold_ms)

    def _abort_and_say(self, transaction: Transaction, why: str, now_ms: int) -> bool:
        """Abort a transaction of which the producer is told why when it asks; False where the log takes nothing."""
        current = transaction.current
        abort = transitions.aborted_by_coordinator(current, is_named=False, now_ms=now_ms)
        if not self._completion.decide(transaction, abort):
            return False
        transaction.why_ended = why
        producer = ProducerIdentity(current.producer_id, current.producer_epoch)
        said = HeldTooLong(transaction.transactional_id, producer, why, decode_origin(current.origin))
        self._context.say(transaction.shard, said)
        return True

    def _expire(self, log_partition: int, now_ms: int) -> None:
        shard = self._context.runtime.shards.get(log_partition)
        latest_ms = now_ms - self._context.config.transactional_id_expiration_ms
        if shard is None:
            return
        used = {pool.name for pool in shard.pools.values() if pool.used_ms > latest_ms}
        for transaction in [*shard.transactions.values()]:
            current = transaction.current
            is_used = current.updated_ms > latest_ms or (used and _pool_of(transaction) in used)
            if not is_used and current.state in EXPIRABLE:
                self._context.log(transaction, transitions.expired(current, now_ms))


def _pool_of(transaction: Transaction) -> str:
    """Say which pool keeps a transactional id as long as it is used: that of its name, or of which it is a slot."""
    pool = transaction.pool
    return transaction.transactional_id if pool is None or transaction.is_lost else pool.name
