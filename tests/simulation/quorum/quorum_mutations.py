"""Members of a quorum with one rule broken, each of which the simulator has to catch."""

from typing import Any

import msgspec

from eagleray.broker.log import Flush
from eagleray.broker.quorum.events import RequestVote, VoteAnswered
from eagleray.broker.quorum.leading import QuorumLeader
from eagleray.broker.quorum.member import QuorumMember
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.broker.replication.follower import ReplicationFollower


class MemberThatForgetsItsVote(QuorumMember):
    """Answers before its ballot is on the disk, where it never comes to be."""

    def _keep(self, **changes: Any) -> None:
        self._ballot = msgspec.structs.replace(self._ballot, **changes)


class MemberThatVotesForAnybody(QuorumMember):
    """Does not look at what a candidate has."""

    def _is_as_complete(self, ask: RequestVote) -> bool:
        return True


class MemberWithoutLoyalty(QuorumMember):
    """Votes for others although it has just heard from a leader."""

    def _is_loyal(self, now_ms: int) -> bool:
        return self.is_leader


class MemberThatForgetsWhomItHeard(QuorumMember):
    """Votes at once after a restart, although its last life may have heard from a leader."""

    def __init__(self, *arguments: Any, now_ms: int, **ports: Any) -> None:
        super().__init__(*arguments, now_ms=now_ms, **ports)
        self._heard_ms = -(2**62)
        self._stand_ms = now_ms


class MemberThatVotesWithANewDisk(QuorumMember):
    """Votes like everybody, although it does not know what it has acknowledged."""

    def _answer_to(self, ask: RequestVote, *, is_granted: bool) -> VoteAnswered:
        return msgspec.structs.replace(super()._answer_to(ask, is_granted=is_granted), is_whole=True)


class LeaderWithoutLease(QuorumLeader):
    """Never stops to answer by itself."""

    def holds(self, now_ms: int) -> bool:
        return True


class LeaderThatCountsOldTerms(QuorumLeader):
    """Commits entries of older terms because a majority has them."""

    def _commit(self, offset: int) -> None:
        self._log.advance_high_watermark(offset)


class LeaderThatNeedsNobody(QuorumLeader):
    """Commits what it has itself."""

    def advance(self) -> None:
        self._commit(self._own_end())


class FollowerThatDoesNotFlush(ReplicationFollower):
    """Acknowledges what is not on stable storage."""

    def push(self, push: Push, now_ms: int) -> PushAnswered:
        config = self.log.config
        self.log.config = msgspec.structs.replace(config, flush=Flush.OS)
        try:
            return super().push(push, now_ms)
        finally:
            self.log.config = config


def _leading(leader: type[QuorumLeader]) -> type[QuorumMember]:
    return type(leader.__name__, (QuorumMember,), {"leader_type": leader})


def _following(follower: type[ReplicationFollower]) -> type[QuorumMember]:
    return type(follower.__name__, (QuorumMember,), {"follower_type": follower})


MUTATIONS: dict[str, type[QuorumMember]] = {
    "vote that is forgotten": MemberThatForgetsItsVote,
    "vote for anybody": MemberThatVotesForAnybody,
    "no loyalty": MemberWithoutLoyalty,
    "no loyalty after a restart": MemberThatForgetsWhomItHeard,
    "vote with a new disk": MemberThatVotesWithANewDisk,
    "leader without a lease": _leading(LeaderWithoutLease),
    "entries of older terms counted": _leading(LeaderThatCountsOldTerms),
    "leader that needs nobody": _leading(LeaderThatNeedsNobody),
    "follower that does not flush": _following(FollowerThatDoesNotFlush),
}
