"""What a voter needs of the world, and what it answers to a proposal."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from eagleray.broker.quorum.election_state import ElectionState
from eagleray.broker.quorum.events import QuorumEffect


class Ports(NamedTuple):
    """What a voter needs of the world."""

    persist: Callable[[ElectionState], None]
    """Returns once the state is on stable storage; where it raises, the voter must not go on."""

    chance: Callable[[], float]
    """Gives numbers from 0 to 1, so that voters do not all start an election at the same moment."""

    time_of_day_ms: Callable[[], int]
    """For the log, and to tell incarnations apart.

    All else goes by a clock that never goes back, given with each call.
    """


class Proposal(NamedTuple):
    """The outcome of a proposal: the offset behind it in the log; None where this voter does not lead."""

    end_offset: int | None
    effects: list[QuorumEffect]
