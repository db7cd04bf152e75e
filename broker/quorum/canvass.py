"""One attempt to be elected."""

from __future__ import annotations

from eagleray.broker.quorum.events import VoteAnswered


class Canvass:
    """Counts the votes for one candidate in one term; with `is_only_asked` those that it would get.

    Owns: who has granted, and in which life. A voter that may have forgotten something, because its disk is a new one
    or it was about to drop its log, may have acknowledged what the candidate lacks. So a majority of the others elects,
    or all voters together: then whoever has something that was committed has looked at what the candidate has. That is
    also how a quorum begins, in which nobody has anything.
    """

    def __init__(self, term: int, voters: int, *, is_only_asked: bool) -> None:
        self.term = term
        self.is_only_asked = is_only_asked
        self.granted: dict[int, int] = {}
        self._whole: set[int] = set()
        self._voters = voters

    @property
    def is_won(self) -> bool:
        """Whether the votes suffice."""
        return len(self._whole) > self._voters // 2 or len(self.granted) == self._voters

    def answered(self, event: VoteAnswered) -> None:
        """Count an answer, if it is one to this attempt."""
        if event.is_granted and (event.asked_term, event.is_only_asked) == (self.term, self.is_only_asked):
            self.granted[event.voter] = max(event.incarnation, self.granted.get(event.voter, 0))
            if event.is_whole:
                self._whole.add(event.voter)
