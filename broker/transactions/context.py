"""What the parts of a coordinator share: its transactions, those who wait, and the effects of the event at hand."""

from __future__ import annotations

from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    BranchedReply,
    Effect,
    EndBranched,
    EndTransaction,
    LogTransition,
    OpenBranch,
    Reply,
    Request,
    RequestProducerIds,
)
from eagleray.broker.transactions.holding import HeldRequests, JoinedRequests, WaitingLine
from eagleray.broker.transactions.producer_id_pool import ProducerIdPool
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction, TransactionTable
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class CoordinatorContext:
    """Where effects are collected, and where requests wait that cannot be answered yet.

    Every request is in exactly one place until it is answered: with the transition that it asked for, held for a
    transactional id, or waiting for a producer id.
    """

    def __init__(self, config: CoordinatorConfig) -> None:
        self.config = config
        self.table = TransactionTable(config.transaction_state_log_num_partitions)
        self.held = HeldRequests(config.request_hold_limit)
        self.producer_ids = ProducerIdPool()
        self.waiting_for_ids = WaitingLine()
        self._effects: list[Effect] = []
        self.emit = self._effects.append

    def drain(self) -> list[Effect]:
        """Return the effects so far, in order, and begin a new list."""
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def reply(self, request: Request, error_code: ErrorCode, producer: ProducerIdentity = NO_PRODUCER) -> None:
        """Answer a request."""
        answer = BranchedReply if type(request) is BeginBranched else Reply
        self.emit(answer(request.request_id, error_code, producer))

    def confirm(self, request: Request | JoinedRequests, current: Snapshot) -> None:
        """Answer a request whose transition is in the log."""
        if isinstance(request, AddPartitions):
            self.emit(Reply(request.request_id, _NONE))
        elif isinstance(request, JoinedRequests):
            for reply in request.replies:
                self.emit(reply)
        elif isinstance(request, BeginBranched):
            self.emit(BranchedReply(request.request_id, _NONE, current.holder, not current.is_branched))
        else:
            self.emit(Reply(request.request_id, _NONE, current.holder))

    def refuse(self, request: Request | JoinedRequests, error_code: ErrorCode) -> None:
        """Answer a request whose transition is not in the log."""
        if isinstance(request, JoinedRequests):
            for reply in request.replies:
                self.emit(Reply(reply.request_id, error_code))
        else:
            self.reply(request, error_code)

    def refuse_unknown(self, request: AddPartitions | EndTransaction | OpenBranch | EndBranched) -> None:
        """Answer a request about a transactional id that is not known here."""
        if not request.transactional_id:
            self.reply(request, ErrorCode.INVALID_REQUEST)
            return
        shard = self.table.find_shard(request.transactional_id)
        error_code = shard if isinstance(shard, ErrorCode) else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        self.reply(request, error_code)

    def log(
        self, transaction: Transaction, transition: Snapshot, request: Request | JoinedRequests | None = None
    ) -> None:
        """Have a transition logged; it takes effect, and the request is answered, when the log has it."""
        transaction.prepare(transition, request)
        shard = transaction.shard
        snapshot = None if transition.state is TransactionState.DEAD else transition
        self.emit(LogTransition(shard.log_partition, shard.coordinator_epoch, transaction.transactional_id, snapshot))

    def hold(self, transaction: Transaction, request: Request, deadline_ms: int) -> None:
        """Let a request wait until the transactional id has changed; send it back where too many wait already."""
        # All the branches of a job may be opened and written to at once; they wait for one transition, together.
        limit = None if transaction.current.branching is None else self.config.max_transaction_branches
        if not self.held.add(transaction.transactional_id, request, deadline_ms, limit):
            self.reply(request, ErrorCode.CONCURRENT_TRANSACTIONS)

    def take_producer_id(self, request: Request, deadline_ms: int) -> int | None:
        """Return a fresh producer id, or None, with the request waiting until the allocator has given a block."""
        producer_id = self.producer_ids.take()
        if producer_id is None:
            self.waiting_for_ids.add(request, deadline_ms)
        if self.producer_ids.begin_asking():
            self.emit(RequestProducerIds())
        return producer_id
