"""Reading the partitions of internal topics that a node leads: coordinators alone write them, clients may look."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from eagleray.actors.lanes.sessions import Receiver
from eagleray.actors.shell import Host
from eagleray.broker.controller.topics import INTERNAL_TOPICS
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
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
    """Answers queries about internal topics; those about other topics go to the role that has them.

    Owns: nothing. Metadata name the nodes of coordinators as the leaders of these partitions, so that clients ask
    there, whether or not the node leads partitions of users as well.
    """

    def __init__(self, host: Host, receivers: Mapping[type, Receiver]) -> None:
        self._host = host
        self._receivers = {kind: receivers[kind] for kind in QUERIES if kind in receivers}

    def post(self, query: Any) -> None:  # noqa: ANN401 - a Query
        """Answer, or pass on."""
        receive = self._receivers.get(type(query))
        if query.partition.topic in INTERNAL_TOPICS:
            self._answer(answer_internal(self._host, query))
        elif receive is not None:
            receive(query)
        else:
            self._answer(answer_query(None, query))

    def _answer(self, reply: QueryAnswer) -> None:
        self._host.turn.act(partial(self._host.answer, reply))


def answer_internal(host: Host, query: Query) -> QueryAnswer:
    """Answer from the log of a partition of an internal topic, if it is led here."""
    if isinstance(query, DeleteRecords):
        # What coordinators keep there is their state, and not a client's to delete.
        return RecordsDeleted(query.request_id, ErrorCode.INVALID_TOPIC_EXCEPTION)
    epoch = _unwritten_epoch(host, query.partition)
    return answer_query(_reader(host, query.partition), query) if epoch is None else answer_unwritten(query, epoch)


def read_internal(host: Host, request: FetchPartition, max_bytes: int, isolation: Isolation) -> FetchedPartition:
    """Read what there is of a partition of an internal topic now, if it is led here."""
    epoch = _unwritten_epoch(host, request.partition)
    if epoch is not None:
        return read_unwritten(request, epoch)
    reader = _reader(host, request.partition)
    if reader is None or not reader.log.is_online:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if reader is None else ErrorCode.KAFKA_STORAGE_ERROR
        return FetchedPartition(request.partition, code)
    return read_partition(reader, request, min(request.max_bytes, max_bytes), isolation, now_ms=host.steady_ms())


def _reader(host: Host, partition: TopicPartition) -> PartitionReader | None:
    """What reads a partition; None where another node leads it, or its coordinator is loading it."""
    leader = host.replicas.leader(partition)
    if leader is None or partition in host.replicas.loading or host.image.leader_of(partition) != host.spec.node_id:
        return None
    return PartitionReader(leader)


def _unwritten_epoch(host: Host, partition: TopicPartition) -> int | None:
    """At which epoch this node leads a partition whose log was never made; None where that is not so."""
    state = host.image.find(partition)
    if state is None or state.leader != host.spec.node_id or host.replicas.leader(partition) is not None:
        return None
    return None if host.replicas.logs.has_files(partition) else state.leader_epoch
