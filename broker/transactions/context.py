"""What the parts of a coordinator share: its transactions, the requests that wait, and what the event at hand makes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from msgspec.structs import replace

from eagleray.broker.identities import NO_PRODUCER, ProducerIdentity
from eagleray.broker.runtime.connection_bindings import NO_QUESTION
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.connection_guard import ConnectionGuard
from eagleray.broker.transactions.events import (
    AddPartitions,
    Answer,
    BeginBranched,
    BranchedReply,
    CompleteTransaction,
    Effect,
    EndBranched,
    EndTransaction,
    HeldTooLong,
    InitProducerId,
    OpenBranch,
    PoolReply,
    PrepareTransaction,
    Reply,
    Request,
    RequestProducerIds,
    SendMarkers,
    TakePoolOver,
)
from eagleray.broker.transactions.holding import HeldRequests, WaitingLine
from eagleray.broker.transactions.holding_back import HoldLimits
from eagleray.broker.transactions.producer_id_pool import ProducerIdPool
from eagleray.broker.transactions.question_schedule import QuestionSchedule
from eagleray.broker.transactions.resolver_events import AskResolver
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.stamps import for_log
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Said, Transaction, TransactionRuntime, TransactionShard, TransactionTable
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
_ONGOING = TransactionState.ONGOING
_DEAD = TransactionState.DEAD
_WITHOUT_IDENTITY = (AddPartitions, CompleteTransaction)
"""A program that holds a token does not become the producer by it."""
_ANSWERS: dict[type, type[BranchedReply | PoolReply]] = {BeginBranched: BranchedReply, TakePoolOver: PoolReply}


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
        self.guard = ConnectionGuard(config, self.runtime)
        self.freed: list[str] = []
        """The transactional ids whose transaction has just ended, so that what is held for them may go on."""

        self._questions = count(NO_QUESTION + 1)
        self.producer_ids = ProducerIdPool()
        self.waiting_for_ids = WaitingLine()
        self.has_ongoing = False
        """Whether there may be a transaction that can time out."""
        self.hold_limits = HoldLimits()
        self.questions = QuestionSchedule(config.max_resolver_questions_in_flight)
        self.time_set_by_ms = 0
        """By how much the times in the log are ahead of those here."""
        self._wants_producer_ids = False
        self.say = self.runtime.say
        """Say something about a shard, once that on which it rests is committed."""

    def end_turn(self) -> list[Effect]:
        """Return what the events of a turn have made necessary, in order, and begin another."""
        said, appends = self.runtime.end_turn()
        effects: list[Effect] = [*said, *appends]
        if self._wants_producer_ids:
            self._wants_producer_ids = False
            effects.append(RequestProducerIds())
        return effects

    def new_shard(self, partition: int, epoch: int) -> TransactionShard:
        """Make the shard of a partition, as yet without what it holds."""
        return TransactionShard(partition, epoch, self._questions)

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

    def refuse_unknown(
        self,
        request: AddPartitions | EndTransaction | OpenBranch | EndBranched | PrepareTransaction | CompleteTransaction,
    ) -> None:
        """Answer a request about a transactional id that is not known here."""
        if not request.transactional_id:
            self.reply(request, ErrorCode.INVALID_REQUEST)
            return
        shard = self.table.find_shard(request.transactional_id)
        if isinstance(shard, ErrorCode):
            self.reply(request, shard)
        else:
            self.answer(shard, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    def confirm(self, transaction: Transaction, request: Request) -> None:
        """Answer a request whose transition is in the log already, as the first time."""
        self.say(transaction.shard, self._confirmation(request, transaction.current, None))

    def confirm_committed(self, transaction: Transaction, request: BeginBranched) -> None:
        """Tell a worker that nothing is left to do for its tag."""
        self.say(transaction.shard, replace(self._begun(request, transaction.current), tag_is_committed=True))

    # Transitions

    def is_refused(self, shard: TransactionShard, request: Request) -> bool:
        """Whether the log takes nothing now, which the request is answered with; nothing has changed then."""
        refusal = self.runtime.refusal(shard)
        if refusal is not _NONE:
            self.reply(request, refusal)
        return refusal is not _NONE

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
        refusal = self.runtime.refusal(shard)
        if refusal is not _NONE:
            if request is not None:
                self.reply(request, refusal)
            return False
        state = transition.state
        # What joins a transaction leaves everything in it that was there before.
        joins = state is _ONGOING and transaction.current.state is _ONGOING
        transaction.change_to(transition)
        self.runtime.append(
            shard,
            transaction.transactional_id,
            None if state is _DEAD else for_log(transition, self.time_set_by_ms),
            supersedes=joins,
        )
        if state is _ONGOING:
            if transition.can_time_out:
                shard.ongoing[transaction.transactional_id] = transaction
                self.has_ongoing = True
                if self.hold_limits.limits_ms:
                    self.hold_limits.watch(transaction)
            else:
                shard.ongoing.pop(transaction.transactional_id, None)
                if transition.resolver is not None:
                    self.questions.watch(transaction)
        elif state is _DEAD:
            self.table.remove(transaction)
            shard.bindings.forget(transaction.transactional_id)
        if request is not None:
            self.say(shard, self._confirmation(request, transition, producer))
        return True

    # Waiting

    def connection_closed(self, connection: int) -> None:
        """Forget a connection, and refuse what has come by it and waits: its client has moved on, and hears nothing."""
        self.guard.closed(connection)
        for request in [*self.held.take_of(connection), *self.waiting_for_ids.take_of(connection)]:
            self.reply(request, ErrorCode.NETWORK_EXCEPTION)

    def hold(self, transaction: Transaction, request: Request, deadline_ms: int) -> None:
        """Let a request wait until the transaction has its markers; send it back where too many wait already."""
        # All the branches of a job may be opened and written to at once.
        limit = None if transaction.current.branching is None else self.config.max_transaction_branches
        if not self.held.add(transaction.transactional_id, request, deadline_ms, limit):
            self.reply(request, ErrorCode.CONCURRENT_TRANSACTIONS)

    def _confirmation(self, request: Request, current: Snapshot, producer: ProducerIdentity | None) -> Answer:
        """The answer to a request whose transition is in the log."""
        kind = type(request)
        if kind is BeginBranched:
            return self._begun(request, current, NO_PRODUCER if producer is None else producer)
        if producer is None:
            producer = NO_PRODUCER if kind in _WITHOUT_IDENTITY else current.holder
        if kind is InitProducerId and current.is_kept:
            return Reply(request.request_id, _NONE, producer, ongoing=current.written_by)
        return Reply(request.request_id, _NONE, producer)

    def _begun(self, request: Request, current: Snapshot, branch: ProducerIdentity = NO_PRODUCER) -> BranchedReply:
        return BranchedReply(
            request.request_id,
            _NONE,
            current.holder,
            not current.is_branched,
            branch,
            None if current.branching is None else current.branching.committed_tag,
            self.config.transactional_id_expiration_ms,
        )

    def take_producer_id(self, request: Request, deadline_ms: int) -> int | None:
        """Return a fresh producer id, or None, with the request waiting until the allocator has given a block."""
        producer_id = self.producer_ids.take()
        if producer_id is None:
            self.waiting_for_ids.add(request, deadline_ms)
        if self.producer_ids.begin_asking():
            self._wants_producer_ids = True
        return producer_id


def refused(said: Said, error_code: ErrorCode) -> Said | None:
    """What takes the place of something that rests on a shard which is thrown away.

    Markers and outcomes are asked for again.
    """
    return (
        None if isinstance(said, SendMarkers | HeldTooLong | AskResolver) else type(said)(said.request_id, error_code)
    )


def _answer(request: Request, error_code: ErrorCode, producer: ProducerIdentity) -> Answer:
    return _ANSWERS.get(type(request), Reply)(request.request_id, error_code, producer)
