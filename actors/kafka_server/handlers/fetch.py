"""Fetch: key 1, versions 4 to 18.

Reads partitions that this node leads, and waits until there is enough or the time is up. From version 7 on within
sessions, from 9 on fenced by leader epochs, from 13 on by topic ids; from 16 on a client that asks the wrong node is
told where the leader listens. Internal topics are read as well, at once or when the time is up.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.fetch_sessions import Reading, ReadPosition
from eagleray.actors.kafka_server.partitions import endpoints, leader_hint, refusal_of, topic_name
from eagleray.actors.storage.internal_partitions import read_internal
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.broker.partitions.events import Fetch, Fetched, FetchedPartition
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

API = ServedApi(1, 4, 18, has_large_records=True)

_HINTS_SINCE: Final = 12
_ENDPOINTS_SINCE: Final = 16
_MAX_BYTES: Final = 55 * 1024 * 1024
_MAX_INTERNAL_BYTES: Final = 8 * 1024 * 1024
LONGEST_WAIT_MS: Final = 30_000
"""A client that would wait for longer is answered with nothing by then, and asks again."""

_NOBODY: Final = LeaderIdAndEpoch()


def handle(request: FetchRequest, call: Call) -> None:
    """Read what the session, or the request alone, asks for."""
    if request.isolation_level not in (0, 1):
        call.answer(refuse(request, call.api_version, ErrorCode.INVALID_REQUEST))
        return
    if max(request.replica_id, request.replica_state.replica_id) >= 0:
        # A follower may read what is not replicated, and tells its leader what is; ours are pushed to, on another lane.
        call.answer(refuse(request, call.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
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
    """One read: the partitions that are asked of the leader, those of internal topics, and those that are refused."""

    __slots__ = ("_call", "_found", "_internal", "_is_delayed", "_isolation", "_reading", "_throttle_ms")

    def __init__(self, request: FetchRequest, call: Call, reading: Reading) -> None:
        self._call = call
        self._reading = reading
        self._isolation = Isolation(request.isolation_level)
        self._is_delayed = False
        self._throttle_ms = 0
        # By the order of the positions; None stands for what the leader is asked, or what is read when it has answered.
        self._found: list[FetchedPartition | None] = []
        self._internal: dict[int, PartitionToFetch] = {}
        asked: list[PartitionToFetch] = []
        for place, position in enumerate(reading.positions):
            name, partition = self._partition_of(position)
            refusal = ErrorCode.UNKNOWN_TOPIC_ID if name is None else _refusal(call, partition)
            if refusal is not ErrorCode.NONE:
                self._found.append(FetchedPartition(partition, refusal))
                continue
            self._found.append(None)
            wanted = PartitionToFetch(partition, position.offset, position.max_bytes, position.leader_epoch)
            if partition.topic in INTERNAL_TOPICS:
                self._internal[place] = wanted
            else:
                asked.append(wanted)
        self._ask(tuple(asked), request)

    def _ask(self, asked: tuple[PartitionToFetch, ...], request: FetchRequest) -> None:
        # Records that are there already, or an error of a partition, are no reason to wait for the others.
        is_complete = not any(self._found) and not any(_has_news(found) for found in self._read_internal())
        max_wait_ms = self._wait_ms(request) if is_complete and (asked or self._internal) else 0
        if asked:
            max_bytes = min(request.max_bytes, _MAX_BYTES)
            self._call.ask_here(
                self._received, Fetch, asked, self._isolation, max_wait_ms, request.min_bytes, max_bytes
            )
        elif self._internal and max_wait_ms > 0:
            # Coordinators wake up no readers: a fetch of their logs is read again when its time is up.
            self._call.after(max_wait_ms / 1000, self._received, None)
        else:
            self._received(None)

    def _wait_ms(self, request: FetchRequest) -> int:
        """For how long the request may wait here; where too many wait, its client is told to wait for as long."""
        max_wait_ms = min(request.max_wait_ms, LONGEST_WAIT_MS)
        if max_wait_ms <= 0:
            return 0
        self._is_delayed = self._call.listener.delayed_fetches.begin()
        if not self._is_delayed:
            self._throttle_ms = max_wait_ms
        return max_wait_ms if self._is_delayed else 0

    def _read_internal(self) -> list[FetchedPartition]:
        left_bytes, found = _MAX_INTERNAL_BYTES, []
        for wanted in self._internal.values():
            found.append(read_internal(self._call.context, wanted, left_bytes, self._isolation))
            left_bytes = max(left_bytes - len(found[-1].records), 0)
        return found

    def _partition_of(self, position: ReadPosition) -> tuple[str | None, TopicPartition]:
        topic, topic_id, number = position.key
        name = topic_name(self._call.context.image, topic, topic_id)
        return name, TopicPartition(name or "", number)

    def _received(self, reply: Fetched | None) -> None:
        if self._is_delayed:
            self._call.listener.delayed_fetches.end()
        answers = iter(() if reply is None else reply.partitions)
        for place, read in zip(self._internal, self._read_internal(), strict=True):
            self._found[place] = read
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
        throttle_ms = self._throttle_ms
        if throttle_ms and any(data.records or data.error_code for topic in responses for data in topic.partitions):
            throttle_ms = 0
        self._call.answer(FetchResponse(throttle_ms, 0, self._reading.session_id, responses, hints))

    def _data(self, number: int, found: FetchedPartition, leaders: set[int]) -> PartitionData:
        aborted = None
        if self._isolation is Isolation.READ_COMMITTED:
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
    return refusal_of(call, partition, if_internal=ErrorCode.NONE)


def _has_news(found: FetchedPartition) -> bool:
    return bool(found.records) or found.error_code is not ErrorCode.NONE
