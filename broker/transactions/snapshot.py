"""What the transaction log keeps of one transactional id."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from eagleray.broker.identities import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdentity,
    TopicPartition,
)
from eagleray.broker.transactions.branches.branching import BRANCH_EPOCH, Branching
from eagleray.broker.transactions.preparation import NO_TIMEOUT_MS, NOT_ASKED_MS, Preparation
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode

NO_TIME_MS = -1

_ONGOING = TransactionState.ONGOING
_DECIDED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything about a transactional id that the log keeps; a transition is the snapshot that it leads to."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    last_producer_epoch: int = NO_EPOCH
    """The epoch before the current one, as long as its producer may not have heard of the current one."""

    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id that the last epoch belongs to, where it is another than the current."""

    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    """Who the producer is from now on: where its epochs are used up, or where it has kept the transaction of another.

    It takes over when the markers are written. A decided transaction names it only with another producer id.
    """

    timeout_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME_MS
    updated_ms: int
    client_version: int = 0
    branching: Branching | None = None
    """Branches and tags, where the transactional id has or had any."""

    preparation: Preparation | None = None
    """The preparation of the transaction at hand, and the outcome of the last one that was prepared, if there are."""

    origin: bytes = b""
    """Where the producer comes from, as `encode_origin` writes it; it is read when it is asked for."""

    owner: ProducerIdentity | None = None
    """Of a slot: who had its pool when its producer got its identity; None where that was outside of the pool."""

    @property
    def is_decided(self) -> bool:
        """Whether the outcome is in the log and markers are under way."""
        return self.state in _DECIDED

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction is open and prepared, so that only those who hold its token end it."""
        return self.preparation is not None and self.state is _ONGOING and self.preparation.is_prepared

    @property
    def is_kept(self) -> bool:
        """Whether the transaction is open and that of an earlier producer, which the present one may only end."""
        return self.next_producer_id != NO_PRODUCER_ID and self.state is _ONGOING

    @property
    def is_closed(self) -> bool:
        """Whether the transaction is open and takes nothing more."""
        return self.is_kept or self.is_prepared

    @property
    def can_time_out(self) -> bool:
        """Whether the transaction is open, and is aborted when that lasts too long."""
        return self.state is _ONGOING and self.timeout_ms != NO_TIMEOUT_MS and not self.is_prepared

    @property
    def resolver(self) -> ResolverName | None:
        """Who may be asked how the open transaction has to end: None where it is not prepared, or names no resolver."""
        preparation = self.preparation if self.is_prepared else None
        return None if preparation is None else preparation.resolver

    @property
    def has_been_asked_about(self) -> bool:
        """Whether the resolver of the open transaction was asked since a producer has had it last."""
        return self.preparation is not None and self.preparation.asked_ms != NOT_ASKED_MS

    @property
    def prepared_branches(self) -> tuple[ProducerIdentity, ...]:
        """The branches that a commit of the open transaction commits, if that is prepared."""
        preparation = self.preparation if self.is_prepared else None
        named = () if preparation is None else preparation.branches
        return tuple(ProducerIdentity(producer_id, BRANCH_EPOCH) for producer_id in named)

    def is_prepared_with(self, branches: Iterable[ProducerIdentity]) -> bool:
        """Whether these are the branches with which the open transaction is prepared."""
        return self.is_prepared and set(branches) == set(self.prepared_branches)

    @property
    def written_by(self) -> ProducerIdentity:
        """Who the open transaction's records are from; it is the token of the transaction."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def has_branch_partitions(self) -> bool:
        """Whether anything was written to in a branch."""
        return self.branching is not None and bool(self.branching.partitions)

    @property
    def is_branched(self) -> bool:
        """Whether the transaction at hand, begun or about to, is one with branches."""
        return self.branching is not None and self.branching.tag is not None

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer has used its last epoch, so that only a new producer id helps."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_epoch >= LAST_EPOCH - 1
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def holder(self) -> ProducerIdentity:
        """Who the producer is to its own knowledge, once it has heard the last answer."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdentity(self.next_producer_id, self.next_producer_epoch)
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    def is_held_by(self, producer: ProducerIdentity) -> bool:
        """Whether this is the holder; never with the last epoch, which fences and is given to no producer."""
        if producer.epoch == LAST_EPOCH:
            return False
        if self.next_producer_id != NO_PRODUCER_ID:
            return producer.epoch == self.next_producer_epoch and producer.producer_id == self.next_producer_id
        return producer.epoch == self.producer_epoch and producer.producer_id == self.producer_id

    def was_held_by(self, producer: ProducerIdentity) -> bool:
        """Whether this is who the holder was before; it may repeat the request whose answer it has not heard."""
        if self.last_producer_epoch == NO_EPOCH or producer.epoch != self.last_producer_epoch:
            return False
        has_moved = self.previous_producer_id != NO_PRODUCER_ID
        return producer.producer_id == (self.previous_producer_id if has_moved else self.producer_id)

    def outcome_of(self, token: ProducerIdentity) -> bool | None:
        """Whether the transaction with this token was committed; None where its outcome is not remembered."""
        outcome = None if self.preparation is None else self.preparation.outcome
        return outcome.commit if outcome is not None and outcome.is_of(token) else None

    def refusal_of(self, producer: ProducerIdentity) -> ErrorCode:
        """What to tell a producer that is not the holder."""
        is_known = producer.producer_id in (self.producer_id, self.next_producer_id)
        if is_known and producer.producer_id != NO_PRODUCER_ID:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
