"""What the transaction log keeps of one transactional id."""

from __future__ import annotations

import msgspec

from eagleray.broker.identities import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdentity,
    TopicPartition,
)
from eagleray.broker.transactions.branching import Branching
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode

NO_TIME_MS = -1

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
    """Who the producer is from now on, if its epochs are used up; it takes over when the markers are written."""

    timeout_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME_MS
    updated_ms: int
    client_version: int = 0
    branching: Branching | None = None
    """Branches and tags, where the transactional id has or had any."""

    @property
    def is_decided(self) -> bool:
        """Whether the outcome is in the log and markers are under way."""
        return self.state in _DECIDED

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
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def holder(self) -> ProducerIdentity:
        """Who the producer is to its own knowledge, once it has heard the last answer."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdentity(self.next_producer_id, self.next_producer_epoch)
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    def is_held_by(self, producer: ProducerIdentity) -> bool:
        """Whether this is the holder."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return producer.epoch == self.next_producer_epoch and producer.producer_id == self.next_producer_id
        return producer.epoch == self.producer_epoch and producer.producer_id == self.producer_id

    def was_held_by(self, producer: ProducerIdentity) -> bool:
        """Whether this is who the holder was before; it may repeat the request whose answer it has not heard."""
        if self.last_producer_epoch == NO_EPOCH or producer.epoch != self.last_producer_epoch:
            return False
        has_moved = self.previous_producer_id != NO_PRODUCER_ID
        return producer.producer_id == (self.previous_producer_id if has_moved else self.producer_id)

    def refusal_of(self, producer: ProducerIdentity) -> ErrorCode:
        """What to tell a producer that is not the holder."""
        is_known = producer.producer_id in (self.producer_id, self.next_producer_id)
        if is_known and producer.producer_id != NO_PRODUCER_ID:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
