"""What InitProducerId, BeginBranched and TakePoolOver mean for a transactional id."""

from __future__ import annotations

import enum
from typing import TypeAlias

from msgspec.structs import replace

from eagleray.broker.identities import LAST_EPOCH, NO_EPOCH, ProducerIdentity
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches.server import BranchServer
from eagleray.broker.transactions.branches.tags import is_before, is_settled_by
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import BeginBranched, InitProducerId, Reply, TakePoolOver
from eagleray.broker.transactions.id_limit import TransactionalIdLimit
from eagleray.broker.transactions.origin import encode_origin
from eagleray.broker.transactions.pools.names import LONGEST_POOL_BYTES, is_possible_id, slot_of
from eagleray.broker.transactions.pools.server import PoolServer
from eagleray.broker.transactions.preparation import NO_TIMEOUT_MS
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_Begin: TypeAlias = InitProducerId | BeginBranched | TakePoolOver


class InitOutcome(enum.Enum):
    """What a coordinator does about a producer that asks for its identity."""

    WAIT = enum.auto()
    """Hold the request until the decided transaction has its markers."""

    REFUSED = enum.auto()
    """Refuse with PRODUCER_FENCED: the producer names an identity that another has taken over."""

    ABORT_FIRST = enum.auto()
    """Abort the transaction that is open, then look again."""

    RESOLVE_FIRST = enum.auto()
    """Hold the request until the resolver of the prepared transaction has said how that ends; it is asked at once."""

    KEEP = enum.auto()
    """Leave the transaction that is open to the producer, which may end it and nothing else."""

    KEPT_ALREADY = enum.auto()
    """Give the same answer again: the producer repeats a request that kept the transaction."""

    NEXT_EPOCH = enum.auto()
    """Raise the epoch."""

    SAME_IDENTITY = enum.auto()
    """Give the same answer again: the producer repeats a request whose answer it has not heard (KIP-360)."""

    NEW_PRODUCER_ID = enum.auto()
    """Begin with another producer id: the epochs of this one are used up."""


def outcome_of_init(current: Snapshot, expected: ProducerIdentity | None, *, keeps: bool = False) -> InitOutcome:
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
        return _outcome_of_open(current, is_repeated=is_repeated, keeps=keeps)
    if current.is_epoch_exhausted and (not is_repeated or current.producer_epoch == LAST_EPOCH):
        return InitOutcome.NEW_PRODUCER_ID
    return InitOutcome.SAME_IDENTITY if is_repeated else InitOutcome.NEXT_EPOCH


def _outcome_of_open(current: Snapshot, *, is_repeated: bool, keeps: bool) -> InitOutcome:
    if is_repeated:
        # It repeats what kept the transaction; a request of before that, which did not, comes too late.
        return InitOutcome.KEPT_ALREADY if keeps else InitOutcome.REFUSED
    if keeps:
        return InitOutcome.KEEP
    return InitOutcome.ABORT_FIRST if current.resolver is None else InitOutcome.RESOLVE_FIRST


class TagStanding(enum.Enum):
    """Where a transactional id stands with a tag, for workers that share a transaction."""

    COMMITTED = enum.auto()
    """It is committed, or a later one of its series is: nothing is left to do for it."""

    OPEN = enum.auto()
    """Its transaction takes branches."""

    OVERTAKEN = enum.auto()
    """A later one of its series is open. The driver that asks is left behind, and must not end what came after it."""

    NEW = enum.auto()
    """No driver has begun it, or what was begun is aborted."""


def standing_of(current: Snapshot, tag: str, *, begins_anew: bool = False) -> TagStanding:
    """Say where a transactional id stands with a tag."""
    branching = current.branching
    if branching is None:
        return TagStanding.NEW
    if tag == branching.committed_tag or (not begins_anew and is_settled_by(tag, branching.committed_tag)):
        return TagStanding.COMMITTED
    if branching.tag is None or current.is_decided:
        return TagStanding.NEW
    if branching.tag == tag:
        return TagStanding.OPEN
    return TagStanding.OVERTAKEN if not begins_anew and is_before(tag, branching.tag) else TagStanding.NEW


class IdentityServer:
    """Gives identities: to producers, and in the same way to drivers, who get a tag besides, and to owners of pools."""

    def __init__(
        self,
        context: CoordinatorContext,
        completion: TransactionCompletion,
        branches: BranchServer,
        pools: PoolServer,
    ) -> None:
        self._context = context
        self._completion = completion
        self._branches = branches
        self._pools = pools
        self._limit = TransactionalIdLimit(context.config.max_transactional_ids_per_partition)

    def init(self, request: InitProducerId, deadline_ms: int, now_ms: int) -> None:
        """Serve a producer, which may be one without transactions."""
        if request.transactional_id is None:
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is not None:
                self._context.reply(request, ErrorCode.NONE, ProducerIdentity(producer_id, 0))
        elif not is_possible_id(request.transactional_id):
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
        elif not (request.two_phase or 0 < request.timeout_ms <= self._context.config.max_transaction_timeout_ms):
            self._context.reply(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        elif request.owner is not None or slot_of(request.transactional_id) is not None:
            self._init_slot(request.transactional_id, request, deadline_ms, now_ms)
        else:
            self._find_or_create(request.transactional_id, request, deadline_ms, now_ms)

    def _init_slot(self, transactional_id: str, request: InitProducerId, deadline_ms: int, now_ms: int) -> None:
        """Serve a producer of one slot of a pool."""
        slot, shard = slot_of(transactional_id), self._context.table.find_shard(transactional_id)
        if slot is None:
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
        elif isinstance(shard, ErrorCode):
            self._context.reply(request, shard)
        elif (refusal := self._pools.refusal_to_init(request, slot)) is not ErrorCode.NONE:
            self._context.answer(shard, request, refusal)
        else:
            self._find_or_create(transactional_id, request, deadline_ms, now_ms)

    def take_pool_over(self, request: TakePoolOver, deadline_ms: int, now_ms: int) -> None:
        """Serve a program that takes a pool over; to whom the pool is given is not for the program to say."""
        self.take_pool_over_again(replace(request, owner=None), deadline_ms, now_ms)

    def take_pool_over_again(self, request: TakePoolOver, deadline_ms: int, now_ms: int) -> None:
        """Serve a takeover that has waited, and may have been given the pool before it did."""
        name = request.transactional_id
        if not is_possible_id(name, LONGEST_POOL_BYTES) or slot_of(name) is not None:
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
        elif not 0 < request.timeout_ms <= self._context.config.max_transaction_timeout_ms:
            self._context.reply(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            self._find_or_create(request.transactional_id, request, deadline_ms, now_ms)

    def begin_branched(self, request: BeginBranched, deadline_ms: int, now_ms: int) -> None:
        """Serve a driver that begins a transaction with branches."""
        is_whole = bool(request.tag) and (request.is_shared or not request.opens_branch)
        name = request.transactional_id
        if not is_whole or not is_possible_id(name) or slot_of(name) is not None:
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
        elif not 0 < request.timeout_ms <= self._context.config.max_transaction_timeout_ms:
            self._context.reply(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            self._find_or_create(request.transactional_id, request, deadline_ms, now_ms)

    def _find_or_create(self, transactional_id: str, request: _Begin, deadline_ms: int, now_ms: int) -> None:
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
        unused = self._limit.unused(shard, now_ms) if self._limit.is_full(shard) else None
        if unused is None and self._limit.is_full(shard):
            self._context.answer(shard, request, ErrorCode.POLICY_VIOLATION)
            return
        producer_id = self._context.take_producer_id(request, deadline_ms)
        if producer_id is not None:
            if unused is not None:
                self._context.log(unused, transitions.expired(unused.current, now_ms))
            created = transitions.created(producer_id, _timeout_of(request), now_ms)
            transaction = self._context.table.add(transactional_id, shard, created)
            self._init_existing(transaction, request, deadline_ms, now_ms)

    def _init_existing(self, transaction: Transaction, request: _Begin, deadline_ms: int, now_ms: int) -> None:
        current, expected = transaction.current, _who_is_named(request)
        is_named = expected is not None
        if self._meets_pool(transaction, request, deadline_ms):
            return
        if isinstance(request, BeginBranched) and self._share(transaction, request, deadline_ms, now_ms):
            return
        outcome = outcome_of_init(current, expected, keeps=_keeps(request))
        if outcome is InitOutcome.REFUSED:
            self._context.answer(transaction.shard, request, ErrorCode.PRODUCER_FENCED)
        elif outcome is InitOutcome.WAIT:
            self._context.hold(transaction, request, deadline_ms)
        elif outcome is InitOutcome.KEPT_ALREADY:
            self._context.confirm(transaction, request)
        elif outcome is InitOutcome.KEEP:
            self._keep(transaction, request, deadline_ms, now_ms)
        elif outcome is InitOutcome.RESOLVE_FIRST:
            self._context.hold(transaction, request, deadline_ms)
            self._context.questions.want(transaction)
        elif outcome is InitOutcome.ABORT_FIRST:
            if not self._context.is_refused(transaction.shard, request):
                abort = transitions.aborted_by_coordinator(current, is_named=is_named, now_ms=now_ms)
                self._completion.decide(transaction, abort)
                # It waits for the markers now, unless there are none to wait for.
                self._init_existing(transaction, request, deadline_ms, now_ms)
        elif outcome is InitOutcome.NEW_PRODUCER_ID:
            self._rotate(transaction, request, deadline_ms, now_ms)
        elif outcome is InitOutcome.SAME_IDENTITY:
            same = transitions.with_same_identity(current, _timeout_of(request), now_ms)
            self._give(transaction, same, request, deadline_ms, now_ms)
        else:
            raised = transitions.with_next_epoch(current, _timeout_of(request), is_named=is_named, now_ms=now_ms)
            self._give(transaction, raised, request, deadline_ms, now_ms)

    def _meets_pool(self, transaction: Transaction, request: _Begin, deadline_ms: int) -> bool:
        """Refuse what would end something prepared, or let a request wait for slots; return whether that is so."""
        current, shard = transaction.current, transaction.shard
        pool = shard.pools.get(transaction.transactional_id)
        if isinstance(request, TakePoolOver) and request.owner is not None:
            self._give_when_quiet(transaction, request, request.owner, deadline_ms)
        elif isinstance(request, TakePoolOver) and current.is_prepared and current.resolver is None:
            self._context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        elif isinstance(request, BeginBranched) and pool is not None:
            self._context.answer(shard, request, ErrorCode.INVALID_REQUEST)
        elif isinstance(request, InitProducerId) and pool is not None and pool.under_way and not pool.has_any():
            # It has fenced the pool before, or finds it so, and what was begun there comes to its end first.
            self._context.hold(transaction, request, deadline_ms)
        else:
            return False
        return True

    def _share(self, transaction: Transaction, request: BeginBranched, deadline_ms: int, now_ms: int) -> bool:
        """Answer a worker that shares a transaction which there is, or was; return whether that is so."""
        if not request.is_shared:
            return False
        current, shard = transaction.current, transaction.shard
        standing = standing_of(current, request.tag, begins_anew=request.begins_anew)
        if standing is TagStanding.COMMITTED:
            self._context.confirm_committed(transaction, request)
        elif standing is TagStanding.OPEN and current.is_closed:
            self._context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        elif standing is TagStanding.OPEN and request.opens_branch:
            self._branches.open_in(transaction, request, deadline_ms, now_ms)
        elif standing is TagStanding.OPEN:
            self._context.confirm(transaction, request)
        elif standing is TagStanding.OVERTAKEN:
            self._context.answer(shard, request, ErrorCode.PRODUCER_FENCED)
        else:
            return False
        return True

    def _keep(self, transaction: Transaction, request: _Begin, deadline_ms: int, now_ms: int) -> None:
        """Leave what is open to the producer, under an identity that no producer before it has had."""
        current = transaction.current
        before = current.holder
        if current.is_epoch_exhausted:
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is None:
                return
            holder = ProducerIdentity(producer_id, 0)
        else:
            holder = ProducerIdentity(before.producer_id, before.epoch + 1)
        is_named = _who_is_named(request) is not None
        kept = transitions.kept(current, holder, _timeout_of(request), is_named=is_named, now_ms=now_ms)
        if self._context.log(transaction, kept, request) and isinstance(request, InitProducerId):
            self._context.guard.bind(transaction, request)

    def _rotate(self, transaction: Transaction, request: _Begin, deadline_ms: int, now_ms: int) -> None:
        producer_id = self._context.take_producer_id(request, deadline_ms)
        if producer_id is not None:
            expected = _who_is_named(request)
            named_epoch = NO_EPOCH if expected is None else expected.epoch
            rotated = transitions.with_new_producer_id(
                transaction.current, producer_id, named_epoch, _timeout_of(request), now_ms
            )
            self._give(transaction, rotated, request, deadline_ms, now_ms)

    def _give(
        self,
        transaction: Transaction,
        identity: Snapshot,
        request: _Begin,
        deadline_ms: int,
        now_ms: int,
    ) -> None:
        """Have an identity logged for the client that asks for it, with a tag and a first branch if it wants them."""
        owner = request.owner if isinstance(request, InitProducerId) else None
        identity = replace(identity, origin=encode_origin(request.origin), owner=owner)
        if _who_is_named(request) is None:
            transaction.why_ended = None
        is_pool = isinstance(request, TakePoolOver) or transaction.transactional_id in transaction.shard.pools
        if is_pool and not isinstance(request, BeginBranched):
            self._give_pool(transaction, identity, request, deadline_ms)
            return
        if isinstance(request, BeginBranched):
            identity = transitions.with_tag(identity, transaction.current, request.tag, begins_anew=request.begins_anew)
            if request.opens_branch:
                if not self._context.is_refused(transaction.shard, request):
                    self._context.log(transaction, identity)
                    # Where the branch waits for a producer id, the request finds the transaction open afterwards.
                    self._branches.open_in(transaction, request, deadline_ms, now_ms)
                return
        if transaction.why_ended is None:
            is_logged = self._context.log(transaction, identity, request)
        else:
            is_logged = self._log_and_say_why(transaction, identity, request)
        if is_logged and isinstance(request, InitProducerId):
            self._context.guard.bind(transaction, request)

    def _give_pool(
        self,
        transaction: Transaction,
        identity: Snapshot,
        request: InitProducerId | TakePoolOver,
        deadline_ms: int,
    ) -> None:
        """Have an identity logged that fences all slots there are; what they have under way ends before the answer."""
        context, pool = self._context, transaction.shard.pools.get(transaction.transactional_id)
        if context.is_refused(transaction.shard, request):
            return
        context.log(transaction, identity)
        if pool is not None:
            self._pools.end_what_is_lost(pool, identity.updated_ms)
        if isinstance(request, TakePoolOver):
            self._give_when_quiet(transaction, request, identity.holder, deadline_ms)
        elif pool is not None and pool.under_way:
            context.hold(transaction, request, deadline_ms)
        else:
            context.confirm(transaction, request)
            context.guard.bind(transaction, request)

    def _give_when_quiet(
        self, transaction: Transaction, request: TakePoolOver, owner: ProducerIdentity, deadline_ms: int
    ) -> None:
        """Answer a program that has taken a pool over, unless something is under way there or another has it by now."""
        context, pool = self._context, transaction.shard.pools.get(transaction.transactional_id)
        if not transaction.current.is_held_by(owner):
            context.answer(transaction.shard, request, ErrorCode.PRODUCER_FENCED)
        elif pool is not None and pool.under_way:
            context.hold(transaction, replace(request, owner=owner), deadline_ms)
        else:
            self._pools.answer(transaction, request, pool, owner)

    def _log_and_say_why(self, transaction: Transaction, identity: Snapshot, request: _Begin) -> bool:
        """Have an identity logged for a client that is told why its last transaction has ended."""
        told = Reply(request.request_id, ErrorCode.NONE, identity.holder, message=transaction.why_ended)
        if self._context.is_refused(transaction.shard, request):
            return False
        self._context.log(transaction, identity)
        self._context.say(transaction.shard, told)
        return True


def _keeps(request: _Begin) -> bool:
    return isinstance(request, InitProducerId) and request.keep_prepared


def _timeout_of(request: _Begin) -> int:
    is_two_phase = isinstance(request, InitProducerId) and request.two_phase
    return NO_TIMEOUT_MS if is_two_phase else request.timeout_ms


def _who_is_named(request: _Begin) -> ProducerIdentity | None:
    return request.expected if isinstance(request, InitProducerId) else None
