"""The guard of transactions in version 1: a late copy of a request, on another connection, changes nothing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.runtime.connection_bindings import NO_QUESTION
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, InitProducerId, Reply
from eagleray.broker.transactions.table import Transaction, TransactionRuntime
from eagleray.protocol.errors import ErrorCode


class ConnectionGuard:
    """Has requests of version 1 change something only where they come by the connection of their client.

    In version 1 the transactions of a producer share one epoch, so a request of one transaction that was held up in the
    network looks like one of the next. An answered InitProducerId binds the transactional id to its connection. Before
    a request of version 1 changes something it is asked for here; on another connection it is refused with
    CONCURRENT_TRANSACTIONS, which clients repeat (see `ConnectionBindings`). What is not a Kafka client's connection is
    never refused: the lanes between nodes and to the Python client answer or fail each question once.
    """

    def __init__(self, config: CoordinatorConfig, runtime: TransactionRuntime) -> None:
        self._is_on = config.transaction_v1_guard.is_on
        self._runtime = runtime

    def refuses(self, transaction: Transaction, request: AddPartitions | EndTransaction) -> bool:
        """Refuse a request that is about to change the transaction, unless its connection may do that."""
        client = request.client
        if client is None or request.client_version >= IMPLICIT_VERSION or not self._is_on:
            return False
        bindings, name = transaction.shard.bindings, transaction.transactional_id
        if bindings.is_bound(name, client.number):
            return False
        question = bindings.question_to(name, client, _asked_for(request))
        if question != NO_QUESTION:
            refusal = Reply(request.request_id, ErrorCode.CONCURRENT_TRANSACTIONS, question=question)
            self._runtime.say_at_once(refusal)
        return question != NO_QUESTION

    def bind(self, transaction: Transaction, request: InitProducerId) -> None:
        """Bind a transactional id to the connection of the client that has just been given its identity."""
        if request.client is not None and self._is_on:
            transaction.shard.bindings.bind(transaction.transactional_id, request.client.number)

    def closed(self, connection: int) -> None:
        """Forget a connection."""
        for shard in self._runtime.shards.values():
            shard.bindings.closed(connection)


def _asked_for(request: AddPartitions | EndTransaction) -> frozenset[Hashable]:
    wanted: Iterable[Hashable] = request.partitions if isinstance(request, AddPartitions) else (request.commit,)
    return frozenset(wanted)
