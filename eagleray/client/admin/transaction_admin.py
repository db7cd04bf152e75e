"""The admin's part about transactions: what is open, whose it is, and how to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from eagleray.actors.lanes.link import Reply
from eagleray.broker.identities import NO_EPOCH, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import TRANSACTION_STATE
from eagleray.broker.partitions.events import DescribeProducers, MarkersAnswered, WriteMarkers
from eagleray.broker.transactions.descriptions import DescribeTransaction, ListTransactions, TransactionDescription
from eagleray.broker.transactions.events import InitProducerId
from eagleray.broker.transactions.states import UNDECIDED_NAMES
from eagleray.client import validation
from eagleray.client.admin.descriptions import HangingTransaction
from eagleray.client.calls import Question, call_with_retries, first_error
from eagleray.client.errors import TransactionNotFound
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

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
        question = Question(
            ListTransactions,
            validation.transaction_states(states),
            validation.producer_ids(producer_ids),
            validation.integer("older_than_ms", older_than_ms, -1),
        )
        replies = await self._ask_all_leaders(TRANSACTION_STATE, "listing transactions", question)
        found = (transaction for reply in replies for transaction in reply.transactions)
        return sorted(found, key=lambda transaction: transaction.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Return the state of a transactional id, and of its transaction."""
        validation.transactional_id(transactional_id)
        question = Question(DescribeTransaction, transactional_id)
        reply = await self._ask_coordinator(transactional_id, "describing", question)
        if reply.transaction is None:
            raise TransactionNotFound(f"the coordinator knows no transactional id {transactional_id!r}.")
        return reply.transaction

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort what a transactional id has open, and fence its producer.

        A prepared transaction with a resolver is not aborted: its resolver is asked, and this waits for what it says.
        """
        await self.describe_transaction(transactional_id)
        question = Question(InitProducerId, transactional_id, _ABORT_TIMEOUT_MS, None)
        await self._ask_coordinator(transactional_id, "aborting the transaction of", question)

    async def _ask_coordinator(self, transactional_id: str, doing: str, question: Question[Reply]) -> Reply:
        return await call_with_retries(
            self._runtime,
            lambda: self._runtime.view.transaction_coordinator(transactional_id),
            f"{doing} transactional id {transactional_id!r}",
            question,
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
        found_in = (open_transactions(self._runtime, partition, self._retry_policy) for partition in partitions)
        described = await asyncio.gather(*found_in)
        latest_ms = self._runtime.wall_ms() - older_than_ms
        old = [found for each in described for found in each if found.last_timestamp_ms <= latest_ms]
        if not old:
            return []
        # Asked for last: what a coordinator knows of by now was not hanging when the partitions were asked.
        known = await self.list_transactions(states=UNDECIDED_NAMES)
        return [found for found in old if not any(_may_end(transaction, found) for transaction in known)]

    async def abort_hanging(self, hanging: HangingTransaction) -> None:
        """End a transaction that `find_hanging` has found, with a marker in its partition."""
        epoch = max(hanging.coordinator_epoch, NO_EPOCH + 1)
        since = hanging.open_since_offset
        marker = Marker(hanging.producer, False, epoch, 1, (hanging.partition,), hanging_since=since)
        doing = f"aborting what producer {hanging.producer.producer_id} has open in"
        question = Question(WriteMarkers, (marker,))
        await self._ask_leader(hanging.partition, doing, question, error_of=_marker_error)

    # Asking

    async def _ask_leader(
        self,
        partition: TopicPartition,
        doing: str,
        question: Question[Reply],
        *,
        error_of: Callable[[Reply], ErrorCode] = first_error,
    ) -> Reply:
        return await call_with_retries(
            self._runtime,
            lambda: self._runtime.view.leaders.get(partition, NO_NODE),
            f"{doing} {partition}",
            question,
            retry_policy=self._retry_policy,
            error_of=error_of,
        )

    async def _ask_all_leaders(self, topic: str, doing: str, question: Question[Reply]) -> list[Reply]:
        """Ask every node that leads something of an internal topic, and return what each says."""
        view = self._runtime.view
        nodes = {view.leaders[name] for name in view.partitions.get(topic, ())}
        return await asyncio.gather(*(self._ask_node(node_id, doing, question) for node_id in nodes))

    async def _ask_node(self, node_id: int, doing: str, question: Question[Reply]) -> Reply:
        return await call_with_retries(self._runtime, lambda: node_id, doing, question, retry_policy=self._retry_policy)


async def open_transactions(
    runtime: ClientRuntime, partition: TopicPartition, retry_policy: RetryPolicy
) -> list[HangingTransaction]:
    """Return what is open in a partition, whether a coordinator knows of it or not."""
    reply = await call_with_retries(
        runtime,
        lambda: runtime.view.leaders.get(partition, NO_NODE),
        f"describing the producers of {partition}",
        Question(DescribeProducers, partition),
        retry_policy=retry_policy,
    )
    return [
        HangingTransaction(
            partition, found.producer, found.coordinator_epoch, found.open_since_offset, found.last_timestamp_ms
        )
        for found in reply.producers
        if found.open_since_offset >= 0
    ]


def _may_end(transaction: TransactionDescription, found: HangingTransaction) -> bool:
    if found.partition not in transaction.partitions:
        return False
    return transaction.producer.producer_id == found.producer.producer_id or transaction.branches > 0


def _marker_error(reply: MarkersAnswered) -> ErrorCode:
    return next(iter(reply.error_codes), ErrorCode.NONE)
