"""TxnOffsetCommit: key 28, versions 0 to 6.

Commits a group's offsets as part of a transaction. From version 3 on the member is named, so that a zombie of the group
is fenced; up to version 4 the producer has added the group by itself, from 5 on the group's coordinator has it added;
from 6 on topics are named by their ids.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.actors.kafka_server.codes import for_offsets_in_transaction
from eagleray.actors.kafka_server.offsets import RequestedOffsets, same_for_all
from eagleray.broker.groups.events import CommitTransactionOffsets, OffsetsCommitted
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

API = ServedApi(28, 0, 6)

_IMPLICIT_SINCE: Final = 5


def handle(request: TxnOffsetCommitRequest, call: Call) -> None:
    """Commit the offsets of partitions that exist, within the transaction."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(refuse(request, call.api_version, ErrorCode.NOT_COORDINATOR))
        return
    requested = RequestedOffsets(call.context.image, request.topics)

    def answer(reply: OffsetsCommitted | None) -> None:
        if reply is not None:
            call.note_question(ProcessRole.GROUPS, request.transactional_id, reply.question)
        outcomes = requested.outcomes(reply, partial(for_offsets_in_transaction, version=call.api_version))
        topics = requested.response(outcomes, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
        call.answer(TxnOffsetCommitResponse(topics=topics))

    if not requested.offsets:
        answer(OffsetsCommitted(0, ErrorCode.NONE))
        return
    call.ask_here(
        answer,
        CommitTransactionOffsets,
        request.group_id,
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        requested.offsets,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        IMPLICIT_VERSION if call.api_version >= _IMPLICIT_SINCE else 1,
        call.sender(ProcessRole.GROUPS, request.transactional_id),
    )


def refuse(request: TxnOffsetCommitRequest, version: int, error_code: ErrorCode) -> TxnOffsetCommitResponse:  # noqa: ARG001 - all have it
    """Refuse every offset."""
    topics = same_for_all(request.topics, error_code, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
    return TxnOffsetCommitResponse(topics=topics)
