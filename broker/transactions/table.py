"""Which transactional ids a coordinator answers for, and where each of them stands."""

from __future__ import annotations

from collections.abc import Iterator

from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import NO_EPOCH
from eagleray.broker.transactions.events import Request
from eagleray.broker.transactions.holding import JoinedRequests
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState, may_follow
from eagleray.protocol.errors import ErrorCode

NO_DECISION = 0


class TransactionShard:
    """One partition of the transaction log, at one coordinator epoch, and the transactional ids that it keeps."""

    __slots__ = ("coordinator_epoch", "is_loaded", "log_partition", "ongoing", "transactions")

    def __init__(self, log_partition: int, coordinator_epoch: int) -> None:
        self.log_partition = log_partition
        self.coordinator_epoch = coordinator_epoch
        self.is_loaded = False
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        """Those that can time out, kept apart from the many that cannot."""


class Transaction:
    """A transactional id as its coordinator knows it: what is in the log, and what is on its way there.

    Promises: at most one transition is under way, and it is one that `VALID_PREVIOUS` allows. `current` is what the log
    has, or what follows from that without a decision, once all markers are written (`finish`): it changes otherwise
    only in `complete`, once the log has the transition; `abandon` forgets one that did not reach it.
    """

    __slots__ = (
        "current",
        "decision",
        "has_failed_fence",
        "is_ahead",
        "pending",
        "request",
        "shard",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, shard: TransactionShard, current: Snapshot) -> None:
        self.transactional_id = transactional_id
        self.shard = shard
        self.current = current
        self.pending: Snapshot | None = None
        self.request: Request | JoinedRequests | None = None
        """The request that is answered when the pending transition is in the log."""
        self.decision = NO_DECISION
        """The decision whose markers are under way: its number, from when they are asked for until they are written."""
        self.has_failed_fence = False
        """Its producer was to be fenced, but the log did not take it; it stays fenced while that is tried again."""
        self.is_ahead = False
        """It is finished, and the log still has the decision: a recovery would have the markers written once more."""

    def finish(self, completed: Snapshot) -> None:
        """Take note that every marker is written, which the log need not be told before anything else has happened."""
        assert self.pending is None, f"{self.transactional_id}: finished during a transition"
        assert may_follow(completed.state, self.current.state), f"{self.transactional_id}: finished without a decision"
        self.current = completed
        self.decision = NO_DECISION
        self.is_ahead = True

    def prepare(self, transition: Snapshot, request: Request | JoinedRequests | None) -> None:
        """Note that a transition is on its way to the log, and who asked for it."""
        current = self.current
        assert self.pending is None, f"{self.transactional_id}: two transitions at once"
        assert may_follow(transition.state, current.state) or (self.is_ahead and transition is current), (
            f"{self.transactional_id}: no way from {current.state.name} to {transition.state.name}"
        )
        assert transition.producer_epoch >= current.producer_epoch or (transition.producer_id != current.producer_id), (
            f"{self.transactional_id}: an epoch never falls"
        )
        self.pending = transition
        self.request = request

    def complete(self) -> Snapshot:
        """Take the transition that the log now has."""
        assert self.pending is not None, f"{self.transactional_id}: there is no transition to complete"
        self.current = self.pending
        self.pending = None
        self.has_failed_fence = False
        self.is_ahead = False
        return self.current

    def abandon(self) -> None:
        """Forget the transition that did not reach the log."""
        assert self.pending is not None, f"{self.transactional_id}: there is no transition to abandon"
        # A coordinator that has once resolved to fence a producer does not go back on it. The next try starts from the
        # same epoch, so that trying often does not use epochs up.
        self.has_failed_fence = self.has_failed_fence or self._is_fence(self.pending)
        self.pending = None

    def _is_fence(self, transition: Snapshot) -> bool:
        """Whether a transition aborts at a raised epoch and leaves no way back for the one who has the epoch before."""
        is_abort = transition.state is TransactionState.PREPARE_ABORT
        is_raised = transition.producer_epoch > self.current.producer_epoch
        return is_abort and is_raised and transition.last_producer_epoch == NO_EPOCH


class TransactionTable:
    """The shards of one coordinator, and every transactional id in them by its name."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._transactions: dict[str, Transaction] = {}
        self.shards: dict[int, TransactionShard] = {}
        self.find = self._transactions.get
        """Return the transaction of a transactional id, or None where this coordinator has none."""

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def partition_of(self, transactional_id: str) -> int:
        """Say which partition of the transaction log keeps a transactional id."""
        return partition_for_name(transactional_id, self._partitions)

    def find_shard(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """Return the shard that a transactional id belongs to, or why it cannot be asked here and now."""
        shard = self.shards.get(self.partition_of(transactional_id))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def add(self, transactional_id: str, shard: TransactionShard, current: Snapshot) -> Transaction:
        """Enter a transactional id."""
        transaction = Transaction(transactional_id, shard, current)
        shard.transactions[transactional_id] = transaction
        self._transactions[transactional_id] = transaction
        if current.state is TransactionState.ONGOING:
            shard.ongoing[transactional_id] = transaction
        return transaction

    def remove(self, transaction: Transaction) -> None:
        """Forget a transactional id."""
        del self._transactions[transaction.transactional_id]
        del transaction.shard.transactions[transaction.transactional_id]

    def open_shard(self, log_partition: int, coordinator_epoch: int) -> None:
        """Begin with a partition of the transaction log, as yet without what it holds."""
        self.shards[log_partition] = TransactionShard(log_partition, coordinator_epoch)

    def close_shard(self, shard: TransactionShard) -> None:
        """Forget a partition of the transaction log and all that it holds."""
        del self.shards[shard.log_partition]
        for transactional_id in shard.transactions:
            del self._transactions[transactional_id]
