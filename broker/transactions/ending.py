"""What EndTxn means in each state, as tables."""

from __future__ import annotations

import enum
from typing import Final

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER_ID
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import EndTransaction
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState


class EndOutcome(enum.Enum):
    """What a coordinator does about a request to end a transaction."""

    DECIDE = enum.auto()
    """Log the decision, then answer."""

    ALREADY_DONE = enum.auto()
    """Answer as the first time: the request repeats one that was carried out."""

    WAIT = enum.auto()
    """Hold the request until what is under way has finished."""

    INVALID = enum.auto()
    """Refuse with INVALID_TXN_STATE."""

    REFUSED = enum.auto()
    """Refuse: the producer is not, or no longer, the one that has this transactional id."""


_State = TransactionState
_DECIDE = EndOutcome.DECIDE
_DONE = EndOutcome.ALREADY_DONE
_WAIT = EndOutcome.WAIT
_INVALID = EndOutcome.INVALID
_REFUSED = EndOutcome.REFUSED

# A row has what an abort meets, then what a commit meets, so that `row[commit]` is the outcome.
EndTable = dict[TransactionState, tuple[EndOutcome, EndOutcome]]

END_IN_VERSION_1: Final[EndTable] = {
    _State.EMPTY: (_INVALID, _INVALID),
    _State.ONGOING: (_DECIDE, _DECIDE),
    _State.PREPARE_COMMIT: (_INVALID, _WAIT),
    _State.PREPARE_ABORT: (_WAIT, _INVALID),
    _State.COMPLETE_COMMIT: (_INVALID, _DONE),
    _State.COMPLETE_ABORT: (_DONE, _INVALID),
}
"""Without an epoch for each transaction, a repeat cannot be told from a second request; the state has to tell."""

END_IN_VERSION_2: Final[EndTable] = {
    # The producer has the epoch of a new transaction, to which it has added nothing. It may abort that.
    _State.EMPTY: (_DECIDE, _INVALID),
    _State.ONGOING: (_DECIDE, _DECIDE),
    _State.PREPARE_COMMIT: (_WAIT, _WAIT),
    _State.PREPARE_ABORT: (_WAIT, _WAIT),
    _State.COMPLETE_COMMIT: (_DECIDE, _INVALID),
    _State.COMPLETE_ABORT: (_DECIDE, _INVALID),
}
"""A producer that has heard of its current epoch."""

END_REPEATED: Final[EndTable] = {
    # The next transaction has begun, or the producer was given another identity: the epoch is simply an old one.
    _State.EMPTY: (_REFUSED, _REFUSED),
    _State.ONGOING: (_REFUSED, _REFUSED),
    _State.PREPARE_COMMIT: (_INVALID, _WAIT),
    # A commit that meets an abort under its own epoch came too late: the coordinator had aborted already. That
    # is no mistake of the producer, so it is told as in version 1, and in words from which clients recover.
    _State.PREPARE_ABORT: (_WAIT, _REFUSED),
    _State.COMPLETE_COMMIT: (_INVALID, _DONE),
    _State.COMPLETE_ABORT: (_DONE, _REFUSED),
}
"""A producer in version 2 with the epoch before the current: it has not heard how its request ended."""


def _by_number(table: EndTable) -> list[tuple[EndOutcome, EndOutcome]]:
    # A state is its own index, which costs a fraction of hashing it. The other two states are never met.
    return [table[state] for state in sorted(table)]


_IN_VERSION_1 = _by_number(END_IN_VERSION_1)
_IN_VERSION_2 = _by_number(END_IN_VERSION_2)
_REPEATED = _by_number(END_REPEATED)


def outcome_of_end(current: Snapshot, request: EndTransaction) -> EndOutcome:
    """Say what a request to end a transaction comes to; its own version says by which rules it has to be read."""
    is_holder = current.is_held_by(request.producer)
    if request.client_version < IMPLICIT_VERSION:
        return _IN_VERSION_1[current.state][request.commit] if is_holder else _REFUSED
    if is_holder:
        return _IN_VERSION_2[current.state][request.commit]
    if current.was_held_by(request.producer) and _can_go_on(current):
        return _REPEATED[current.state][request.commit]
    return _REFUSED


def _can_go_on(current: Snapshot) -> bool:
    """Whether there is an identity to answer with: the very last epoch is kept for fencing and given to nobody."""
    return current.producer_epoch < LAST_EPOCH or current.next_producer_id != NO_PRODUCER_ID
