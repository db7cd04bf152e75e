"""What InitProducerId means for a transactional id."""

from __future__ import annotations

import enum

from eagleray.broker.identities import LAST_EPOCH, NO_EPOCH, ProducerIdentity
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState


class InitOutcome(enum.Enum):
    """What a coordinator does about a producer that asks for its identity."""

    WAIT = enum.auto()
    """Hold the request until the decided transaction has its markers."""

    REFUSED = enum.auto()
    """Refuse with PRODUCER_FENCED: the producer names an identity that another has taken over."""

    ABORT_FIRST = enum.auto()
    """Abort the transaction that is open, then look again."""

    NEXT_EPOCH = enum.auto()
    """Raise the epoch."""

    SAME_IDENTITY = enum.auto()
    """Give the same answer again: the producer repeats a request whose answer it has not heard (KIP-360)."""

    NEW_PRODUCER_ID = enum.auto()
    """Begin with another producer id: the epochs of this one are used up."""


def outcome_of_init(current: Snapshot, expected: ProducerIdentity | None) -> InitOutcome:
    """Say what a request for an identity comes to, from a producer that may say who it believes to be."""
    if current.is_decided:
        return InitOutcome.WAIT
    if expected is None or current.producer_epoch == NO_EPOCH or current.is_held_by(expected):
        is_repeated = False
    elif current.was_held_by(expected):
        is_repeated = True
    else:
        return InitOutcome.REFUSED
    if current.state is TransactionState.ONGOING:
        return InitOutcome.ABORT_FIRST
    if current.is_epoch_exhausted and (not is_repeated or current.producer_epoch == LAST_EPOCH):
        return InitOutcome.NEW_PRODUCER_ID
    return InitOutcome.SAME_IDENTITY if is_repeated else InitOutcome.NEXT_EPOCH
