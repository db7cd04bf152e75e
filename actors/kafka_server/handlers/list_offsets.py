"""ListOffsets: key 2, versions 1 to 11.

Returns the offset of a timestamp, or of a name in place of one: the ends of the log, and the largest timestamp from
version 7 on. There is no tiered storage: the local log starts where the log does, and the rest is not found.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.fan_out import FanOut
from eagleray.actors.kafka_server.partitions import refusal_of
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import EARLIEST_TIMESTAMP, LARGEST_TIMESTAMP, ListOffset, OffsetListed
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API = ServedApi(2, 1, 11)

_EARLIEST_LOCAL: Final = -4
_OF_TIERED_STORAGE: Final = (-5, -6)
_NAME_SINCE: Final = {LARGEST_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, -5: 9, -6: 11}
_EPOCH_SINCE: Final = 4
_NOT_AVAILABLE_SINCE: Final = 5
_NOTHING_FOUND: Final = OffsetListed(0, ErrorCode.NONE)
_UNANSWERED: Final = OffsetListed(0, ErrorCode.REQUEST_TIMED_OUT)


def handle(request: ListOffsetsRequest, call: Call) -> None:
    """Ask the leader for each partition, and answer when all are known."""

    def answer(results: list[OffsetListed | None]) -> None:
        listed = iter(results)
        call.answer(
            ListOffsetsResponse(
                topics=tuple(
                    ListOffsetsTopicResponse(
                        topic.name,
                        tuple(_response(asked, next(listed), call.api_version) for asked in topic.partitions),
                    )
                    for topic in request.topics
                )
            )
        )

    joined = FanOut(call, sum(len(topic.partitions) for topic in request.topics), answer)
    place = 0
    for topic in request.topics:
        for asked in topic.partitions:
            _ask(call, joined, place, TopicPartition(topic.name, asked.partition_index), asked, request.isolation_level)
            place += 1
    joined.finish()


def refuse(request: ListOffsetsRequest, version: int, error_code: ErrorCode) -> ListOffsetsResponse:
    """Refuse every partition."""
    refused = OffsetListed(0, error_code)
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                topic.name, tuple(_response(asked, refused, version) for asked in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _ask(  # noqa: PLR0917 - all of it is the question
    call: Call,
    joined: FanOut[OffsetListed],
    place: int,
    partition: TopicPartition,
    asked: ListOffsetsPartition,
    isolation: int,
) -> None:
    refusal = refusal_of(call, partition, if_internal=ErrorCode.NONE)
    if isolation not in (0, 1):
        refusal = ErrorCode.INVALID_REQUEST
    elif call.api_version < _NAME_SINCE.get(asked.timestamp, 0):
        refusal = ErrorCode.UNSUPPORTED_VERSION
    if refusal is not ErrorCode.NONE:
        joined.results[place] = OffsetListed(0, refusal)
    elif asked.timestamp in _OF_TIERED_STORAGE:
        joined.results[place] = _NOTHING_FOUND
    else:
        timestamp = EARLIEST_TIMESTAMP if asked.timestamp == _EARLIEST_LOCAL else asked.timestamp
        joined.ask(place, ListOffset, partition, timestamp, Isolation(isolation), asked.current_leader_epoch)


def _response(asked: ListOffsetsPartition, listed: OffsetListed | None, version: int) -> ListOffsetsPartitionResponse:
    if listed is None:
        listed = _UNANSWERED
    error_code = listed.error_code
    if error_code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_SINCE:
        # Older clients do not know this code; on LEADER_NOT_AVAILABLE they ask again.
        error_code = ErrorCode.LEADER_NOT_AVAILABLE
    return ListOffsetsPartitionResponse(
        asked.partition_index,
        error_code,
        listed.timestamp,
        listed.offset,
        listed.leader_epoch if version >= _EPOCH_SINCE else -1,
    )
