"""One attempt to be elected."""

from __future__ import annotations

from eagleray.broker.quorum.events import VoteAnswered


class Canvass:
    """Counts the votes for one candidate in one term; with `is_only_asked` those that it would get.

    Owns: who has granted, and in which life.
    """

    def __init__(self, candidate: int, incarnation: int, term: int, voters: int, *, is_only_asked: bool) -> None:
        self.term = term
        self.is_only_asked = is_only_asked
        self.granted = {candidate: incarnation}
        self._majority = voters // 2 + 1

    @property
    def is_won(self) -> bool:
        """Whether a majority has granted its vote."""
        return len(self.granted) >= self._majority

    def answered(self, event: VoteAnswered) -> None:
        """Count an answer, if it is one to this attempt."""
        if event.is_granted and (event.asked_term, event.is_only_asked) == (self.term, self.is_only_asked):
            self.granted[event.voter] = max(event.incarnation, self.granted.get(event.voter, 0))
