"""How long a transaction may hold back those who read the topics that it writes to: `transaction.max.hold.ms`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from eagleray.broker.metadata.topic_configs import MAX_HOLD, NO_MAX_HOLD_MS
from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.table import Transaction


class HoldLimit(NamedTuple):
    """What bounds a transaction: the smallest limit of its topics, and which of them has it."""

    limit_ms: int
    topic: str


class HoldLimits:
    """Which transactions have to end for the sake of those who read what they write to, and when.

    Owns: the limits of the topics that have one, and a deadline for each ongoing transaction that writes to one of
    them. A deadline may be that of an earlier transaction of the same producer: who takes it asks `limit_of` again.
    """

    def __init__(self) -> None:
        self.limits_ms: Mapping[str, int] = {}
        self._due: Deadlines[str] = Deadlines()
        self.take_due = self._due.take_due

    @property
    def next_due_ms(self) -> int:
        """When a transaction has to end; NEVER_MS where no topic has a limit."""
        return self._due.next_due_ms if self.limits_ms else NEVER_MS

    def change(self, limits_ms: Mapping[str, int], ongoing: Iterable[Transaction]) -> None:
        """Take the limits that topics have now; they count for what is open already, too."""
        self.limits_ms = limits_ms
        self._due.clear()
        for transaction in ongoing:
            self.watch(transaction)

    def watch(self, transaction: Transaction) -> None:
        """Note when an ongoing transaction has to end, if one of its topics has a limit."""
        limit = self.limit_of(transaction.current)
        if limit is not None:
            self._due.set(transaction.transactional_id, transaction.current.start_ms + limit.limit_ms)

    def watch_again(self, transaction: Transaction, due_ms: int) -> None:
        """Look at a transaction later, whose end the log does not take now."""
        self._due.set(transaction.transactional_id, due_ms)

    def limit_of(self, current: Snapshot) -> HoldLimit | None:
        """Return what bounds a transaction; None where nothing does, or it is prepared or decided."""
        limits_ms = self.limits_ms
        if not limits_ms or not current.can_time_out:
            return None
        partitions = current.partitions
        if current.branching is not None:
            partitions |= current.branching.partitions
        topics = {partition.topic for partition in partitions}
        return min((HoldLimit(limits_ms[topic], topic) for topic in topics if topic in limits_ms), default=None)

    def max_hold_ms(self, current: Snapshot) -> int:
        """Return how long a transaction may hold readers back, for those who ask; NO_MAX_HOLD_MS for ever."""
        limit = self.limit_of(current)
        return NO_MAX_HOLD_MS if limit is None else limit.limit_ms


def why_ended(limit: HoldLimit, held_ms: int) -> str:
    """Say to a producer why its transaction is over."""
    return (
        f"the transaction was aborted after {held_ms} ms, for topic {limit.topic!r} has {MAX_HOLD}={limit.limit_ms}: "
        "no transaction may hold its readers back for longer"
    )
