"""TxnOffsetCommit: key 28, versions 0 to 6.

How far a group has come once a transaction is committed. From version 3 on the member is named, so that a zombie of the
group is fenced; up to version 4 the producer has added the group by itself, from 5 on the group's coordinator has it
added; from 6 on topics go by their ids.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from eagleray.actors.wire.call import Call
from eagleray.actors.wire.codes import for_offsets_in_transaction
from eagleray.actors.wire.offsets import RequestedOffsets, same_for_all
from eagleray.broker.controller.nodes import Role
from eagleray.broker.groups.events import CommitTransactionOffsets, OffsetsCommitted
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_IMPLICIT_SINCE: Final = 5


def handle(request: TxnOffsetCommitRequest, call: Call) -> None:
    """Have the offsets logged that are of partitions that exist."""
    if not call.has_role(Role.GROUPS):
        call.answer(refuse(request, call.api_version, ErrorCode.NOT_COORDINATOR))
        return
    requested = RequestedOffsets(call.host.image, request.topics)

    def answer(reply: OffsetsCommitted | None) -> None:
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
    )


def refuse(request: TxnOffsetCommitRequest, version: int, error_code: ErrorCode) -> TxnOffsetCommitResponse:  # noqa: ARG001 - all have it
    """Refuse every offset."""
    topics = same_for_all(request.topics, error_code, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
    return TxnOffsetCommitResponse(topics=topics)
