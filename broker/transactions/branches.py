"""How branches are opened, and how partitions join a transaction that has or had them."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branching import BRANCH_EPOCH, Branch
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import AddPartitions, OpenBranch, Reply
from eagleray.broker.transactions.holding import Held, JoinedRequests
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_OPEN = (TransactionState.EMPTY, TransactionState.ONGOING)
_COMMITTED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
_NONE = ErrorCode.NONE


class Joining:
    """What requests add to a transaction, gathered so that all of them take one record of the log.

    A job of a thousand tasks opens as many branches and writes to all of them at once. Each record of its transaction
    has every branch, so a record for each request would cost the square of their number.
    """

    def __init__(self, transaction: Transaction) -> None:
        current, branching = transaction.current, transaction.current.branching
        is_ongoing = current.state is _ONGOING
        self._transaction = transaction
        self._version = IMPLICIT_VERSION if current.is_branched else current.client_version
        self._replies: list[Reply] = []
        self.partitions = current.partitions if is_ongoing else frozenset[TopicPartition]()
        # What is left from a transaction that is over does not go into the next.
        self.branches = dict(branching.branches) if branching is not None and is_ongoing else {}

    def open_branch(self, request: OpenBranch, producer_id: int) -> None:
        """Add a branch, which its reply tells of."""
        self.branches[producer_id] = Branch()
        self._replies.append(Reply(request.request_id, _NONE, ProducerIdentity(producer_id, BRANCH_EPOCH)))

    def add_to_branch(self, request: AddPartitions) -> None:
        """Add partitions to a branch."""
        producer_id = request.producer.producer_id
        self.branches[producer_id] = Branch(self.branches[producer_id].partitions.union(request.partitions))
        self._replies.append(Reply(request.request_id, _NONE))

    def add_to_owner(self, request: AddPartitions) -> None:
        """Add partitions to what the holder of the transactional id writes itself."""
        self.partitions = self.partitions.union(request.partitions)
        if not self._transaction.current.is_branched:
            self._version = request.client_version
        self._replies.append(Reply(request.request_id, _NONE))

    def log(self, context: CoordinatorContext, now_ms: int) -> None:
        """Have it logged, if anything was added."""
        if self._replies:
            current = self._transaction.current
            joined = transitions.joined_by_many(current, self.partitions, self.branches, self._version, now_ms)
            context.log(self._transaction, joined, JoinedRequests(tuple(self._replies)))


class BranchServer:
    """Serves OpenBranch, and AddPartitions for transactional ids that have or had branches."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def join(self, transaction: Transaction, requests: Iterable[Held], now_ms: int) -> None:
        """Let requests join a transaction, in their order and by one record; or let them wait, or refuse them."""
        if transaction.pending is not None:
            for held in requests:
                self._context.hold(transaction, held.request, held.deadline_ms)
            return
        joining = Joining(transaction)
        for held in requests:
            if isinstance(held.request, OpenBranch):
                self._open(transaction, held.request, held.deadline_ms, joining)
            else:
                assert isinstance(held.request, AddPartitions)
                self._add(transaction, held.request, held.deadline_ms, joining)
        joining.log(self._context, now_ms)

    def _open(self, transaction: Transaction, request: OpenBranch, deadline_ms: int, joining: Joining) -> None:
        error_code = _refusal_to_open(transaction, request.owner)
        if error_code is not _NONE:
            self._context.reply(request, error_code)
        elif len(joining.branches) >= self._context.config.max_transaction_branches:
            self._context.reply(request, ErrorCode.POLICY_VIOLATION)
        else:
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is not None:
                joining.open_branch(request, producer_id)

    def _add(self, transaction: Transaction, request: AddPartitions, deadline_ms: int, joining: Joining) -> None:
        current = transaction.current
        branch = self.find(transaction, request.producer)
        if branch is not None:
            error_code = refusal_to_write(transaction, request.producer)
            if error_code is not _NONE or branch.partitions.issuperset(request.partitions):
                self._context.reply(request, error_code)
            else:
                joining.add_to_branch(request)
        elif transaction.has_failed_fence or not current.is_held_by(request.producer):
            self._context.reply(request, current.refusal_of(request.producer))
        elif current.is_decided:
            self._context.hold(transaction, request, deadline_ms)
        elif joining.partitions.issuperset(request.partitions):
            self._context.reply(request, _NONE)
        else:
            joining.add_to_owner(request)

    def find(self, transaction: Transaction, producer: ProducerIdentity) -> Branch | None:
        """Return the branch that a producer writes in, if it is one of this transaction or of the last."""
        branching = transaction.current.branching
        return None if branching is None else branching.branches.get(producer.producer_id)


def refusal_to_write(transaction: Transaction, branch: ProducerIdentity) -> ErrorCode:
    """Why a branch may not be written to any more, or NONE where it may."""
    if transaction.has_failed_fence or branch.epoch != BRANCH_EPOCH:
        return ErrorCode.PRODUCER_FENCED
    return _NONE if transaction.current.state is _ONGOING else ErrorCode.INVALID_TXN_STATE


def _refusal_to_open(transaction: Transaction, owner: ProducerIdentity) -> ErrorCode:
    current = transaction.current
    if transaction.has_failed_fence:
        return current.refusal_of(owner)
    if current.is_held_by(owner):
        is_open = current.is_branched and current.state in _OPEN
        return _NONE if is_open else ErrorCode.INVALID_TXN_STATE
    if current.was_held_by(owner) and current.state in _COMMITTED:
        # It has committed itself. What it finds aborted may be the coordinator's doing, and then it is fenced.
        return ErrorCode.INVALID_TXN_STATE
    return current.refusal_of(owner)
