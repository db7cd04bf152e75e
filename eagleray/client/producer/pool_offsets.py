"""Which transactions of a pool hold offsets of which groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS
from eagleray.broker.transactions.descriptions import DescribeTransaction, TransactionDescription
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.errors import OffsetsInUse, TransactionNotFound
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime

_Place: TypeAlias = tuple[str, TopicPartition]
"""A group, and a partition that it reads."""


class PoolOffsets:
    """Refuses offsets of a group and partition that another transaction of the pool holds, and has not ended.

    Two such commits would be decided one by one, so that the group could go back behind what is committed. A pool has
    one owner, which asks here before it sends any: so no two of its open transactions hold the same. Of what an earlier
    owner has left prepared only the partition of `__consumer_offsets` is known: until it has ended, all groups that are
    kept there are refused.
    """

    def __init__(self, runtime: ClientRuntime) -> None:
        self._runtime = runtime
        self._open: dict[_Place, object] = {}
        self._held: dict[object, set[_Place]] = {}
        """The same by transaction."""
        self._left: dict[PreparedTransaction, set[_Place]] = {}
        """What was prepared by this owner and left so."""
        self._recovered: dict[PreparedTransaction, frozenset[TopicPartition]] = {}
        """What earlier owners have left: the partitions of the offsets topic that it has written to."""

    def recover(self, left: Iterable[TransactionDescription]) -> None:
        """Take note of what earlier owners have left prepared."""
        for each in left:
            written = frozenset(partition for partition in each.partitions if partition.topic == CONSUMER_OFFSETS)
            if written:
                self._recovered[PreparedTransaction(each.transactional_id, each.producer)] = written

    async def take(self, transaction: object, group: str, offsets: Iterable[OffsetToCommit]) -> None:
        """Let a transaction hold offsets until `release`; raises OffsetsInUse where another does."""
        places = {(group, offset.partition) for offset in offsets}
        for place in places:
            if self._open.get(place, transaction) is not transaction:
                raise _in_use(place, "another open transaction of the pool")
        self._open |= dict.fromkeys(places, transaction)
        self._held.setdefault(transaction, set()).update(places)
        for prepared in self._conflicts(places):
            if await self._is_open(prepared):
                raise _in_use(min(places), f"{prepared}, as far as is known, which is prepared and has not ended")
            self._left.pop(prepared, None)
            self._recovered.pop(prepared, None)

    def _conflicts(self, places: set[_Place]) -> list[PreparedTransaction]:
        if not self._left and not self._recovered:
            return []
        kept_in = {self._runtime.view.group_partition(group) for group, _ in places}
        left = [prepared for prepared, held in self._left.items() if not held.isdisjoint(places)]
        return left + [prepared for prepared, written in self._recovered.items() if not written.isdisjoint(kept_in)]

    async def _is_open(self, prepared: PreparedTransaction) -> bool:
        """Whether a prepared transaction has not been completed yet."""
        runtime = self._runtime
        try:
            reply = await call_with_retries(
                runtime,
                lambda: runtime.view.transaction_coordinator(prepared.transactional_id),
                f"asking about {prepared}",
                Question(DescribeTransaction, prepared.transactional_id),
                retry_policy=RetryPolicy(),
            )
        except TransactionNotFound:
            return False
        found = reply.transaction
        return found is not None and found.prepared_ms >= 0 and found.producer == prepared.producer

    def release(self, transaction: object, prepared: PreparedTransaction | None = None) -> None:
        """Let go of what a transaction holds, which has ended, or is left prepared."""
        held = self._held.pop(transaction, None)
        for place in held or ():
            del self._open[place]
        if prepared is not None and held:
            self._left[prepared] = held


def _in_use(place: _Place, holder: str) -> OffsetsInUse:
    group, partition = place
    return OffsetsInUse(f"offsets of group {group!r} for {partition} are held by {holder}.")
