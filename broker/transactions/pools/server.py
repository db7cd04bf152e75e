"""What a pool that is taken over means for its slots, and which producers get a slot."""

from __future__ import annotations

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import InitProducerId, PoolReply, TakePoolOver
from eagleray.broker.transactions.pools.names import SlotName
from eagleray.broker.transactions.pools.pool import Pool
from eagleray.broker.transactions.queries import description_of
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class PoolServer:
    """Fences the slots of a pool that has another owner, and gives slots to producers of the present one."""

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._completion = completion

    def end_what_is_lost(self, pool: Pool, now_ms: int) -> None:
        """Abort what earlier owners have left open; what they have prepared stays, and its resolver is asked."""
        for slot in pool.slots.values():
            current = slot.current
            if current.state is not TransactionState.ONGOING or pool.has(slot):
                continue
            if not current.is_prepared:
                abort = transitions.aborted_by_coordinator(current, is_named=False, now_ms=now_ms)
                self._completion.decide(slot, abort)
            elif current.resolver is not None:
                self._context.questions.want(slot)

    def answer(
        self, transaction: Transaction, request: TakePoolOver, pool: Pool | None, owner: ProducerIdentity
    ) -> None:
        """Tell a program that it has the pool, and what earlier owners have left prepared there."""
        left = () if pool is None else tuple(map(description_of, pool.left_prepared()))
        self._context.say(transaction.shard, PoolReply(request.request_id, _NONE, owner, left))

    def refusal_to_init(self, request: InitProducerId, slot: SlotName) -> ErrorCode:
        """Why a producer does not get a slot, or NONE.

        One that names no owner ends what is open there, as an operator may; it can begin nothing. Only those who hold
        its token end what is prepared.
        """
        table, owner = self._context.table, request.owner
        transaction = table.find(request.transactional_id or "")
        is_prepared = transaction is not None and transaction.current.is_prepared
        if request.two_phase or (owner is None and transaction is None):
            return ErrorCode.INVALID_REQUEST
        if owner is not None:
            head = table.find(slot.pool)
            if head is None:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            if not head.current.is_held_by(owner):
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if slot.number >= self._context.config.max_transaction_pool_slots:
                return ErrorCode.POLICY_VIOLATION
            if is_prepared and request.keep_prepared and transaction is not None and not transaction.is_lost:
                return _NONE
        return ErrorCode.INVALID_TXN_STATE if is_prepared else _NONE
