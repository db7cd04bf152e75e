"""One attempt to be elected."""

from __future__ import annotations

from eagleray.broker.quorum.events import VoteAnswered


class Votes:
    """Counts the votes for one candidate in one term; with `is_pre_vote` those that it would get.

    Owns: which voters have granted, and in which life. A voter that may have forgotten something, because its disk is a
    new one or it was about to drop its log, may have acknowledged what the candidate lacks. So a majority of the others
    elects, or all voters together: then each voter that has a committed entry has looked at what the candidate has.
    That is also how a quorum begins, whose logs are all empty.
    """

    def __init__(self, term: int, voters: int, *, is_pre_vote: bool) -> None:
        self.term = term
        self.is_pre_vote = is_pre_vote
        self.granted: dict[int, int] = {}
        self._whole: set[int] = set()
        self._voters = voters

    @property
    def is_won(self) -> bool:
        """Whether the votes suffice."""
        return len(self._whole) > self._voters // 2 or len(self.granted) == self._voters

    def answered(self, event: VoteAnswered) -> None:
        """Count an answer, if it is one to this attempt."""
        if event.is_granted and (event.asked_term, event.is_pre_vote) == (self.term, self.is_pre_vote):
            self.granted[event.voter] = max(event.incarnation, self.granted.get(event.voter, 0))
            if event.is_whole:
                self._whole.add(event.voter)
