"""The admin's part about transactions: what is open, whose it is, and how to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from eagleray.actors.lanes.link import Reply
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.controller.topics import TRANSACTION_STATE
from eagleray.broker.identities import NO_EPOCH, TopicPartition
from eagleray.broker.messages import Marker, RequestOf
from eagleray.broker.partitions.events import DescribeProducers, MarkersAnswered, ProducersDescribed, WriteMarkers
from eagleray.broker.transactions.events import (
    DescribeTransaction,
    InitProducerId,
    ListTransactions,
    TransactionDescription,
    TransactionsListed,
)
from eagleray.client import validation
from eagleray.client.admin.descriptions import HangingTransaction
from eagleray.client.calls import RetryPolicy, call_with_retries, first_error
from eagleray.client.errors import TransactionNotFound
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

UNDECIDED_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
_ABORT_TIMEOUT_MS = 60_000


class TransactionAdmin:
    """Looks into transactions and ends them.

    Owns: nothing. Ending a transaction fences its producer, so that it cannot go on without noticing.
    """

    def __init__(self, runtime: ClientRuntime, retry_policy: RetryPolicy) -> None:
        self._runtime = runtime
        self._retry_policy = retry_policy

    async def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), older_than_ms: int = -1
    ) -> list[TransactionDescription]:
        """Return what coordinators know, of all transactional ids or of those in some states or of some producers."""
        fields = (
            validation.transaction_states(states),
            validation.producer_ids(producer_ids),
            validation.integer("older_than_ms", older_than_ms, -1),
        )
        doing = "listing transactions"
        replies: list[TransactionsListed]
        replies = await self._ask_all_leaders(TRANSACTION_STATE, doing, ListTransactions, *fields)
        found = (transaction for reply in replies for transaction in reply.transactions)
        return sorted(found, key=lambda transaction: transaction.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Return where a transactional id stands."""
        validation.transactional_id(transactional_id)
        reply = await self._ask_coordinator(transactional_id, "describing", DescribeTransaction, transactional_id)
        if reply.transaction is None:
            raise TransactionNotFound(f"the coordinator knows no transactional id {transactional_id!r}.")
        found: TransactionDescription = reply.transaction
        return found

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort what a transactional id has open, and fence its producer."""
        await self.describe_transaction(transactional_id)
        fields = (transactional_id, _ABORT_TIMEOUT_MS, None)
        await self._ask_coordinator(transactional_id, "aborting the transaction of", InitProducerId, *fields)

    async def _ask_coordinator(
        self, transactional_id: str, doing: str, message_type: Callable[..., RequestOf[Reply]], *fields: object
    ) -> Reply:
        return await call_with_retries(
            self._runtime,
            lambda: self._runtime.view.transaction_coordinator(transactional_id),
            f"{doing} transactional id {transactional_id!r}",
            message_type,
            *fields,
            retry_policy=self._retry_policy,
        )

    # Transactions that no producer will end

    async def find_hanging(
        self, topics: Iterable[str] = (), *, older_than_ms: int = 900_000
    ) -> list[HangingTransaction]:
        """Return transactions that are open in partitions and unknown to every coordinator, older than a limit.

        Such a transaction holds back readers of committed records for ever. A partition in which a transaction with
        branches is under way is not judged: whose branches these are, only its coordinator knows.
        """
        view = self._runtime.view
        validation.integer("older_than_ms", older_than_ms, 0)
        names = validation.topics(topics) or tuple(name for name in view.partitions if not name.startswith("__"))
        partitions = [partition for name in names for partition in view.partitions.get(name, ())]
        described = await asyncio.gather(*(self._open_in(partition) for partition in partitions))
        latest_ms = self._runtime.wall_ms() - older_than_ms
        old = [found for each in described for found in each if found.last_timestamp_ms <= latest_ms]
        if not old:
            return []
        # Asked for last: what a coordinator knows of by now was not hanging when the partitions were asked.
        known = await self.list_transactions(states=UNDECIDED_STATES)
        return [found for found in old if not any(_may_end(transaction, found) for transaction in known)]

    async def _open_in(self, partition: TopicPartition) -> list[HangingTransaction]:
        reply: ProducersDescribed
        reply = await self._ask_leader(partition, "describing the producers of", DescribeProducers)
        return [
            HangingTransaction(
                partition,
                found.producer,
                found.coordinator_epoch,
                found.open_since_offset,
                found.last_timestamp_ms,
            )
            for found in reply.producers
            if found.open_since_offset >= 0
        ]

    async def abort_hanging(self, hanging: HangingTransaction) -> None:
        """End a transaction that `find_hanging` has found, with a marker in its partition."""
        epoch = max(hanging.coordinator_epoch, NO_EPOCH + 1)
        marker = Marker(hanging.producer, False, epoch, 1, (hanging.partition,))
        doing = f"aborting what producer {hanging.producer.producer_id} has open in"
        await self._ask_leader_with(hanging.partition, doing, _marker_error, WriteMarkers, (marker,))

    # Asking

    async def _ask_leader(
        self, partition: TopicPartition, doing: str, message_type: Callable[..., RequestOf[Reply]], *fields: object
    ) -> Reply:
        return await self._ask_leader_with(partition, doing, first_error, message_type, partition, *fields)

    async def _ask_leader_with(
        self,
        partition: TopicPartition,
        doing: str,
        error_of: Callable[[Reply], ErrorCode],
        message_type: Callable[..., RequestOf[Reply]],
        *fields: object,
    ) -> Reply:
        return await call_with_retries(
            self._runtime,
            lambda: self._runtime.view.leaders.get(partition, NO_NODE),
            f"{doing} {partition}",
            message_type,
            *fields,
            retry_policy=self._retry_policy,
            error_of=error_of,
        )

    async def _ask_all_leaders(
        self, topic: str, doing: str, message_type: Callable[..., RequestOf[Reply]], *fields: object
    ) -> list[Reply]:
        """Ask every node that leads something of an internal topic, and return what each says."""
        view = self._runtime.view
        nodes = {view.leaders[name] for name in view.partitions.get(topic, ())}
        questions = (self._ask_node(node_id, doing, message_type, *fields) for node_id in nodes)
        return await asyncio.gather(*questions)

    async def _ask_node(
        self, node_id: int, doing: str, message_type: Callable[..., RequestOf[Reply]], *fields: object
    ) -> Reply:
        return await call_with_retries(
            self._runtime, lambda: node_id, doing, message_type, *fields, retry_policy=self._retry_policy
        )


def _may_end(transaction: TransactionDescription, found: HangingTransaction) -> bool:
    """Whether a coordinator knows of the transaction, or may."""
    if found.partition not in transaction.partitions:
        return False
    return transaction.producer.producer_id == found.producer.producer_id or transaction.branches > 0


def _marker_error(reply: MarkersAnswered) -> ErrorCode:
    return next(iter(reply.error_codes), ErrorCode.NONE)
