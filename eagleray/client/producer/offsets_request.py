"""Offsets of a group that are committed with a transaction, on their way to the group's coordinator."""

from __future__ import annotations

from typing import Final, Protocol

from eagleray.actors.messages import Malformed
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.groups.events import CommitTransactionOffsets, OffsetsCommitted, OffsetToCommit
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.client.calls import is_only_busy
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import EaglerayError, TransactionAborted
from eagleray.client.producer.delivery_guarantee import Done
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE

SUSPICIOUS: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Answers that a producer gets when it was fenced, but also when only its transaction was ended for it."""


class Transacted(Protocol):
    """The transaction that the offsets belong to."""

    transactional_id: str
    identity: ProducerIdentity

    @property
    def wants_offsets(self) -> bool:
        """Whether offsets that are on their way still matter."""

    def offsets_done(self, error_code: ErrorCode) -> EaglerayError | None:
        """Take the outcome; return what to tell the caller."""

    def offsets_suspicious(self, error_code: ErrorCode, done: Done) -> None:
        """Find out what an answer means that could mean a newer producer."""


class OffsetsRequest:
    """One `send_offsets`, repeated until the group's coordinator has answered."""

    __slots__ = ("_attempt", "_config", "_done", "_fields", "_group", "_identity", "_runtime", "_transaction")

    def __init__(  # noqa: PLR0917 - the last two are those of the call
        self,
        transaction: Transacted,
        runtime: ClientRuntime,
        config: ProducerConfig,
        done: Done,
        offsets: tuple[OffsetToCommit, ...],
        group: ConsumerGroupMetadata,
    ) -> None:
        self._transaction = transaction
        self._runtime = runtime
        self._config = config
        self._done = done
        self._attempt = 0
        self._group = group.group_id
        members = (group.generation, group.member_id, group.group_instance_id, IMPLICIT_VERSION)
        self._identity = transaction.identity
        self._fields = (group.group_id, transaction.transactional_id, self._identity, offsets, *members)

    def send(self) -> None:
        """Ask the coordinator of the group, again where it has not answered."""
        if self._is_late:
            self._done(too_late())
            return
        if not self._transaction.wants_offsets:
            self._transaction.offsets_suspicious(_NONE, self._done)
            return
        self._attempt += 1
        node_id = self._runtime.view.group_coordinator(self._group)
        if node_id == NO_NODE:
            self._again(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._runtime.ask(node_id, self._on_reply, CommitTransactionOffsets, *self._fields)

    @property
    def _is_late(self) -> bool:
        """Whether the transaction has ended: each has an identity of its own, and the next one is not concerned."""
        return self._transaction.identity != self._identity

    def _on_reply(self, reply: OffsetsCommitted | Malformed | None) -> None:
        if self._is_late:
            self._done(too_late())
            return
        error_code = ErrorCode.NETWORK_EXCEPTION
        if reply is not None:
            errors = (reply.error_code, *reply.partition_errors)
            error_code = next((error for error in errors if error is not _NONE), _NONE)
        if error_code.is_retriable:
            self._again(error_code)
        elif error_code in SUSPICIOUS:
            self._transaction.offsets_suspicious(error_code, self._done)
        else:
            self._done(self._transaction.offsets_done(error_code))

    def _again(self, error_code: ErrorCode) -> None:
        if not is_only_busy(error_code):
            self._runtime.view.refresh()
        config = self._config
        pause_ms = min(config.retry_backoff_ms << min(self._attempt, 16), config.retry_backoff_max_ms)
        self._runtime.later(pause_ms, self.send)


def too_late() -> TransactionAborted:
    """Say that offsets have missed their transaction."""
    return TransactionAborted("the transaction ended before its offsets were committed.")
