"""Offsets of a group that are committed with a transaction: what the group's coordinator is asked."""

from __future__ import annotations

from eagleray.broker.groups.events import CommitTransactionOffsets, OffsetsCommitted, OffsetToCommit
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.client.calls import Question
from eagleray.client.errors import TransactionAborted
from eagleray.client.types import ConsumerGroupMetadata


def offsets_question(
    transactional_id: str, producer: ProducerIdentity, offsets: tuple[OffsetToCommit, ...], group: ConsumerGroupMetadata
) -> Question[OffsetsCommitted]:
    """Return the question that has a group's offsets committed with the transaction of a producer."""
    return Question(
        CommitTransactionOffsets,
        group.group_id,
        transactional_id,
        producer,
        offsets,
        group.generation,
        group.member_id,
        group.group_instance_id,
        IMPLICIT_VERSION,
    )


def too_late() -> TransactionAborted:
    """Say that offsets have missed their transaction."""
    return TransactionAborted("the transaction ended before its offsets were committed.")
