"""The states of a transaction, and which may follow which.

            ┌───────────────────────── InitProducerId ─────────────────────────┐
            ▼                                                                  │
    Dead ◄─ Empty ──► Ongoing ──┬─► PrepareCommit ──► CompleteCommit ──┬───────┤
     ▲        │          ▲      └─► PrepareAbort ───► CompleteAbort ───┤       │
     │        └──────────│─────────────▲   ▲                           │       │
     │   (version 2: an  │       PrepareEpochFence                     │       │
     │  abort of nothing)└──────── first partition or branch ──────────┘       │
     └──────────────────────────────── expired ────────────────────────────────┘

A transaction with many writers may be committed with nothing in it, for its tag: from Empty to PrepareCommit.

`VALID_PREVIOUS` is this drawing as a table. The numbers are those that Kafka keeps in `__transaction_state`.
"""

from __future__ import annotations

import enum
from typing import Final


class TransactionState(enum.IntEnum):
    """Where a transactional id stands."""

    EMPTY = 0
    """It has a producer identity and no transaction."""

    ONGOING = 1
    """At least one partition takes part, or it is prepared; `Snapshot` says whether it takes more."""

    PREPARE_COMMIT = 2
    """Decided: it will be committed, whatever happens; markers are under way."""

    PREPARE_ABORT = 3
    """Decided: it will be aborted, whatever happens; markers are under way."""

    COMPLETE_COMMIT = 4
    """Every partition has its commit marker."""

    COMPLETE_ABORT = 5
    """Every partition has its abort marker."""

    DEAD = 6
    """It has expired and is about to be forgotten."""

    PREPARE_EPOCH_FENCE = 7
    """Its epoch is being raised so that its producer can do nothing more; an abort follows. Never in the log."""


_State = TransactionState

VALID_PREVIOUS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _State.EMPTY: frozenset({_State.EMPTY, _State.COMPLETE_COMMIT, _State.COMPLETE_ABORT}),
    _State.ONGOING: frozenset({_State.ONGOING, _State.EMPTY, _State.COMPLETE_COMMIT, _State.COMPLETE_ABORT}),
    _State.PREPARE_COMMIT: frozenset({_State.ONGOING, _State.EMPTY}),
    _State.PREPARE_ABORT: frozenset(
        {
            _State.ONGOING,
            _State.PREPARE_EPOCH_FENCE,
            _State.EMPTY,
            _State.COMPLETE_COMMIT,
            _State.COMPLETE_ABORT,
        }
    ),
    _State.COMPLETE_COMMIT: frozenset({_State.PREPARE_COMMIT}),
    _State.COMPLETE_ABORT: frozenset({_State.PREPARE_ABORT}),
    _State.DEAD: frozenset({_State.EMPTY, _State.COMPLETE_COMMIT, _State.COMPLETE_ABORT}),
    _State.PREPARE_EPOCH_FENCE: frozenset({_State.ONGOING}),
}
"""For each state, those from which it may be reached."""

KAFKA_NAMES: Final = tuple(state.name.title().replace("_", "") for state in TransactionState)
"""What Kafka calls each state to those who list transactions, at the place of its number."""

UNDECIDED_NAMES: Final = tuple(
    KAFKA_NAMES[state] for state in (_State.ONGOING, _State.PREPARE_COMMIT, _State.PREPARE_ABORT)
)
"""The names of the states in which a transaction is open, or its markers are under way."""

EXPIRABLE: Final = (_State.EMPTY, _State.COMPLETE_COMMIT, _State.COMPLETE_ABORT)
"""The states in which nothing is open, so that an idle transactional id may be forgotten."""

_PREVIOUS_BITS: Final = [sum(1 << previous for previous in VALID_PREVIOUS[state]) for state in TransactionState]


def may_follow(state: TransactionState, previous: TransactionState) -> bool:
    """Whether `VALID_PREVIOUS` has this pair; asked for every transition, so without hashing."""
    return bool(_PREVIOUS_BITS[state] >> previous & 1)
