"""OffsetFetch: key 9, versions 1 to 10.

Returns the committed offsets of groups, of some partitions or of all. One group up to version 7, many from 8 on; from 7
on a client may ask for stable offsets, and is told to wait for open transactions; from 9 on a member of a KIP-848 group
names itself and its epoch; from 10 on topics are named by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.fan_out import FanOut
from eagleray.actors.kafka_server.partitions import topic_name
from eagleray.broker.groups.events import CommittedOffset, FetchOffsets, OffsetsFetched
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

API = ServedApi(9, 1, 10)

_ERROR_SINCE: Final = 2
_BATCHED_SINCE: Final = 8
_IDS_SINCE: Final = 10
_UNANSWERED: Final = OffsetsFetched(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_NO_OFFSET: Final = -1


def handle(request: OffsetFetchRequest, call: Call) -> None:
    """Ask the coordinator about each group."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(refuse(request, call.api_version, ErrorCode.NOT_COORDINATOR))
    elif call.api_version < _BATCHED_SINCE:
        _fetch_one(request, call)
    else:
        _fetch_many(request, call)


def refuse(request: OffsetFetchRequest, version: int, error_code: ErrorCode) -> OffsetFetchResponse:
    """Refuse every group."""
    if version < _BATCHED_SINCE:
        return _answer_for_one(request, version, OffsetsFetched(0, error_code))
    refused = tuple(OffsetFetchResponseGroup(group.group_id, (), error_code) for group in request.groups)
    return OffsetFetchResponse(groups=refused)


# One group


def _fetch_one(request: OffsetFetchRequest, call: Call) -> None:
    def answer(reply: OffsetsFetched | None) -> None:
        call.answer(_answer_for_one(request, call.api_version, reply or _UNANSWERED))

    partitions = None
    if request.topics is not None:
        partitions = tuple(
            TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes
        )
    call.ask_here(answer, FetchOffsets, request.group_id, partitions, request.require_stable)


def _answer_for_one(request: OffsetFetchRequest, version: int, fetched: OffsetsFetched) -> OffsetFetchResponse:
    offsets: Iterable[CommittedOffset] = fetched.offsets
    if fetched.error_code is not ErrorCode.NONE and version < _ERROR_SINCE:
        # Version 1 has no other place for it.
        offsets = (
            CommittedOffset(TopicPartition(topic.name, number), fetched.error_code)
            for topic in request.topics or ()
            for number in topic.partition_indexes
        )
    topics = tuple(
        OffsetFetchResponseTopic(name, tuple(OffsetFetchResponsePartition(*_fields(found)) for found in of_topic))
        for name, of_topic in _by_topic(offsets).items()
    )
    return OffsetFetchResponse(topics=topics, error_code=fetched.error_code)


# Many groups


def _fetch_many(request: OffsetFetchRequest, call: Call) -> None:
    image, uses_ids = call.context.image, call.api_version >= _IDS_SINCE

    def answer(replies: list[OffsetsFetched | None]) -> None:
        groups = zip(request.groups, replies, strict=True)
        call.answer(
            OffsetFetchResponse(
                groups=tuple(_answer_for_group(image, group, reply, uses_ids=uses_ids) for group, reply in groups)
            )
        )

    joined = FanOut(call, len(request.groups), answer)
    for place, group in enumerate(request.groups):
        joined.ask(
            place,
            FetchOffsets,
            group.group_id,
            _partitions_of(image, group),
            request.require_stable,
            group.member_id,
            group.member_epoch,
        )
    joined.finish()


def _partitions_of(image: MetadataImage, group: OffsetFetchRequestGroup) -> tuple[TopicPartition, ...] | None:
    if group.topics is None:
        return None
    named = [(topic_name(image, topic.name, topic.topic_id), topic.partition_indexes) for topic in group.topics]
    return tuple(TopicPartition(name, number) for name, numbers in named if name is not None for number in numbers)


def _answer_for_group(
    image: MetadataImage, group: OffsetFetchRequestGroup, reply: OffsetsFetched | None, *, uses_ids: bool
) -> OffsetFetchResponseGroup:
    fetched = reply or _UNANSWERED
    topics = [
        OffsetFetchResponseTopics(
            name,
            (image.topic_id(name) or bytes(16)) if uses_ids else bytes(16),
            tuple(OffsetFetchResponsePartitions(*_fields(found)) for found in of_topic),
        )
        for name, of_topic in _by_topic(fetched.offsets).items()
        # A deleted topic has no id by which the client could know it.
        if not uses_ids or name in image.topics
    ]
    topics += _unknown_topics(image, group)
    return OffsetFetchResponseGroup(group.group_id, tuple(topics), fetched.error_code)


def _unknown_topics(image: MetadataImage, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            tuple(
                OffsetFetchResponsePartitions(number, _NO_OFFSET, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                for number in topic.partition_indexes
            ),
        )
        for topic in group.topics or ()
        if topic_name(image, topic.name, topic.topic_id) is None
    ]


# Both


def _by_topic(offsets: Iterable[CommittedOffset]) -> dict[str, list[CommittedOffset]]:
    by_topic: dict[str, list[CommittedOffset]] = {}
    for found in offsets:
        by_topic.setdefault(found.partition.topic, []).append(found)
    return by_topic


def _fields(found: CommittedOffset) -> tuple[int, int, int, str, ErrorCode]:
    return found.partition.partition, found.offset, found.leader_epoch, found.metadata, found.error_code
