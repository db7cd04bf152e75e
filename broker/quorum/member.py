"""A voter of the Raft quorum over the metadata log, which is a partition's log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Appended, Flush, Origin, PartitionLog
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.quorum import voting
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.quorum.election_state import ElectionState
from eagleray.broker.quorum.events import (
    Committed,
    Deposed,
    Elected,
    QuorumEffect,
    QuorumMessage,
    RequestVote,
    SendTo,
    VoteAnswered,
)
from eagleray.broker.quorum.follower import VoterFollower
from eagleray.broker.quorum.leading import QuorumLeader
from eagleray.broker.quorum.ports import Ports, Proposal
from eagleray.broker.quorum.states import VoterState
from eagleray.broker.quorum.votes import Votes
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch, split_batches

_LONG_AGO = -(2**62)


class QuorumMember:
    """One of a fixed set of voters, of which a majority keeps the log and elects the one that appends to it.

    Owns: the log, alone; the election state; whom it follows, or what it knows of its followers. The term of an entry
    is its leader epoch in the log.
    Persists: the election state, before it says anything that rests on it; entries, before it acknowledges or counts
    them.
    Promises: one leader a term; what is committed stays, and is the same everywhere; while `holds` is true on one
    voter, it is true on no other, whatever the clocks' speeds within the allowance. Votes: a voter that has lately
    heard from a leader grants none, and a candidate first asks for pre-votes. A leader that hears from no majority for
    an election timeout steps down. A voter with a new disk, or one that has to drop its log because the leader's begins
    behind it, counts only where all vote alike, until it has caught up (ADR 16).
    On failure of a disk: the exception ends this incarnation of the voter; a log that went offline has to end it, too.
    After a restart: it follows, with the election state and the log that it finds, and grants no vote for an election
    timeout, because its last incarnation may have heard from a leader. A single voter leads at once. One with an empty
    log stands for no election, unless `may_begin` says that it is the first of a new cluster.
    """

    leader_type = QuorumLeader
    follower_type = VoterFollower

    def __init__(
        self,
        partition: TopicPartition,
        node_id: int,
        voters: Sequence[int],
        log: PartitionLog,
        *,
        election: ElectionState,
        ports: Ports,
        config: QuorumConfig,
        may_begin: bool,
        now_ms: int,
    ) -> None:
        assert node_id in voters, f"node {node_id} is none of the voters {voters}"
        assert log.config.flush is Flush.COMMIT, "what is acknowledged has to be on stable storage"
        self.leader = NO_NODE
        """The leader, as far as this voter knows."""
        self.log = log
        self._partition = partition
        self._node_id = node_id
        self._voters = tuple(voters)
        self._ports = ports
        self._config = config
        self._may_begin = may_begin
        self._leading: QuorumLeader | None = None
        self._votes: Votes | None = None
        # A voter that has never been in a term has never heard from a leader either, so a new quorum need not wait.
        is_new = election.term == 0 and log.epochs.latest_epoch < 0
        self._heard_ms = _LONG_AGO if is_new else now_ms
        self._election_due_ms = now_ms + self._wait_ms(0 if is_new else 1)
        self._speak_ms = now_ms + 2 * config.controller_quorum_election_timeout_ms
        self._election = msgspec.structs.replace(
            election,
            term=max(election.term, log.epochs.latest_epoch),
            # At least the clock, so that a voter with a new disk is not taken for its incarnation with the old one.
            incarnation=max(election.incarnation + 1, ports.time_of_day_ms()),
            is_whole=election.is_whole and log.log_end_offset >= election.committed,
            sequence=election.sequence + 1,
        )
        ports.persist(self._election)
        # What the last incarnation wrote and did not flush does not count until it is flushed.
        log.flush()
        self._follower = self.follower_type(partition, node_id, self._election.incarnation, log)
        self._follower.keeps_before = election.committed
        self._follower.follow(self.term)
        self._told_offset = log.high_watermark

    # What others see of it

    @property
    def term(self) -> int:
        """The newest term that is known here."""
        return self._election.term

    @property
    def committed_offset(self) -> int:
        """Everything before this offset is committed."""
        return self.log.high_watermark

    @property
    def state(self) -> VoterState:
        """The state of this voter in its quorum."""
        if self._leading is not None:
            return VoterState.LEADER
        if self._votes is None:
            return VoterState.FOLLOWER
        return VoterState.PROSPECTIVE if self._votes.is_pre_vote else VoterState.CANDIDATE

    @property
    def may_stand(self) -> bool:
        """Whether this voter may be elected: it has a log with all that it knows to be committed, or begins a new one.

        An empty log that was not empty before would win where all voters have lost theirs, and rule over nothing.
        """
        if self.log.log_end_offset < self._election.committed:
            return False
        return self._may_begin or self.log.log_end_offset > self.log.log_start_offset

    @property
    def is_leader(self) -> bool:
        """Whether this voter was elected in its term, and has not stepped down."""
        return self._leading is not None

    @property
    def is_settled(self) -> bool:
        """Whether this voter leads, and has committed everything that any leader before it has committed."""
        return self._leading is not None and self._leading.is_settled

    def holds(self, now_ms: int) -> bool:
        """Whether this voter leads and no other can; a leader answers nothing while this is False."""
        return self._leading is not None and self._leading.holds(now_ms)

    # What happens to it

    def propose(self, values: Sequence[bytes], now_ms: int) -> Proposal:
        """Append records, as one batch, all or none; they are committed once `Committed` reaches their end.

        LogWriteFailed: nothing was appended. LogOffline: it may have been, and this incarnation of the voter is over.
        """
        if self._leading is None:
            return Proposal(None, [])
        end_offset = self._append(values)
        return Proposal(end_offset, self._advanced(now_ms))

    def receive(self, message: QuorumMessage, now_ms: int) -> list[QuorumEffect]:
        """Handle a message of another voter."""
        match message:
            case RequestVote():
                return self._on_request_vote(message, now_ms)
            case VoteAnswered():
                return self._on_vote_answered(message, now_ms)
            case Push():
                return self._on_push(message, now_ms)
            case PushAnswered():
                return self._on_push_answered(message, now_ms)

    @property
    def next_due_ms(self) -> int:
        """When `tick` is to be called, because time changes something here."""
        if self._leading is not None:
            return self._leading.next_due_ms
        return self._election_due_ms if self.may_stand else NEVER_MS

    def tick(self, now_ms: int) -> list[QuorumEffect]:
        """Push, start an election, or step down, as the time demands."""
        if self._leading is None:
            return self._start_election(now_ms) if self.may_stand and now_ms >= self._election_due_ms else []
        if self._leading.is_alone(now_ms):
            return self._step_down(now_ms)
        self._leading.tick(now_ms)
        return self._advanced(now_ms)

    def trim(self, before_offset: int, now_ms: int) -> list[QuorumEffect]:
        """Delete what lies before a committed entry that stands for all of it."""
        assert before_offset < self.committed_offset, "a log that is trimmed has something left to begin with"
        self.log.delete_records(before_offset)
        return self._advanced(now_ms)

    # Voting

    def _on_request_vote(self, ask: RequestVote, now_ms: int) -> list[QuorumEffect]:
        if ask.candidate not in self._voters:
            return []
        if self._has_recent_leader(now_ms):
            # Nor is the newer term taken over: that would end the term of a leader that is alive.
            return [self._vote(ask, is_granted=False)]
        effects: list[QuorumEffect] = []
        is_granted = voting.is_up_to_date(ask, self.log) and self._is_free_for(ask)
        if is_granted and not ask.is_pre_vote:
            effects += self._enter(ask.term, ask.candidate)
            self._rest(now_ms)
        elif ask.term > self.term and not ask.is_pre_vote:
            effects += self._enter(ask.term)
        return [*effects, self._vote(ask, is_granted=is_granted)]

    def _has_recent_leader(self, now_ms: int) -> bool:
        timeout_ms = self._config.controller_quorum_election_timeout_ms
        return self.is_leader or voting.has_recent_leader(self._heard_ms, now_ms, timeout_ms)

    def _is_free_for(self, ask: RequestVote) -> bool:
        if ask.term != self.term:
            return ask.term > self.term
        return self._election.voted_for in (NO_NODE, ask.candidate)

    def _vote(self, ask: RequestVote, *, is_granted: bool) -> SendTo:
        return SendTo(ask.candidate, self._answer_to(ask, is_granted=is_granted))

    def _answer_to(self, ask: RequestVote, *, is_granted: bool) -> VoteAnswered:
        election, only = self._election, ask.is_pre_vote
        return VoteAnswered(
            self.term, self._node_id, election.incarnation, ask.term, only, is_granted, election.is_whole
        )

    # Elections

    def _start_election(self, now_ms: int) -> list[QuorumEffect]:
        self._election_due_ms = now_ms + self._wait_ms(0.5, 0.5)
        self.leader = NO_NODE
        return self._ask(self.term + 1, now_ms, is_pre_vote=True)

    def _ask(self, term: int, now_ms: int, *, is_pre_vote: bool) -> list[QuorumEffect]:
        self._votes = Votes(term, len(self._voters), is_pre_vote=is_pre_vote)
        last_epoch, end_offset = self.log.epochs.latest_epoch, self.log.log_end_offset
        ask = RequestVote(term, self._node_id, last_epoch, end_offset, is_pre_vote)
        self._votes.answered(self._answer_to(ask, is_granted=True))
        asked: list[QuorumEffect] = [SendTo(voter, ask) for voter in self._voters if voter != self._node_id]
        return asked or self._count(now_ms)

    def _on_vote_answered(self, event: VoteAnswered, now_ms: int) -> list[QuorumEffect]:
        if event.term > self.term:
            return self._enter(event.term)
        if self._votes is None or event.voter not in self._voters:
            return []
        self._votes.answered(event)
        return self._count(now_ms)

    def _count(self, now_ms: int) -> list[QuorumEffect]:
        votes = self._votes
        if votes is None or not votes.is_won:
            return []
        if votes.is_pre_vote:
            self._enter(votes.term, self._node_id)
            return self._ask(votes.term, now_ms, is_pre_vote=False)
        self._votes = None
        return self._lead(votes, now_ms)

    def _lead(self, votes: Votes, now_ms: int) -> list[QuorumEffect]:
        assert votes.term == self.term
        if not self._election.is_whole:
            # Each voter that has something has found that this member has as much.
            self._keep(msgspec.structs.replace(self._election, is_whole=True))
        self.leader = self._node_id
        self._leading = self.leader_type(
            self._partition,
            self._node_id,
            self._voters,
            self.term,
            self.log,
            incarnations=votes.granted,
            config=self._config,
            now_ms=now_ms,
        )
        # Nothing counts before an entry of this term is committed, so there has to be one.
        self._append([None])
        return [Elected(self.term), *self._advanced(now_ms)]

    # Leading

    def _append(self, values: Sequence[bytes | None]) -> int:
        time_ms = self._ports.time_of_day_ms()
        batches = split_batches(build_batch([NewRecord(value, timestamp=time_ms) for value in values]))
        (result,) = self.log.append(batches, leader_epoch=self.term, now_ms=time_ms, origin=Origin.COORDINATOR)
        assert isinstance(result, Appended), f"no other member writes the log of a quorum: {result}"
        self.log.flush()
        return self.log.log_end_offset

    def _on_push_answered(self, event: PushAnswered, now_ms: int) -> list[QuorumEffect]:
        if event.leader_epoch > self.term:
            return self._enter(event.leader_epoch)
        if self._leading is None or event.leader_epoch < self.term:
            return []
        self._leading.answered(event, now_ms)
        return self._advanced(now_ms)

    def _advanced(self, now_ms: int) -> list[QuorumEffect]:
        assert self._leading is not None
        self._leading.advance()
        return [*self._committed(), *self._leading.due(now_ms)]

    def _committed(self) -> list[QuorumEffect]:
        if self.log.high_watermark <= self._told_offset:
            return []
        self._told_offset = self.log.high_watermark
        if self._told_offset > self._election.committed:
            self._keep(msgspec.structs.replace(self._election, committed=self._told_offset))
            self._follower.keeps_before = self._told_offset
        return [Committed(self._told_offset)]

    def _step_down(self, now_ms: int) -> list[QuorumEffect]:
        """Stop leading in this term, for good, and wait like a voter that has just heard from a leader."""
        assert self._leading is not None
        self._leading, self.leader = None, NO_NODE
        self._rest(now_ms)
        return [Deposed(self.term)]

    # Following

    def _on_push(self, push: Push, now_ms: int) -> list[QuorumEffect]:
        effects: list[QuorumEffect] = []
        if self._is_silent_to(push, now_ms):
            return effects
        if push.leader_epoch >= self.term:
            effects += self._enter(push.leader_epoch)
            assert not self.is_leader, f"nodes {self._node_id} and {push.leader} both lead in term {self.term}"
            self.leader, self._votes = push.leader, None
            self._heard_ms = now_ms
            self._rest(now_ms)
        if self._drops_its_log(push):
            self._note_whole(push, is_whole=False)
        answer = self._follower.push(push, self._ports.time_of_day_ms())
        if answer.error_code is ErrorCode.NONE and self._has_caught_up(push):
            self._note_whole(push, is_whole=True)
        return [*effects, *self._committed(), SendTo(push.leader, answer)]

    def _is_silent_to(self, push: Push, now_ms: int) -> bool:
        """Whether a voter that may have forgotten its vote does not answer a leader that it knows nothing of.

        This very voter may have helped to replace that leader, and with its answers the leader would go on. Without
        them it steps down before this voter speaks.
        """
        if self._election.is_whole or now_ms >= self._speak_ms:
            return False
        return (push.leader_epoch, push.leader) != (self.term, self._election.voted_for)

    def _drops_its_log(self, push: Push) -> bool:
        """Whether a push makes the log begin anew, though it has entries that others may rely on."""
        has_something = self.log.log_start_offset < self.log.log_end_offset
        return push.begins_anew and push.base_offset > self._follower.agreed_offset and has_something

    def _note_whole(self, push: Push, *, is_whole: bool) -> None:
        is_for_us = push.leader_epoch == self.term and push.incarnation == self._election.incarnation
        if is_for_us and self._election.is_whole is not is_whole:
            self._keep(msgspec.structs.replace(self._election, is_whole=is_whole))

    def _has_caught_up(self, push: Push) -> bool:
        """Whether the log has all that was committed when the push was made, an entry of the leader's term included.

        By then it again has whatever this voter acknowledged and others relied on.
        """
        committed = push.high_watermark
        if self.log.log_end_offset < self._election.committed:
            return False
        return self.committed_offset >= committed and self.log.epochs.epoch_at(committed - 1) == push.leader_epoch

    # Terms and time

    def _enter(self, term: int, voted_for: int = NO_NODE) -> list[QuorumEffect]:
        """Enter a term, and vote in it where a candidate is given. The leader of an older term leads no more."""
        if term == self.term and voted_for in (NO_NODE, self._election.voted_for):
            return []
        assert term >= self.term, f"a term fell from {self.term} to {term}"
        deposed: list[QuorumEffect] = []
        if term > self.term:
            deposed = [] if self._leading is None else [Deposed(self.term)]
            self._leading, self._votes, self.leader = None, None, NO_NODE
        self._keep(msgspec.structs.replace(self._election, term=term, voted_for=voted_for))
        self._follower.follow(term)
        return deposed

    def _keep(self, election: ElectionState) -> None:
        election = msgspec.structs.replace(election, sequence=self._election.sequence + 1)
        self._ports.persist(election)
        self._election = election

    def _rest(self, now_ms: int) -> None:
        self._election_due_ms = now_ms + self._wait_ms(1)

    def _wait_ms(self, least: float, span: float = 1.0) -> int:
        if len(self._voters) == 1:
            return 0
        return int(self._config.controller_quorum_election_timeout_ms * (least + span * self._ports.chance()))
