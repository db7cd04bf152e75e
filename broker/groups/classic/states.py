"""The states of a classic group, and which may follow which.

                 a member joins                    all members have joined
         Empty ────────────────► PreparingRebalance ──────────────────► CompletingRebalance
           ▲                        │  ▲       ▲                          │   │
           └──── all have left ─────┘  │       └── joins, leaves, expires ┘   │ the leader's assignment
                                       │                                      │ is in the log
                                       └───── joins, leaves, expires ─ Stable ◄┘

    Dead may follow every state: the group is deleted, or coordinated elsewhere.

`VALID_PREVIOUS` is this drawing as a table.
"""

from __future__ import annotations

import enum
from typing import Final


class GroupState(enum.Enum):
    """Where a classic group stands, by Kafka's own names."""

    EMPTY = "Empty"
    """The group has no members; it may have offsets."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are called together; joins wait until all are there or have had their time."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; syncs wait until its leader has said who is to consume what."""

    STABLE = "Stable"
    """Every member of the generation has its assignment."""

    DEAD = "Dead"
    """The group is not found here any more."""


_State = GroupState

VALID_PREVIOUS: Final[dict[GroupState, frozenset[GroupState]]] = {
    _State.EMPTY: frozenset({_State.PREPARING_REBALANCE}),
    _State.PREPARING_REBALANCE: frozenset({_State.EMPTY, _State.COMPLETING_REBALANCE, _State.STABLE}),
    _State.COMPLETING_REBALANCE: frozenset({_State.PREPARING_REBALANCE}),
    _State.STABLE: frozenset({_State.COMPLETING_REBALANCE}),
    _State.DEAD: frozenset(_State),
}
"""For each state, those from which it may be reached."""


def may_follow(state: GroupState, previous: GroupState) -> bool:
    """Whether `VALID_PREVIOUS` has this pair."""
    return previous in VALID_PREVIOUS[state]
