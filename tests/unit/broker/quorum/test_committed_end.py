"""A voter remembers how much was committed: with less than that it does not lead, and never follows back."""

from contextlib import suppress
from itertools import count

import msgspec
import pytest

from eagleray.broker.checked_file import FileDamaged, encode_checked
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.generations import SECOND_SUFFIX
from eagleray.broker.log import Flush, LogConfig, PartitionLog
from eagleray.broker.quorum.election_state import ElectionState, read_election_state, write_election_state
from eagleray.broker.quorum.follower import MetadataWouldGoBack
from eagleray.broker.runtime.deadlines import NEVER_MS
from tests.support.faults import CHANGES, Fault, Outcome, ProcessKilled
from tests.support.quorum import ELECTION_STATE, TIME_OF_DAY_MS, TIMEOUT_MS, Voters


def state_of(voters: Voters, node_id: int) -> ElectionState:
    return read_election_state(voters.disks[node_id], ELECTION_STATE)


def lose_end(voters: Voters, node_id: int, to_offset: int) -> None:
    """Have a voter come back with a shorter log, as from an old copy, and with its newest election state."""
    disk = voters.disks[node_id]
    disk.crash_process()
    log = PartitionLog.open(disk, "/log", LogConfig(flush=Flush.COMMIT), now_ms=TIME_OF_DAY_MS)
    log.truncate(to_offset, now_ms=TIME_OF_DAY_MS)
    log.close()
    voters.start(node_id)


def committed_quorum() -> Voters:
    """Three voters that have all committed five values, and know it."""
    voters = Voters(1, 2, 3)
    voters.elect(1)
    for value in range(5):
        voters.propose(1, b"%d" % value)
        voters.carry()
    voters.now_ms += TIMEOUT_MS // 2
    voters.tick(1)
    voters.carry()
    assert {voters[node_id].committed_offset for node_id in (1, 2, 3)} == {6}
    return voters


def test_every_voter_remembers_what_was_committed() -> None:
    voters = committed_quorum()
    assert [state_of(voters, node_id).committed for node_id in (1, 2, 3)] == [6, 6, 6]


def test_only_voter_with_a_shorter_log_does_not_lead() -> None:
    voters = Voters(1)
    voters.tick(1)
    voters.propose(1, b"kept")
    voters.propose(1, b"lost")
    assert state_of(voters, 1).committed == 3
    lose_end(voters, 1, 2)
    assert not voters[1].may_stand
    assert voters[1].next_due_ms == NEVER_MS
    voters.now_ms += 10 * TIMEOUT_MS
    voters.tick(1)
    assert not voters[1].is_leader


def test_only_voter_with_its_whole_log_leads_again() -> None:
    voters = Voters(1)
    voters.tick(1)
    voters.propose(1, b"kept")
    voters.start(1)
    voters.tick(1)
    assert voters[1].is_settled


def test_voter_with_a_shorter_log_does_not_stand_and_is_whole_again_once_others_have_repaired_it() -> None:
    voters = committed_quorum()
    lose_end(voters, 2, 3)
    assert not voters[2].may_stand
    assert not state_of(voters, 2).is_whole
    voters.now_ms += 3 * TIMEOUT_MS
    voters.tick(2)
    voters.carry()
    assert voters[2].state.value == "Follower"
    voters.tick(1)
    voters.sent.clear()
    voters.elect(3)
    voters.tick(3)
    voters.carry()
    assert voters[2].committed_offset >= 6
    assert voters[2].may_stand
    assert state_of(voters, 2).is_whole


def test_vote_of_a_voter_with_a_shorter_log_does_not_elect_another_that_lacks_as_much() -> None:
    voters = committed_quorum()
    for node_id in (2, 3):
        lose_end(voters, node_id, 3)
    voters.now_ms += 3 * TIMEOUT_MS
    for node_id in (2, 3):
        voters.tick(node_id)
    voters.carry(voters.among(2, 3))
    assert not any(voters[node_id].is_leader for node_id in (2, 3))
    voters.tick(1)
    assert not voters[1].is_leader, "it has heard from nobody"
    voters.elect(1)
    assert voters[1].is_settled


def test_voter_does_not_follow_a_leader_that_lacks_what_was_committed() -> None:
    """The others have lost it, and what they remembered as well: old copies of whole directories."""
    voters = committed_quorum()
    for node_id in (2, 3):
        disk = voters.disks[node_id]
        write_election_state(
            disk, ELECTION_STATE, msgspec.structs.replace(state_of(voters, node_id), committed=0, is_whole=True)
        )
        lose_end(voters, node_id, 3)
    voters.elect(2, 3)
    before = voters[1].log.log_end_offset

    def go_on() -> None:
        for _ in range(5):
            voters.now_ms += TIMEOUT_MS // 2
            voters.tick(2)
            voters.carry()

    with pytest.raises(MetadataWouldGoBack, match="everything before offset 6 was committed"):
        go_on()
    assert voters[1].log.log_end_offset == before


def test_election_state_of_which_one_generation_is_damaged_is_the_other_and_the_voter_is_not_whole() -> None:
    """The damaged one may have had another vote."""
    voters = committed_quorum()
    disk, newest = voters.disks[1], state_of(voters, 1)
    assert newest.is_whole
    path = ELECTION_STATE if newest.sequence % 2 else ELECTION_STATE + SECOND_SUFFIX
    sound = disk.read_bytes(path)
    for position in range(len(sound)):
        disk.rot(path, position, 2)
        left = state_of(voters, 1)
        assert (left.sequence, left.is_whole) == (newest.sequence - 1, False)
        disk.rot(path, position, 2)
    assert state_of(voters, 1) == newest


def test_election_state_of_which_both_generations_are_damaged_is_told_from_none() -> None:
    voters = committed_quorum()
    for path in (ELECTION_STATE, ELECTION_STATE + SECOND_SUFFIX):
        voters.disks[1].rot(path, 30, 2)
    with pytest.raises(FileDamaged):
        state_of(voters, 1)


def test_election_state_of_the_version_with_one_generation_goes_on_wherever_its_migration_is_interrupted() -> None:
    for step in count():
        voters = Voters(1, is_new=True)
        disk = voters.disks[1]
        for path in (ELECTION_STATE, ELECTION_STATE + SECOND_SUFFIX):
            disk.remove(path)
        write_atomically(disk, ELECTION_STATE, encode_checked(ElectionState(7, 1, 9, committed=0)))
        with disk.possibly(Fault(Outcome.KILL, on=CHANGES, skip=step)) as fault, suppress(ProcessKilled):
            voters.start(1)
        disk.crash_process()
        assert state_of(voters, 1).term == 7
        assert state_of(voters, 1).voted_for == 1
        if not fault.has_fired:
            assert step > 2
            break


def test_election_state_of_before_there_were_checksums_is_read() -> None:
    voters = Voters(1)
    disk = voters.disks[1]
    for path in (ELECTION_STATE, ELECTION_STATE + SECOND_SUFFIX):
        disk.remove(path)
    file = disk.open(ELECTION_STATE)
    file.write([b'{"term":7,"voted_for":1,"incarnation":9,"is_whole":true}'])
    file.close()
    assert state_of(voters, 1) == ElectionState(7, 1, 9, is_whole=True, committed=0)


@pytest.mark.parametrize("gone", [ELECTION_STATE, ELECTION_STATE + SECOND_SUFFIX])
def test_vote_is_not_forgotten_by_a_lost_file(gone: str) -> None:
    voters = committed_quorum()
    voters.disks[2].remove(gone)
    assert not state_of(voters, 2).is_whole, "the other file may have had another vote"
