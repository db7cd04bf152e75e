"""Reads of the internal topics' partitions that a node leads: only coordinators write them, clients may read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from eagleray.actors.lanes.sessions import Receiver
from eagleray.actors.storage.context import StorageContext
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.messages import Message
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.broker.partitions.events import (
    DeleteRecords,
    DescribePartition,
    DescribeProducers,
    EpochEndOffset,
    FetchedPartition,
    FetchPartition,
    ListOffset,
    Query,
    QueryAnswer,
    RecordsDeleted,
)
from eagleray.broker.partitions.fetching import read_partition
from eagleray.broker.partitions.queries import answer_query
from eagleray.broker.partitions.reader import PartitionReader
from eagleray.broker.partitions.unwritten import answer_unwritten, read_unwritten
from eagleray.protocol.errors import ErrorCode

QUERIES: Final = (ListOffset, DeleteRecords, DescribeProducers, EpochEndOffset, DescribePartition)


class InternalPartitions:
    """Answers queries about internal topics; those about other topics go to the role that leads them.

    Owns: nothing. Metadata names the nodes of coordinators as the leaders of these partitions, so clients ask there,
    whether or not the node leads partitions of users as well.
    """

    def __init__(self, context: StorageContext, receivers: Mapping[type, Receiver]) -> None:
        self._context = context
        self._receivers = {kind: receivers[kind] for kind in QUERIES if kind in receivers}

    def post(self, query: Message) -> None:
        """Answer a `Query`, or pass it on."""
        assert isinstance(query, QUERIES), "nothing else is for these partitions"
        receive = self._receivers.get(type(query))
        if query.partition.topic in INTERNAL_TOPICS:
            self._answer(answer_internal(self._context, query))
        elif receive is not None:
            receive(query)
        else:
            self._answer(answer_query(None, query))

    def _answer(self, reply: QueryAnswer) -> None:
        self._context.turn.act(partial(self._context.answer, reply))


def answer_internal(context: StorageContext, query: Query) -> QueryAnswer:
    """Answer from the log of a partition of an internal topic, if it is led here."""
    if isinstance(query, DeleteRecords):
        # What coordinators keep there is their state, and not a client's to delete.
        return RecordsDeleted(query.request_id, ErrorCode.INVALID_TOPIC_EXCEPTION)
    epoch = _unwritten_epoch(context, query.partition)
    return answer_query(_reader(context, query.partition), query) if epoch is None else answer_unwritten(query, epoch)


def read_internal(
    context: StorageContext, request: FetchPartition, max_bytes: int, isolation: Isolation
) -> FetchedPartition:
    """Read what there is of a partition of an internal topic now, if it is led here."""
    epoch = _unwritten_epoch(context, request.partition)
    if epoch is not None:
        return read_unwritten(request, epoch)
    reader = _reader(context, request.partition)
    if reader is None or not reader.log.is_online:
        is_elsewhere = reader is None and request.partition not in context.replica_manager.offline
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.KAFKA_STORAGE_ERROR
        return FetchedPartition(request.partition, code)
    return read_partition(reader, request, min(request.max_bytes, max_bytes), isolation, now_ms=context.steady_ms())


def _reader(context: StorageContext, partition: TopicPartition) -> PartitionReader | None:
    """Return a reader of a partition; None where another node leads it, or its coordinator is loading it."""
    leader = context.replica_manager.leader(partition)
    if (
        leader is None
        or partition in context.replica_manager.loading
        or context.image.leader_of(partition) != context.spec.node_id
    ):
        return None
    return PartitionReader(leader)


def _unwritten_epoch(context: StorageContext, partition: TopicPartition) -> int | None:
    """Return the epoch at which this node leads a partition whose log was never created; None where it does not."""
    state = context.image.find(partition)
    if state is None or state.leader != context.spec.node_id or context.replica_manager.leader(partition) is not None:
        return None
    return None if context.replica_manager.logs.has_files(partition) else state.leader_epoch
