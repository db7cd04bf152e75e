"""What the parts of a coordinator share: its transactions, the requests that wait, and what the event at hand makes."""

from __future__ import annotations

from collections.abc import Callable

from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import (
    AddPartitions,
    Answer,
    AppendTransitions,
    BeginBranched,
    BranchedReply,
    Effect,
    EndBranched,
    EndTransaction,
    OpenBranch,
    Reply,
    Request,
    RequestProducerIds,
    SendMarkers,
)
from eagleray.broker.transactions.holding import HeldRequests, WaitingLine
from eagleray.broker.transactions.producer_id_pool import ProducerIdPool
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Said, Transaction, TransactionRuntime, TransactionShard, TransactionTable
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
_ONGOING = TransactionState.ONGOING
_DEAD = TransactionState.DEAD


class CoordinatorContext:
    """Where transitions are logged and answers given, and where requests wait that cannot be served yet.

    Every request is in exactly one place until it is answered: held for a transactional id, waiting for a producer id,
    or as the answer to it that its shard holds back until the log is committed.
    """

    def __init__(self, config: CoordinatorConfig, check_append: Callable[[int, int], ErrorCode]) -> None:
        self.config = config
        self.runtime = TransactionRuntime(check_append, refused)
        self.table = TransactionTable(config.transaction_state_log_num_partitions, self.runtime.shards)
        self.held = HeldRequests(config.request_hold_limit)
        self.producer_ids = ProducerIdPool()
        self.waiting_for_ids = WaitingLine()
        self.has_ongoing = False
        """Whether there may be a transaction that can time out."""
        self._wants_producer_ids = False
        self.say = self.runtime.say
        """Say something about a shard, once that on which it rests is committed."""

    def end_turn(self) -> list[Effect]:
        """Return what the events of a turn have made necessary, in order, and begin another."""
        said, appends = self.runtime.end_turn()
        effects: list[Effect] = [*said]
        if self._wants_producer_ids:
            self._wants_producer_ids = False
            effects.append(RequestProducerIds())
        for shard, position, transitions in appends:
            effects.append(AppendTransitions(shard.partition, shard.epoch, position, transitions))
        return effects

    # Answers

    def reply(self, request: Request, error_code: ErrorCode, producer: ProducerIdentity = NO_PRODUCER) -> None:
        """Answer a request at once; the answer rests on nothing that the log has."""
        self.runtime.say_at_once(_answer(request, error_code, producer))

    def answer(
        self,
        shard: TransactionShard,
        request: Request,
        error_code: ErrorCode,
        producer: ProducerIdentity = NO_PRODUCER,
    ) -> None:
        """Answer a request from what is known of a shard."""
        self.say(shard, _answer(request, error_code, producer))

    def refuse_unknown(self, request: AddPartitions | EndTransaction | OpenBranch | EndBranched) -> None:
        """Answer a request about a transactional id that is not known here."""
        if not request.transactional_id:
            self.reply(request, ErrorCode.INVALID_REQUEST)
            return
        shard = self.table.find_shard(request.transactional_id)
        if isinstance(shard, ErrorCode):
            self.reply(request, shard)
        else:
            self.answer(shard, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    # Transitions

    def is_refused(self, shard: TransactionShard, request: Request | None = None) -> bool:
        """Whether the log takes nothing now, which a request is answered with; nothing has changed then."""
        refusal = self.runtime.refusal(shard)
        if refusal is _NONE:
            return False
        if request is not None:
            self.reply(request, refusal)
        return True

    def log(
        self,
        transaction: Transaction,
        transition: Snapshot,
        request: Request | None = None,
        producer: ProducerIdentity | None = None,
    ) -> bool:
        """Append a transition, by which the transaction is changed, and answer a request once it is committed.

        Where the log refuses, the request is answered with that, nothing has changed, and False is returned.
        """
        shard = transaction.shard
        if self.is_refused(shard, request):
            return False
        state = transition.state
        # What joins a transaction leaves everything in it that was there before.
        joins = state is _ONGOING and transaction.current.state is _ONGOING
        transaction.change_to(transition)
        self.runtime.append(
            shard, transaction.transactional_id, None if state is _DEAD else transition, supersedes=joins
        )
        if state is _ONGOING:
            shard.ongoing[transaction.transactional_id] = transaction
            self.has_ongoing = True
        elif state is _DEAD:
            self.table.remove(transaction)
        if request is not None:
            self.say(shard, _confirmation(request, transition, producer))
        return True

    # Waiting

    def hold(self, transaction: Transaction, request: Request, deadline_ms: int) -> None:
        """Let a request wait until the transaction has its markers; send it back where too many wait already."""
        # All the branches of a job may be opened and written to at once.
        limit = None if transaction.current.branching is None else self.config.max_transaction_branches
        if not self.held.add(transaction.transactional_id, request, deadline_ms, limit):
            self.reply(request, ErrorCode.CONCURRENT_TRANSACTIONS)

    def take_producer_id(self, request: Request, deadline_ms: int) -> int | None:
        """Return a fresh producer id, or None, with the request waiting until the allocator has given a block."""
        producer_id = self.producer_ids.take()
        if producer_id is None:
            self.waiting_for_ids.add(request, deadline_ms)
        if self.producer_ids.begin_asking():
            self._wants_producer_ids = True
        return producer_id


def refused(said: Said, error_code: ErrorCode) -> Said | None:
    """What takes the place of something that rests on a shard which is thrown away; markers are asked for again."""
    return None if isinstance(said, SendMarkers) else type(said)(said.request_id, error_code)


def _answer(request: Request, error_code: ErrorCode, producer: ProducerIdentity) -> Answer:
    answer = BranchedReply if type(request) is BeginBranched else Reply
    return answer(request.request_id, error_code, producer)


def _confirmation(request: Request, current: Snapshot, producer: ProducerIdentity | None) -> Answer:
    """The answer to a request whose transition is in the log."""
    kind = type(request)
    if kind is BeginBranched:
        return BranchedReply(request.request_id, _NONE, current.holder, not current.is_branched)
    if producer is None:
        producer = NO_PRODUCER if kind is AddPartitions else current.holder
    return Reply(request.request_id, _NONE, producer)
