"""Fetch: key 1, versions 4 to 18.

Reads partitions that this node leads, and waits until there is enough or the time is up. From version 7 on within
sessions, from 9 on fenced by leader epochs, from 13 on by topic ids; from 16 on a client that asks the wrong node is
told where the leader listens.
"""

from __future__ import annotations

from typing import Any, Final

from eagleray.actors.wire.call import Call
from eagleray.actors.wire.fetch_sessions import Reading, ReadPosition
from eagleray.actors.wire.partitions import endpoints, leader_hint, refusal_of, topic_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import Fetch, FetchedPartition
from eagleray.broker.partitions.events import FetchPartition as PartitionToFetch
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_HINTS_SINCE: Final = 12
_ENDPOINTS_SINCE: Final = 16
_MAX_BYTES: Final = 55 * 1024 * 1024
_NOBODY: Final = LeaderIdAndEpoch()


def handle(request: FetchRequest, call: Call) -> None:
    """Read what the session, or the request alone, asks for."""
    if request.isolation_level not in (0, 1):
        call.answer(refuse(request, call.api_version, ErrorCode.INVALID_REQUEST))
        return
    reading = call.listener.fetch_sessions.begin(request, call.api_version)
    if isinstance(reading, ErrorCode):
        call.answer(FetchResponse(error_code=reading))
    else:
        _Read(request, call, reading)


def refuse(request: FetchRequest, version: int, error_code: ErrorCode) -> FetchResponse:  # noqa: ARG001 - all have it
    """Refuse everything."""
    return FetchResponse(
        error_code=error_code,
        responses=tuple(
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                tuple(PartitionData(asked.partition, error_code, -1) for asked in topic.partitions),
            )
            for topic in request.topics
        ),
    )


class _Read:
    """One read: the partitions that are asked of the leader, and those that are refused before."""

    __slots__ = ("_call", "_found", "_is_committed", "_reading")

    def __init__(self, request: FetchRequest, call: Call, reading: Reading) -> None:
        self._call = call
        self._reading = reading
        self._is_committed = request.isolation_level == Isolation.READ_COMMITTED
        # By the order of the positions; None stands for what the leader is asked.
        self._found: list[FetchedPartition | None] = []
        asked: list[PartitionToFetch] = []
        for position in reading.positions:
            name, partition = self._partition_of(position)
            refusal = ErrorCode.UNKNOWN_TOPIC_ID if name is None else _refusal(call, partition)
            if refusal is ErrorCode.NONE:
                self._found.append(None)
                asked.append(PartitionToFetch(partition, position.offset, position.max_bytes, position.leader_epoch))
            else:
                self._found.append(FetchedPartition(partition, refusal))
        if not asked:
            self._received(None)
            return
        is_complete = len(asked) == len(self._found)
        call.ask_here(
            self._received,
            Fetch,
            tuple(asked),
            Isolation(request.isolation_level),
            # What is wrong with a partition is no reason to wait for the others.
            request.max_wait_ms if is_complete else 0,
            request.min_bytes,
            min(request.max_bytes, _MAX_BYTES),
        )

    def _partition_of(self, position: ReadPosition) -> tuple[str | None, TopicPartition]:
        topic, topic_id, number = position.key
        name = topic_name(self._call.host.image, topic, topic_id)
        return name, TopicPartition(name or "", number)

    def _received(self, reply: Any) -> None:  # noqa: ANN401 - Fetched, or None
        answers = iter(() if reply is None else reply.partitions)
        leaders: set[int] = set()
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        for position, known in zip(self._reading.positions, self._found, strict=True):
            found = known or next(answers, None)
            if found is None:
                found = FetchedPartition(self._partition_of(position)[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self._reading.tells(position, found):
                topic, topic_id, number = position.key
                topics.setdefault((topic, topic_id), []).append(self._data(number, found, leaders))
        responses = tuple(FetchableTopicResponse(*topic, tuple(data)) for topic, data in topics.items())
        hints = endpoints(self._call, leaders, NodeEndpoint) if leaders else ()
        self._call.answer(FetchResponse(0, 0, self._reading.session_id, responses, hints))

    def _data(self, number: int, found: FetchedPartition, leaders: set[int]) -> PartitionData:
        aborted = None
        if self._is_committed:
            aborted = tuple(
                AbortedTransaction(transaction.producer_id, transaction.first_offset)
                for transaction in found.aborted_transactions
            )
        hint, version = _NOBODY, self._call.api_version
        if found.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _HINTS_SINCE:
            hint = leader_hint(self._call, found.partition, LeaderIdAndEpoch)
            if version >= _ENDPOINTS_SINCE:
                leaders.add(hint.leader_id)
        return PartitionData(
            number,
            found.error_code,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            current_leader=hint,
            aborted_transactions=aborted,
            records=found.records,
        )


def _refusal(call: Call, partition: TopicPartition) -> ErrorCode:
    return refusal_of(call, partition, if_internal=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
