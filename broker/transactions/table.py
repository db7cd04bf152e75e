"""Which transactional ids a coordinator answers for, and where each of them stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from eagleray.broker.identities import LAST_EPOCH
from eagleray.broker.runtime.connection_bindings import ConnectionBindings
from eagleray.broker.runtime.coordinator_runtime import CoordinatorRuntime, CoordinatorShard
from eagleray.broker.transactions.events import Answer, HeldTooLong, SendMarkers
from eagleray.broker.transactions.pools.names import log_partition_of, slot_of
from eagleray.broker.transactions.pools.pool import Pool
from eagleray.broker.transactions.resolver_events import AskResolver
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import may_follow
from eagleray.protocol.errors import ErrorCode

NO_DECISION = 0

Said: TypeAlias = Answer | SendMarkers | HeldTooLong | AskResolver
"""What waits until the log on which it rests is committed."""


class TransactionShard(CoordinatorShard[str, Snapshot | None, Said]):
    """One partition of the transaction log, at one coordinator epoch, and the transactional ids that it keeps."""

    __slots__ = ("bindings", "ongoing", "pools", "transactions")

    def __init__(self, partition: int, epoch: int, questions: Iterator[int]) -> None:
        super().__init__(partition, epoch)
        self.bindings: ConnectionBindings[str] = ConnectionBindings(questions)
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        """Those that can time out, kept apart from the many that cannot."""
        self.pools: dict[str, Pool] = {}
        """Those that have slots, by their names."""


TransactionRuntime: TypeAlias = CoordinatorRuntime[TransactionShard, str, Snapshot | None, Said]


class Transaction:
    """A transactional id as its coordinator knows it: what is in the log, or appended to it at the end of this turn.

    Promises: `current` goes only the ways that `VALID_PREVIOUS` allows. Between a decision and its end it runs ahead of
    the log by no more than follows from the decision without another (`finish`), once all markers are written.
    """

    __slots__ = ("current", "decision", "is_ahead", "pool", "shard", "transactional_id", "why_ended")

    def __init__(self, transactional_id: str, shard: TransactionShard, current: Snapshot) -> None:
        self.transactional_id = transactional_id
        self.shard = shard
        self.current = current
        self.decision = NO_DECISION
        """The decision whose markers are under way: its number, from when they are asked for until they are written."""
        self.is_ahead = False
        """It is finished, and the log still has the decision: a recovery would have the markers written once more."""
        self.why_ended: str | None = None
        """Why the coordinator has aborted the last transaction, where its producer is told more than that it did."""
        self.pool: Pool | None = None
        """Of a slot: the pool that it is one of."""

    @property
    def is_lost(self) -> bool:
        """Whether this is a slot that no owner of its pool has: its producer is fenced, whatever its own epoch is."""
        return self.pool is not None and not self.pool.has(self)

    def finish(self, completed: Snapshot) -> None:
        """Take note that every marker is written, which the log need not be told before anything else has happened."""
        assert may_follow(completed.state, self.current.state), f"{self.transactional_id}: finished without a decision"
        self.current = completed
        self.decision = NO_DECISION
        self.is_ahead = True

    def change_to(self, transition: Snapshot) -> None:
        """Take a transition that is being appended to the log."""
        current = self.current
        assert may_follow(transition.state, current.state) or (self.is_ahead and transition is current), (
            f"{self.transactional_id}: no way from {current.state.name} to {transition.state.name}"
        )
        assert transition.producer_epoch >= current.producer_epoch or (transition.producer_id != current.producer_id), (
            f"{self.transactional_id}: an epoch never falls"
        )
        assert transition.producer_epoch <= LAST_EPOCH, f"{self.transactional_id}: no epoch comes after {LAST_EPOCH}"
        self.current = transition
        self.is_ahead = False


class TransactionTable:
    """Every transactional id of one coordinator by its name, and the shard that each belongs to."""

    def __init__(self, partitions: int, shards: dict[int, TransactionShard]) -> None:
        self._partitions = partitions
        self._shards = shards
        self._transactions: dict[str, Transaction] = {}
        self.find = self._transactions.get
        """Return the transaction of a transactional id, or None where this coordinator has none."""

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def partition_of(self, transactional_id: str) -> int:
        """Say which partition of the transaction log keeps a transactional id."""
        return log_partition_of(transactional_id, self._partitions)

    def find_shard(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """Return the shard that a transactional id belongs to, or why it cannot be asked here and now."""
        shard = self._shards.get(self.partition_of(transactional_id))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def add(self, transactional_id: str, shard: TransactionShard, current: Snapshot) -> Transaction:
        """Enter a transactional id."""
        transaction = Transaction(transactional_id, shard, current)
        shard.transactions[transactional_id] = transaction
        self._transactions[transactional_id] = transaction
        self._enter_pool(transaction)
        if current.can_time_out:
            shard.ongoing[transactional_id] = transaction
        return transaction

    def _enter_pool(self, transaction: Transaction) -> None:
        pools, slot = transaction.shard.pools, slot_of(transaction.transactional_id)
        if slot is not None:
            pool = pools.get(slot.pool)
            if pool is None:
                pool = pools[slot.pool] = Pool(slot.pool)
                pool.head = self.find(slot.pool)
            pool.slots[slot.number] = transaction
            transaction.pool = pool
        elif (pool := pools.get(transaction.transactional_id)) is not None:
            pool.head = transaction

    def remove(self, transaction: Transaction) -> None:
        """Forget a transactional id."""
        del self._transactions[transaction.transactional_id]
        del transaction.shard.transactions[transaction.transactional_id]
        self._leave_pool(transaction)

    def _leave_pool(self, transaction: Transaction) -> None:
        pools, slot = transaction.shard.pools, slot_of(transaction.transactional_id)
        if slot is not None:
            del pools[slot.pool].slots[slot.number]
            if not pools[slot.pool].slots:
                del pools[slot.pool]
        elif (pool := pools.get(transaction.transactional_id)) is not None:
            pool.head = None

    def remove_all(self, shard: TransactionShard) -> None:
        """Forget all that a partition of the transaction log holds."""
        for transactional_id in shard.transactions:
            # One that was being entered when a request failed may not be here.
            self._transactions.pop(transactional_id, None)
