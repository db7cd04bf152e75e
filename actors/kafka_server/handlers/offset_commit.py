"""OffsetCommit: key 8, versions 2 to 10.

Commits a group's offsets, outside transactions. From version 10 on topics are named by their ids.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.offsets import RequestedOffsets, same_for_all
from eagleray.broker.groups.events import CommitOffsets, OffsetsCommitted
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API = ServedApi(8, 2, 10)


def handle(request: OffsetCommitRequest, call: Call) -> None:
    """Commit the offsets of partitions that exist."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(refuse(request, call.api_version, ErrorCode.NOT_COORDINATOR))
        return
    requested = RequestedOffsets(call.context.image, request.topics)

    def answer(reply: OffsetsCommitted | None) -> None:
        outcomes = requested.outcomes(reply, _as_it_is)
        topics = requested.response(outcomes, OffsetCommitResponseTopic, OffsetCommitResponsePartition)
        call.answer(OffsetCommitResponse(topics=topics))

    if not requested.offsets:
        answer(OffsetsCommitted(0, ErrorCode.NONE))
        return
    call.ask_here(
        answer,
        CommitOffsets,
        request.group_id,
        requested.offsets,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
    )


def refuse(request: OffsetCommitRequest, version: int, error_code: ErrorCode) -> OffsetCommitResponse:  # noqa: ARG001 - all have it
    """Refuse every offset."""
    topics = same_for_all(request.topics, error_code, OffsetCommitResponseTopic, OffsetCommitResponsePartition)
    return OffsetCommitResponse(topics=topics)


def _as_it_is(error_code: ErrorCode) -> ErrorCode:
    return error_code
