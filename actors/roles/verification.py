"""Asks a transaction's coordinator for a leader: whether a partition takes part, and which decisions are over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from eagleray.actors.lanes.peers import Peers
from eagleray.actors.roles.coordinators import coordinator_of_transaction
from eagleray.broker.identities import NO_EPOCH
from eagleray.broker.messages import IMPLICIT_VERSION, Message
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.partitions.events import (
    AskLastDecision,
    LastDecisionAnswered,
    TransactionVerified,
    VerifyTransaction,
)
from eagleray.broker.transactions.events import AddPartitions, LastDecision, Reply
from eagleray.protocol.errors import ErrorCode


class VerifierContext(Protocol):
    """What a verifier uses of its node."""

    image: MetadataImage
    peers: Peers


class Verifier:
    """Carries out `VerifyTransaction` and `AskLastDecision`.

    The answer comes back by `post`, also where the coordinator gave none.
    """

    def __init__(self, context: VerifierContext, post: Callable[[Message], None]) -> None:
        self._context = context
        self._post = post

    def verify(self, question: VerifyTransaction) -> None:
        """Ask; without an answer the producer is told to try again."""

        def on_reply(reply: Reply | None) -> None:
            epoch, decision = _last_decision(reply)
            if reply is None:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif reply.partition_errors:
                (error,) = reply.partition_errors
            else:
                error = reply.error_code
            producer_id, verification_id = question.producer.producer_id, question.verification_id
            self._post(TransactionVerified(question.partition, producer_id, verification_id, error, epoch, decision))

        adds = question.adds_partition
        self._context.peers.ask(
            coordinator_of_transaction(self._context.image, question.transactional_id),
            on_reply,
            AddPartitions,
            question.transactional_id,
            question.producer,
            (question.partition,),
            IMPLICIT_VERSION if adds else 1,
            not adds,
        )

    def ask_last_decision(self, question: AskLastDecision) -> None:
        """Ask; without an answer the marker that the question is about comes again, and it is asked once more."""

        def on_reply(reply: Reply | None) -> None:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE if reply is None else reply.error_code
            asked = question.partition, question.producer_id, question.question_id, error
            self._post(LastDecisionAnswered(*asked, *_last_decision(reply)))

        coordinator = coordinator_of_transaction(self._context.image, question.transactional_id)
        self._context.peers.ask(coordinator, on_reply, LastDecision, question.transactional_id)


def _last_decision(reply: Reply | None) -> tuple[int, int]:
    return (NO_EPOCH, 0) if reply is None else (reply.coordinator_epoch, reply.decision)
