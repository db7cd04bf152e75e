"""How branches are opened, and how partitions join a transaction that has or had them."""

from __future__ import annotations

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches.branching import BRANCH_EPOCH, Branch
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import AddPartitions, BeginBranched, OpenBranch
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_OPEN = (TransactionState.EMPTY, TransactionState.ONGOING)
_COMMITTED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
_NONE = ErrorCode.NONE


class BranchServer:
    """Serves OpenBranch, and AddPartitions for transactional ids that have or had branches.

    A job of a thousand tasks opens as many branches and writes to all of them at once, and each record of its
    transaction has every branch. What joins in one turn takes one record, so it does not cost the square.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def open(self, request: OpenBranch, deadline_ms: int, now_ms: int) -> None:
        """Serve a driver that wants a branch."""
        transaction = self._context.table.find(request.transactional_id)
        if transaction is None:
            self._context.refuse_unknown(request)
            return
        error_code = _refusal_to_open(transaction, request.owner)
        if error_code is not _NONE:
            self._context.answer(transaction.shard, request, error_code)
        else:
            self.open_in(transaction, request, deadline_ms, now_ms)

    def open_in(
        self, transaction: Transaction, request: OpenBranch | BeginBranched, deadline_ms: int, now_ms: int
    ) -> None:
        """Open a branch of a transaction that takes branches, for its driver or for a worker that takes part."""
        branches = _branches_of(transaction.current)
        if len(branches) >= self._context.config.max_transaction_branches:
            self._context.answer(transaction.shard, request, ErrorCode.POLICY_VIOLATION)
        elif not self._context.is_refused(transaction.shard, request):
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is not None:
                opened = branches | {producer_id: Branch()}
                joined = transitions.joined_by_many(
                    transaction.current, _partitions_of(transaction.current), opened, IMPLICIT_VERSION, now_ms
                )
                self._context.log(transaction, joined, request, ProducerIdentity(producer_id, BRANCH_EPOCH))

    def add(self, transaction: Transaction, request: AddPartitions, deadline_ms: int, now_ms: int) -> None:
        """Serve a branch that is about to write to partitions, or the holder of the transactional id itself."""
        current, shard = transaction.current, transaction.shard
        branch = self.find(transaction, request.producer)
        if branch is not None:
            error_code = refusal_to_write(transaction, request.producer)
            if error_code is not _NONE or branch.partitions.issuperset(request.partitions):
                self._context.answer(shard, request, error_code)
            else:
                self._add_to_branch(transaction, branch, request, now_ms)
        elif not current.is_held_by(request.producer):
            self._context.answer(shard, request, current.refusal_of(request.producer))
        elif current.is_decided:
            self._context.hold(transaction, request, deadline_ms)
        elif current.is_closed:
            self._context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        elif _partitions_of(current).issuperset(request.partitions):
            self._context.answer(shard, request, _NONE)
        elif request.client is None or not self._context.guard.refuses(transaction, request):
            partitions = _partitions_of(current).union(request.partitions)
            version = IMPLICIT_VERSION if current.is_branched else request.client_version
            joined = transitions.joined_by_many(current, partitions, _branches_of(current), version, now_ms)
            self._context.log(transaction, joined, request)

    def _add_to_branch(self, transaction: Transaction, branch: Branch, request: AddPartitions, now_ms: int) -> None:
        current = transaction.current
        written = {request.producer.producer_id: Branch(branch.partitions.union(request.partitions))}
        version = IMPLICIT_VERSION if current.is_branched else current.client_version
        joined = transitions.joined_by_many(
            current, current.partitions, _branches_of(current) | written, version, now_ms
        )
        self._context.log(transaction, joined, request)

    def find(self, transaction: Transaction, producer: ProducerIdentity) -> Branch | None:
        """Return the branch that a producer writes in, if it is one of this transaction or of the last."""
        branching = transaction.current.branching
        return None if branching is None else branching.branches.get(producer.producer_id)


def _partitions_of(current: Snapshot) -> frozenset[TopicPartition]:
    """What the holder of the transactional id has written to in the transaction at hand."""
    return current.partitions if current.state is _ONGOING else frozenset()


def _branches_of(current: Snapshot) -> dict[int, Branch]:
    """The branches of the transaction at hand; what is left from one that is over does not go into the next."""
    return current.branching.branches if current.branching is not None and current.state is _ONGOING else {}


def refusal_to_write(transaction: Transaction, branch: ProducerIdentity) -> ErrorCode:
    """Why a branch may not be written to any more, or NONE where it may."""
    if branch.epoch != BRANCH_EPOCH:
        return ErrorCode.PRODUCER_FENCED
    current = transaction.current
    return _NONE if current.state is _ONGOING and not current.is_closed else ErrorCode.INVALID_TXN_STATE


def _refusal_to_open(transaction: Transaction, owner: ProducerIdentity) -> ErrorCode:
    current = transaction.current
    if current.is_held_by(owner):
        is_open = current.is_branched and current.state in _OPEN and not current.is_closed
        return _NONE if is_open else ErrorCode.INVALID_TXN_STATE
    if current.was_held_by(owner) and current.state in _COMMITTED:
        # It has committed itself. What it finds aborted may be the coordinator's doing, and then it is fenced.
        return ErrorCode.INVALID_TXN_STATE
    return current.refusal_of(owner)
