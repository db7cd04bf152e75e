"""What InitProducerId and BeginBranched mean for a transactional id."""

from __future__ import annotations

import enum

from eagleray.broker.identities import LAST_EPOCH, NO_EPOCH, ProducerIdentity
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import BeginBranched, BranchedReply, InitProducerId
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.broker.transactions.tags import is_before, is_settled_by
from eagleray.protocol.errors import ErrorCode


class InitOutcome(enum.Enum):
    """What a coordinator does about a producer that asks for its identity."""

    WAIT = enum.auto()
    """Hold the request until the decided transaction has its markers."""

    REFUSED = enum.auto()
    """Refuse with PRODUCER_FENCED: the producer names an identity that another has taken over."""

    ABORT_FIRST = enum.auto()
    """Abort the transaction that is open, then look again."""

    NEXT_EPOCH = enum.auto()
    """Raise the epoch."""

    SAME_IDENTITY = enum.auto()
    """Give the same answer again: the producer repeats a request whose answer it has not heard (KIP-360)."""

    NEW_PRODUCER_ID = enum.auto()
    """Begin with another producer id: the epochs of this one are used up."""


def outcome_of_init(current: Snapshot, expected: ProducerIdentity | None) -> InitOutcome:
    """Say what a request for an identity comes to, from a producer that may say who it believes to be."""
    if current.is_decided:
        return InitOutcome.WAIT
    if expected is None or current.producer_epoch == NO_EPOCH or current.is_held_by(expected):
        is_repeated = False
    elif current.was_held_by(expected):
        is_repeated = True
    else:
        return InitOutcome.REFUSED
    if current.state is TransactionState.ONGOING:
        return InitOutcome.ABORT_FIRST
    if current.is_epoch_exhausted and (not is_repeated or current.producer_epoch == LAST_EPOCH):
        return InitOutcome.NEW_PRODUCER_ID
    return InitOutcome.SAME_IDENTITY if is_repeated else InitOutcome.NEXT_EPOCH


class TagStanding(enum.Enum):
    """Where a transactional id stands with a tag, for workers that share a transaction."""

    COMMITTED = enum.auto()
    """It is committed, or a later one of its series is: nothing is left to do for it."""

    OPEN = enum.auto()
    """Its transaction takes branches."""

    OVERTAKEN = enum.auto()
    """A later one of its series is open. Whoever asks was left behind, and must not end what has come after it."""

    NEW = enum.auto()
    """Nobody has begun it, or what was begun is aborted."""


def standing_of(current: Snapshot, tag: str) -> TagStanding:
    """Say where a transactional id stands with a tag."""
    branching = current.branching
    if branching is None:
        return TagStanding.NEW
    if is_settled_by(tag, branching.committed_tag):
        return TagStanding.COMMITTED
    if branching.tag is None or current.is_decided:
        return TagStanding.NEW
    if branching.tag == tag:
        return TagStanding.OPEN
    return TagStanding.OVERTAKEN if is_before(tag, branching.tag) else TagStanding.NEW


class IdentityServer:
    """Gives identities: to producers, and to drivers, who get them in the same way and a tag besides."""

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._completion = completion

    def init(self, request: InitProducerId, deadline_ms: int, now_ms: int) -> None:
        """Serve a producer, which may be one without transactions."""
        if request.transactional_id is None:
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is not None:
                self._context.reply(request, ErrorCode.NONE, ProducerIdentity(producer_id, 0))
        elif not request.transactional_id:
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
        elif not 0 < request.timeout_ms <= self._context.config.max_transaction_timeout_ms:
            self._context.reply(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            self._find_or_create(request.transactional_id, request, deadline_ms, now_ms)

    def begin_branched(self, request: BeginBranched, deadline_ms: int, now_ms: int) -> None:
        """Serve a driver that begins a transaction with branches."""
        if not request.transactional_id or not request.tag:
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
        elif not 0 < request.timeout_ms <= self._context.config.max_transaction_timeout_ms:
            self._context.reply(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            self._find_or_create(request.transactional_id, request, deadline_ms, now_ms)

    def _find_or_create(
        self, transactional_id: str, request: InitProducerId | BeginBranched, deadline_ms: int, now_ms: int
    ) -> None:
        transaction = self._context.table.find(transactional_id)
        if transaction is not None:
            self._init_existing(transaction, request, deadline_ms, now_ms)
            return
        shard = self._context.table.find_shard(transactional_id)
        if isinstance(shard, ErrorCode):
            self._context.reply(request, shard)
            return
        if self._context.is_refused(shard, request):
            return
        producer_id = self._context.take_producer_id(request, deadline_ms)
        if producer_id is not None:
            created = transitions.created(producer_id, request.timeout_ms, now_ms)
            transaction = self._context.table.add(transactional_id, shard, created)
            self._init_existing(transaction, request, deadline_ms, now_ms)

    def _init_existing(
        self, transaction: Transaction, request: InitProducerId | BeginBranched, deadline_ms: int, now_ms: int
    ) -> None:
        current, expected = transaction.current, _who_is_named(request)
        is_named = expected is not None
        if isinstance(request, BeginBranched) and request.is_shared and self._share(transaction, request):
            return
        outcome = outcome_of_init(current, expected)
        if outcome is InitOutcome.REFUSED:
            self._context.answer(transaction.shard, request, ErrorCode.PRODUCER_FENCED)
        elif outcome is InitOutcome.WAIT:
            self._context.hold(transaction, request, deadline_ms)
        elif outcome is InitOutcome.ABORT_FIRST:
            if not self._context.is_refused(transaction.shard, request):
                abort = transitions.aborted_by_coordinator(current, is_named=is_named, now_ms=now_ms)
                self._completion.decide(transaction, abort)
                # It waits for the markers now, unless there are none to wait for.
                self._init_existing(transaction, request, deadline_ms, now_ms)
        elif outcome is InitOutcome.NEW_PRODUCER_ID:
            self._rotate(transaction, request, deadline_ms, now_ms)
        elif outcome is InitOutcome.SAME_IDENTITY:
            self._give(transaction, transitions.with_same_identity(current, request.timeout_ms, now_ms), request)
        else:
            raised = transitions.with_next_epoch(current, request.timeout_ms, is_named=is_named, now_ms=now_ms)
            self._give(transaction, raised, request)

    def _share(self, transaction: Transaction, request: BeginBranched) -> bool:
        """Answer a worker for whose tag there is a transaction, or was one; return whether that is so."""
        current, shard = transaction.current, transaction.shard
        standing = standing_of(current, request.tag)
        if standing is TagStanding.COMMITTED:
            self._context.say(shard, BranchedReply(request.request_id, ErrorCode.NONE, current.holder, True))
        elif standing is TagStanding.OPEN:
            self._context.answer(shard, request, ErrorCode.NONE, current.holder)
        elif standing is TagStanding.OVERTAKEN:
            self._context.answer(shard, request, ErrorCode.PRODUCER_FENCED)
        else:
            return False
        return True

    def _rotate(
        self, transaction: Transaction, request: InitProducerId | BeginBranched, deadline_ms: int, now_ms: int
    ) -> None:
        producer_id = self._context.take_producer_id(request, deadline_ms)
        if producer_id is not None:
            expected = _who_is_named(request)
            named_epoch = NO_EPOCH if expected is None else expected.epoch
            rotated = transitions.with_new_producer_id(
                transaction.current, producer_id, named_epoch, request.timeout_ms, now_ms
            )
            self._give(transaction, rotated, request)

    def _give(self, transaction: Transaction, identity: Snapshot, request: InitProducerId | BeginBranched) -> None:
        """Have an identity logged for whoever asks for it, with a tag if there is one."""
        if isinstance(request, BeginBranched):
            identity = transitions.with_tag(identity, transaction.current, request.tag)
        self._context.log(transaction, identity, request)


def _who_is_named(request: InitProducerId | BeginBranched) -> ProducerIdentity | None:
    return request.expected if isinstance(request, InitProducerId) else None
