"""Members of a quorum with one rule broken, each of which the simulator has to catch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import msgspec

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush, PartitionLog
from eagleray.broker.quorum import voting
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.quorum.election_state import ElectionState, read_election_state
from eagleray.broker.quorum.events import VoteAnswered
from eagleray.broker.quorum.leading import QuorumLeader
from eagleray.broker.quorum.member import QuorumMember
from eagleray.broker.quorum.ports import Ports
from eagleray.broker.quorum.votes import Votes
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.broker.replication.follower import ReplicationFollower
from tests.simulation.quorum import voter
from tests.simulation.quorum.quorum_harness import QuorumHarness

Mutation = Callable[[], AbstractContextManager[Any]]


class MemberThatForgetsItsVote(QuorumMember):
    """Answers before its election state is on the disk, where only that of the incarnation's start gets."""

    def __init__(self, *arguments: Any, ports: Ports, **others: Any) -> None:
        first = iter([ports.persist])

        def persist(state: ElectionState) -> None:
            next(first, lambda _: None)(state)

        super().__init__(*arguments, ports=ports._replace(persist=persist), **others)


class MemberThatForgetsWhomItHeard(QuorumMember):
    """Votes at once after a restart, although its last incarnation may have heard from a leader."""

    def __init__(self, *arguments: Any, config: QuorumConfig, now_ms: int, **others: Any) -> None:
        long_ago_ms = now_ms - 2 * config.controller_quorum_election_timeout_ms
        super().__init__(*arguments, config=config, now_ms=long_ago_ms, **others)


class LeaderWithoutLease(QuorumLeader):
    """Never stops to answer by itself."""

    def holds(self, now_ms: int) -> bool:
        return True


class LeaderThatCountsOldTerms(QuorumLeader):
    """Commits entries of older terms because a majority has them."""

    def advance(self) -> None:
        first_offset, self.first_offset = self.first_offset, -1
        super().advance()
        self.first_offset = first_offset


class LeaderThatNeedsNobody(QuorumLeader):
    """Commits what it has itself."""

    def __init__(
        self,
        partition: TopicPartition,
        node_id: int,
        voters: Sequence[int],
        term: int,
        log: PartitionLog,
        **others: Any,
    ) -> None:
        super().__init__(partition, node_id, voters, term, log, **others)
        self.own_log = log

    def advance(self) -> None:
        if self.own_log.recovery_point > self.first_offset:
            self.own_log.advance_high_watermark(self.own_log.recovery_point)


class FollowerThatDoesNotFlush(ReplicationFollower):
    """Acknowledges what is not on stable storage."""

    def push(self, push: Push, now_ms: int) -> PushAnswered:
        config = self.log.config
        self.log.config = msgspec.structs.replace(config, flush=Flush.OS)
        try:
            return super().push(push, now_ms)
        finally:
            self.log.config = config


def _voting_for_anybody() -> AbstractContextManager[Any]:
    """Voters that do not look at what a candidate has."""
    return mock.patch.object(voting, "is_up_to_date", return_value=True)


def _voting_against_a_leader() -> AbstractContextManager[Any]:
    """Voters that vote for others although they have just heard from a leader."""
    return mock.patch.object(voting, "has_recent_leader", return_value=False)


def _counting_votes_of_new_disks() -> AbstractContextManager[Any]:
    """Candidates that count the votes of those who do not know what they have acknowledged like all others."""
    original = Votes.answered

    def answered(self: Votes, event: VoteAnswered) -> None:
        original(self, msgspec.structs.replace(event, is_whole=True))

    return mock.patch.object(Votes, "answered", answered)


def _being(member: type[QuorumMember]) -> Mutation:
    return lambda: mock.patch.object(QuorumHarness, "member_type", member)


def _leading(leader: type[QuorumLeader]) -> Mutation:
    return lambda: mock.patch.object(QuorumMember, "leader_type", leader)


def _following(follower: type[ReplicationFollower]) -> Mutation:
    return lambda: mock.patch.object(QuorumMember, "follower_type", follower)


def _forgetting_what_was_committed() -> AbstractContextManager[Any]:
    """Voters that do not know, when they start, how long their logs have been."""

    def read(file_system: FileSystem, path: str) -> ElectionState:
        return msgspec.structs.replace(read_election_state(file_system, path), committed=0)

    return mock.patch.object(voter, "read_election_state", read)


@contextmanager
def _not_flushing() -> Iterator[None]:
    """Voters that acknowledge what is not on stable storage, and cannot tell by its length that a log has lost some."""
    with _following(FollowerThatDoesNotFlush)(), _forgetting_what_was_committed():
        yield


MUTATIONS: dict[str, Mutation] = {
    "vote that is forgotten": _being(MemberThatForgetsItsVote),
    "vote for anybody": _voting_for_anybody,
    "vote against a recent leader": _voting_against_a_leader,
    "vote against a recent leader after a restart": _being(MemberThatForgetsWhomItHeard),
    "vote with a new disk": _counting_votes_of_new_disks,
    "leader without a lease": _leading(LeaderWithoutLease),
    "entries of older terms counted": _leading(LeaderThatCountsOldTerms),
    "leader that needs nobody": _leading(LeaderThatNeedsNobody),
    "follower that does not flush": _not_flushing,
}

MUTATIONS_OF_LOST_LOGS: dict[str, Mutation] = {
    "voter that forgets what was committed": _forgetting_what_was_committed,
}
"""Caught in worlds in which voters lose the ends of their logs."""
