"""What a client may end by WriteTxnMarkers: a transaction that hangs in a partition, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.lanes.peers import Unanswered
from eagleray.broker.identities import NO_EPOCH, ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import TRANSACTION_STATE
from eagleray.broker.partitions.events import NO_OFFSET, DescribeProducers, ProducerDescription
from eagleray.broker.transactions.descriptions import ListTransactions, TransactionDescription
from eagleray.broker.transactions.states import UNDECIDED_NAMES
from eagleray.protocol.errors import ErrorCode

_OLDEST_VERSION: Final = 1
_AGAIN: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
"""Kafka's admin client looks for the leader after this one, and asks again."""

Known = tuple[TransactionDescription, ...]


class AbortAsked(msgspec.Struct, frozen=True):
    """A client wants the transaction of a producer to be aborted in a partition that this node leads."""

    partition: TopicPartition
    producer: ProducerIdentity
    coordinator_epoch: int


async def known_transactions(call: AdminCall, producer_ids: Iterable[int]) -> Known | ErrorCode:
    """Return which transactions of some producers the coordinators know, or why they cannot all be asked.

    What is not known for certain is not taken for unknown: as long as one coordinator does not answer, or a partition
    of their log is on its way from one to another, no transaction hangs.
    """
    topic = call.context.image.topics.get(TRANSACTION_STATE)
    partitions = () if topic is None else topic.partitions
    nodes = {partition.leader for partition in partitions}
    if NO_NODE in nodes:
        return _AGAIN
    wanted = tuple(sorted(set(producer_ids)))
    try:
        replies = await asyncio.gather(
            *(call.context.peers.call(node_id, ListTransactions, UNDECIDED_NAMES, wanted) for node_id in sorted(nodes))
        )
    except Unanswered:
        return _AGAIN
    if any(reply.error_code is not ErrorCode.NONE for reply in replies):
        return _AGAIN
    if not {number for reply in replies for number in reply.log_partitions}.issuperset(range(len(partitions))):
        return _AGAIN
    return tuple(transaction for reply in replies for transaction in reply.transactions)


async def marker_for(call: AdminCall, asked: AbortAsked, known: Known) -> Marker | ErrorCode:
    """Return the marker that ends a hanging transaction, or why there is none to end."""
    try:
        reply = await call.context.peers.call(call.context.spec.node_id, DescribeProducers, asked.partition)
    except Unanswered:
        return _AGAIN
    if reply.error_code is not ErrorCode.NONE:
        return reply.error_code
    found = [each for each in reply.producers if each.producer.producer_id == asked.producer.producer_id]
    return _judge(found[0] if found else None, asked, known)


def _judge(found: ProducerDescription | None, asked: AbortAsked, known: Known) -> Marker | ErrorCode:
    if found is None or found.open_since_offset == NO_OFFSET or asked.producer.epoch > found.producer.epoch:
        return ErrorCode.INVALID_TXN_STATE
    if asked.producer.epoch < found.producer.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if asked.coordinator_epoch < found.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    # Coordinators are asked by the ids of all producers of the request: those of branches are not in what they answer.
    if any(asked.partition in transaction.partitions for transaction in known if _may_be_of(transaction, asked)):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    # An epoch above that of the last true marker would fence the next one.
    coordinator_epoch = max(found.coordinator_epoch, NO_EPOCH + 1)
    return Marker(
        found.producer,
        False,
        coordinator_epoch,
        _OLDEST_VERSION,
        (asked.partition,),
        hanging_since=found.open_since_offset,
    )


def _may_be_of(transaction: TransactionDescription, asked: AbortAsked) -> bool:
    return transaction.producer.producer_id == asked.producer.producer_id or transaction.branches > 0
