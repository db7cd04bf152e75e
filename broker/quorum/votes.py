"""The votes of one election, or of one round of pre-votes."""

from __future__ import annotations

from eagleray.broker.quorum.events import VoteAnswered


class Votes:
    """Counts the votes for one candidate in one term; with `is_pre_vote`, those that it would get.

    Owns: which voters have granted their vote, and in which incarnation. A voter that is not whole may have
    acknowledged entries that the candidate lacks. So either a majority of the others elects, or all voters together,
    because then every voter that has a committed entry has compared it with the candidate's log. All together is also
    how a quorum of empty logs begins.
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
        """Count an answer, if it belongs to this election."""
        if event.is_granted and (event.asked_term, event.is_pre_vote) == (self.term, self.is_pre_vote):
            self.granted[event.voter] = max(event.incarnation, self.granted.get(event.voter, 0))
            if event.is_whole:
                self._whole.add(event.voter)
