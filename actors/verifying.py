"""Asks a transaction's coordinator for a leader whether a partition takes part, or to add it."""

from __future__ import annotations

from collections.abc import Callable

from eagleray.actors.coordinators import coordinator_of_transaction
from eagleray.actors.shell import Host
from eagleray.broker.messages import IMPLICIT_VERSION, Message
from eagleray.broker.partitions.events import TransactionVerified, VerifyTransaction
from eagleray.broker.transactions.events import AddPartitions, Reply
from eagleray.protocol.errors import ErrorCode


class Verifier:
    """Carries out `VerifyTransaction`; the answer comes back by `post`, also where the coordinator gave none."""

    def __init__(self, host: Host, post: Callable[[Message], None]) -> None:
        self._host = host
        self._post = post

    def verify(self, question: VerifyTransaction) -> None:
        """Ask; without an answer the producer is told to try again."""

        def on_reply(reply: Reply | None) -> None:
            if reply is None:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif reply.partition_errors:
                (error,) = reply.partition_errors
            else:
                error = reply.error_code
            self._post(
                TransactionVerified(question.partition, question.producer.producer_id, question.verification_id, error)
            )

        adds = question.adds_partition
        self._host.peers.ask(
            coordinator_of_transaction(self._host.image, question.transactional_id),
            on_reply,
            AddPartitions,
            question.transactional_id,
            question.producer,
            (question.partition,),
            IMPLICIT_VERSION if adds else 1,
            not adds,
        )
