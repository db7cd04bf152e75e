"""DescribeTransactions: key 65, version 0.

Clients send it to the coordinator of each transactional id.
"""

from __future__ import annotations

import asyncio
from itertools import groupby

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_coordinator
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.transactions.descriptions import DescribeTransaction, TransactionDescription
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

API = ServedApi(65, 0, 0)


async def handle(request: DescribeTransactionsRequest, call: AdminCall) -> DescribeTransactionsResponse:
    """Describe transactions by their transactional ids."""
    states = await asyncio.gather(*(_describe(name, call) for name in request.transactional_ids))
    return DescribeTransactionsResponse(transaction_states=tuple(states))


async def _describe(transactional_id: str, call: AdminCall) -> TransactionState:
    reply = await ask_coordinator(call, ProcessRole.COORDINATOR, DescribeTransaction, transactional_id)
    if isinstance(reply, ErrorCode):
        return TransactionState(reply, transactional_id)
    assert reply.transaction is not None, "an answer without an error describes"
    return _state_of(reply.transaction)


def _state_of(found: TransactionDescription) -> TransactionState:
    return TransactionState(
        ErrorCode.NONE,
        found.transactional_id,
        found.state,
        found.timeout_ms,
        found.start_ms,
        found.producer.producer_id,
        found.producer.epoch,
        tuple(_by_topic(found.partitions)),
    )


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[TopicData]:
    by_topic = groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [TopicData(topic, tuple(partition.partition for partition in found)) for topic, found in by_topic]
