"""A voter of a quorum, message by message."""

import pytest

from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.quorum.config import QuorumConfig
from eagleray.broker.quorum.election_state import ElectionState, read_election_state
from eagleray.broker.quorum.events import Committed, Deposed, Elected, RequestVote, SendTo, VoteAnswered
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.protocol.errors import ErrorCode
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.quorum import ELECTION_STATE, LEASE_MS, TIMEOUT_MS, Voters


def test_a_single_voter_leads_at_once_and_needs_no_other() -> None:
    voters = Voters(1)
    voters.tick(1)
    assert voters.others == [(1, Elected(1)), (1, Committed(1))]
    assert voters.propose(1, b"one", b"two") == 3
    assert voters.others[-1] == (1, Committed(3))
    assert voters.sent == []
    voters.now_ms += 100 * TIMEOUT_MS
    voters.tick(1)
    assert voters[1].holds(voters.now_ms)
    assert voters[1].is_settled


def test_a_single_voter_leads_again_in_a_newer_term_with_all_that_it_had() -> None:
    voters = Voters(1)
    voters.tick(1)
    voters.propose(1, b"one")
    voters.start(1)
    voters.tick(1)
    assert voters.others[-2:] == [(1, Elected(2)), (1, Committed(3))]


def test_three_elect_one_and_all_know_who_it_is() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(2)
    assert [voters[node_id].leader for node_id in (1, 2, 3)] == [2, 2, 2]
    assert [voters[node_id].committed_offset for node_id in (1, 2, 3)] == [1, 1, 1]
    assert voters[2].holds(voters.now_ms)
    assert not voters[1].holds(voters.now_ms)


def test_a_proposal_is_committed_by_a_majority_and_not_before() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    end_offset = voters.propose(1, b"one")
    assert voters[1].committed_offset < end_offset
    voters.carry(voters.among(1, 3))
    assert voters[1].committed_offset == end_offset
    assert voters[2].committed_offset < end_offset


def test_follower_takes_no_proposals() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    assert voters[2].propose([b"one"], voters.now_ms) == (None, [])


def test_a_vote_is_on_the_disk_before_it_is_given() -> None:
    voters = Voters(1, 2, 3)
    voters.tell(1, RequestVote(5, 2, -1, 0))
    kept = read_election_state(voters.disks[1], ELECTION_STATE)
    assert kept == ElectionState(5, 2, voters.incarnation(1), sequence=kept.sequence)
    voters.now_ms += 2 * TIMEOUT_MS
    voters.start(1)
    voters.now_ms += 2 * TIMEOUT_MS
    voters.sent.clear()
    voters.tell(1, RequestVote(5, 3, -1, 0))
    assert voters.sent == [(1, SendTo(3, VoteAnswered(5, 1, voters.incarnation(1), 5, False, False)))]


def test_pre_vote_changes_nothing() -> None:
    voters = Voters(1, 2, 3)
    voters.tell(1, RequestVote(5, 2, -1, 0, is_pre_vote=True))
    assert voters.sent == [(1, SendTo(2, VoteAnswered(0, 1, voters.incarnation(1), 5, True, True)))]
    assert voters[1].term == 0


def test_candidate_with_less_gets_no_vote() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1, 2)
    voters.now_ms += 2 * TIMEOUT_MS
    voters.tick(3)
    voters.carry(voters.among(2, 3))
    assert not voters[3].is_leader
    voters.tick(2)
    voters.carry(voters.among(2, 3))
    assert voters[2].is_leader


def test_voter_with_a_recent_leader_grants_no_vote_and_stays_in_its_term() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    voters.now_ms += TIMEOUT_MS - 1
    voters.tell(2, RequestVote(9, 3, 9, 100))
    assert voters.sent == [(2, SendTo(3, VoteAnswered(1, 2, voters.incarnation(2), 9, False, False)))]
    voters.now_ms += 1
    voters.tell(2, RequestVote(9, 3, 9, 100))
    assert voters.sent[-1] == (2, SendTo(3, VoteAnswered(9, 2, voters.incarnation(2), 9, False, True)))


def test_a_new_life_waits_as_if_it_had_heard_from_a_leader() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    voters.start(2)
    voters.tell(2, RequestVote(9, 3, 9, 100))
    assert voters.sent[-1] == (2, SendTo(3, VoteAnswered(1, 2, voters.incarnation(2), 9, False, False)))


def test_a_leader_holds_for_its_lease_after_it_sent_what_was_answered() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    sent_ms = voters.now_ms
    voters.propose(1, b"one")
    voters.now_ms += LEASE_MS - 1
    voters.carry()
    assert voters[1].holds(voters.now_ms)
    # The answers were carried late, and the heartbeats that followed were sent and answered only now.
    voters.now_ms = sent_ms + LEASE_MS
    assert voters[1].holds(voters.now_ms)
    voters.now_ms += LEASE_MS
    assert not voters[1].holds(voters.now_ms)


def test_the_lease_begins_when_the_push_was_sent() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    voters.propose(1, b"one")
    pushes = [effect for _, effect in voters.sent]
    voters.sent.clear()
    voters.now_ms += LEASE_MS
    assert not voters[1].holds(voters.now_ms)
    for push in pushes:
        voters.tell(push.node_id, push.message)
    answers, voters.sent = voters.sent, []
    for _, answer in answers:
        voters.tell(1, answer.message)
    assert not voters[1].holds(voters.now_ms)


def test_a_leader_with_nothing_to_tell_stays_in_touch() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    for _ in range(40):
        voters.now_ms += 50
        voters.tick(1)
        voters.tick(2)
        voters.carry(voters.among(1, 2))
        assert voters[1].holds(voters.now_ms)
    assert (voters[1].term, voters[2].leader) == (1, 1)


def test_a_leader_that_hears_from_no_follower_steps_down() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    voters.now_ms += TIMEOUT_MS
    voters.tick(1)
    assert voters.others[-1] == (1, Deposed(1))
    assert (voters[1].is_leader, voters[1].leader) == (False, NO_NODE)


def test_a_newer_leader_deposes_an_older_one() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    voters.propose(1, b"lost")
    voters.sent.clear()
    voters.elect(2, 3)
    voters.propose(2, b"kept")
    voters.now_ms += 500
    voters.tick(2)
    voters.carry()
    assert (1, Deposed(1)) in voters.others
    assert [voters[node_id].committed_offset for node_id in (1, 2, 3)] == [3, 3, 3]
    assert not voters[1].is_leader


def test_entries_of_older_terms_are_committed_by_one_of_the_own_term_only() -> None:
    """The case of Raft's figure 8: a majority has an entry of term 1, and a leader of term 2 may still replace it."""
    config = QuorumConfig(controller_quorum_push_max_bytes=1)
    voters = Voters(1, 2, 3, config=config)
    voters.elect(1)
    voters.propose(1, b"of the first term")
    voters.sent.clear()
    voters.now_ms += 2 * TIMEOUT_MS
    voters.tick(1)
    voters.elect(1, 2)
    # The election has carried everything; what is looked at is that nothing was committed before the term's own.
    commits = [effect.offset for node_id, effect in voters.others if node_id == 1 and isinstance(effect, Committed)]
    assert commits == [1, 3]


def test_a_follower_behind_the_start_of_the_log_begins_anew() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1, 2)
    for number in range(5):
        voters.propose(1, b"%d" % number)
        voters.carry(voters.among(1, 2))
    image_end = voters.propose(1, b"image")
    voters.carry(voters.among(1, 2))
    voters.take(1, voters[1].trim(image_end - 1, voters.now_ms))
    voters.now_ms += 500
    voters.tick(1)
    voters.carry()
    assert [voters[node_id].log.log_start_offset for node_id in (1, 2, 3)] == [image_end - 1] * 3
    assert voters[3].committed_offset == image_end


def dropping(voters: Voters) -> Push:
    """Have voter 3 fall behind the start of the leader's log, and return the push that makes it begin anew."""
    voters.elect(1)
    for number in range(3):
        voters.propose(1, b"%d" % number)
        voters.carry()
    image_end = voters.propose(1, b"image")
    voters.carry(voters.among(1, 2))
    voters.propose(1, b"more")
    voters.carry(voters.among(1, 2))
    voters.take(1, voters[1].trim(image_end, voters.now_ms))
    voters.sent.clear()
    voters.now_ms += 500
    voters.tick(1)
    return next(
        effect.message
        for _, effect in voters.sent
        if effect.node_id == 3 and isinstance(effect.message, Push) and effect.message.begins_anew
    )


def test_voter_that_dies_while_it_drops_its_log_has_no_vote_of_its_own_until_it_has_caught_up() -> None:
    voters = Voters(1, 2, 3)
    push = dropping(voters)
    killed = Fault(Outcome.KILL, on=Operation.WRITE, path_ending=".log")
    with voters.disks[3].injected(killed), pytest.raises(ProcessKilled):
        voters.tell(3, push)
    voters.start(3)
    voters.now_ms += 2 * TIMEOUT_MS
    voters.sent.clear()
    asked = RequestVote(9, 2, 9, 100, is_pre_vote=True)
    voters.tell(3, asked)
    assert (3, SendTo(2, VoteAnswered(1, 3, voters.incarnation(3), 9, True, True, False))) in voters.sent
    voters.tick(1)
    voters.elect(2)
    voters.now_ms += 500
    voters.tick(2)
    voters.carry()
    voters.now_ms += 2 * TIMEOUT_MS
    voters.tell(3, asked)
    assert voters.sent == [(3, SendTo(2, VoteAnswered(2, 3, voters.incarnation(3), 9, True, True, True)))]


def test_a_push_for_an_earlier_life_is_refused() -> None:
    """It may ask a voter to begin anew that has, since then, taken and acknowledged more."""
    voters = Voters(1, 2, 3)
    push = dropping(voters)
    voters.tell(3, push)
    voters.carry()
    end_offset = voters[3].log.log_end_offset
    voters.start(3)
    voters.tell(3, push)
    (_, answer), *_ = voters.sent
    assert isinstance(answer.message, PushAnswered)
    assert answer.message.error_code is ErrorCode.STALE_BROKER_EPOCH
    assert voters[3].log.log_end_offset == end_offset
    voters.carry()
    voters.propose(1, b"and more")
    voters.carry()
    assert voters[3].committed_offset == end_offset + 1


def test_a_new_quorum_begins_once_all_are_there() -> None:
    voters = Voters(1, 2, 3, is_new=True)
    voters.now_ms += TIMEOUT_MS
    voters.tick(1)
    voters.carry(voters.among(1, 2))
    assert not voters[1].is_leader
    voters.now_ms += TIMEOUT_MS
    voters.tick(1)
    voters.carry()
    assert voters[1].is_settled
    assert [read_election_state(disk, ELECTION_STATE).is_whole for disk in voters.disks.values()] == [True, True, True]


def test_voter_with_an_empty_disk_does_not_elect_a_candidate_that_lacks_what_it_had() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    voters.propose(1, b"only on 1 and 2")
    voters.carry(voters.among(1, 2))
    voters.replace_disk(2)
    voters.now_ms += 2 * TIMEOUT_MS
    voters.tick(1)
    voters.tick(3)
    voters.carry(voters.among(2, 3))
    assert not voters[3].is_leader
    voters.elect(1)
    assert [voters[node_id].committed_offset for node_id in (1, 2, 3)] == [3, 3, 3]
    assert read_election_state(voters.disks[2], ELECTION_STATE).is_whole


def test_voter_that_alone_has_the_log_is_elected_once_all_are_there_and_no_other_is() -> None:
    """So it is also when a cluster that had one voter begins again with three."""
    voters = Voters(1, 2, 3)
    voters.elect(1)
    end_offset = voters.propose(1, b"one")
    voters.carry()
    voters.now_ms += 1
    for node_id in (2, 3):
        voters.replace_disk(node_id)
    voters.now_ms += 2 * TIMEOUT_MS
    for node_id in (1, 2, 3):
        voters.tick(node_id)
        voters.carry(voters.among(2, 3))
    assert not any(voters[node_id].is_leader for node_id in (1, 2, 3))
    voters.elect(1)
    assert voters[3].committed_offset == end_offset + 1


def test_voter_with_an_empty_disk_does_not_keep_a_leader_that_it_may_have_helped_to_replace() -> None:
    voters = Voters(1, 2, 3)
    voters.elect(1)
    voters.now_ms += 1
    voters.replace_disk(2)
    voters.now_ms += 499
    voters.tick(1)
    voters.carry(voters.among(1, 2))
    assert voters[2].leader == NO_NODE
    voters.now_ms += 500
    voters.tick(1)
    assert (1, Deposed(1)) in voters.others


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"controller_quorum_lease_ms": 819}, "expected at most 818"),
        ({"controller_quorum_heartbeat_interval_ms": 800}, "less than the lease"),
        ({"controller_quorum_push_timeout_ms": 0}, "expected a value from 1 to"),
    ],
)
def test_settings_that_could_not_work_are_refused(settings: dict[str, int], refusal: str) -> None:
    with pytest.raises(ValueError, match=refusal):
        QuorumConfig(**settings)
