"""The states of a voter and what may follow on each; the words are KRaft's.

`VALID_PREVIOUS` holds from one event to the next, in a quorum of several voters. A single voter goes from follower to
leader at once. docs/states.md has the drawing.
"""

from __future__ import annotations

import enum
from typing import Final


class VoterState(enum.Enum):
    """The state of a voter in its quorum."""

    FOLLOWER = "Follower"
    """It follows a leader, or waits until an election timeout has passed."""

    PROSPECTIVE = "Prospective"
    """It asks the others whether they would vote for it, in the term after its own."""

    CANDIDATE = "Candidate"
    """It has voted for itself in a new term, and asks the others to do so."""

    LEADER = "Leader"
    """A majority has voted for it, and it appends to the log."""


_State = VoterState

VALID_PREVIOUS: Final[dict[VoterState, frozenset[VoterState]]] = {
    _State.FOLLOWER: frozenset({_State.PROSPECTIVE, _State.CANDIDATE, _State.LEADER}),
    _State.PROSPECTIVE: frozenset({_State.FOLLOWER, _State.CANDIDATE}),
    _State.CANDIDATE: frozenset({_State.PROSPECTIVE}),
    _State.LEADER: frozenset({_State.CANDIDATE}),
}
"""For each state, those from which it may be reached."""
