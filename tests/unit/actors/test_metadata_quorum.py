"""A voter whose disk has changed its metadata log: others repair it, and without others it does not start."""

from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import pytest

from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.roles.metadata_quorum import MetadataLost, MetadataQuorum
from eagleray.actors.storage.data_directory import DataDirectory, format_directory
from eagleray.actors.storage.log_manager import LogManager
from eagleray.broker.quorum.election_state import ElectionState, read_election_state, write_election_state
from tests.support.batches import NOW_MS
from tests.support.faults import CHANGES, Fault, Outcome, ProcessKilled
from tests.support.node_disk import NodeDisk

DATA, LOG = "/data", "/data/logs/__cluster_metadata-0"
STATE = f"{LOG}/quorum-state"
SEGMENT = f"{LOG}/{0:020d}.log"
THREE = (1, 2, 3)


def start(disk, voters):
    spec = NodeSpec(
        cluster="test",
        node_id=1,
        roles=("controller",),
        data_dir=DATA,
        host="",
        token=b"",
        settings={},
        controllers=voters,
    )
    context = SimpleNamespace(
        spec=spec,
        disk=disk,
        directory=DataDirectory(disk, DATA, 1),
        now_ms=lambda: NOW_MS,
        steady_ms=lambda: NOW_MS,
        chance=lambda: 0.5,
        peers=SimpleNamespace(ask=lambda *message: None),
    )
    logs = LogManager(DATA, {}, disk)
    return MetadataQuorum(context, logs, lambda: None), logs


@pytest.fixture
def disk():
    """What a voter leaves that has led in a term alone, with a few values that were committed."""
    disk = NodeDisk()
    format_directory(disk, DATA, 1)
    quorum, logs = start(disk, (1,))
    quorum.tick()
    for value in range(5):
        quorum.propose([b"%d" % value])
    logs.close_all()
    return disk


def rot_last_batch(disk):
    disk.rot(SEGMENT, len(disk.read_bytes(SEGMENT)) - 10, 1)


def test_log_that_was_closed_well_and_has_rotted_since_is_put_aside_where_there_are_other_voters(disk, caplog):
    """Nothing is scanned when such a log is opened, so that only reading all of it tells."""
    rot_last_batch(disk)
    damaged, before = disk.read_bytes(SEGMENT), read_election_state(disk, STATE)
    quorum, _ = start(disk, THREE)
    assert disk.read_bytes(f"{DATA}/damaged/__cluster_metadata-0/{0:020d}.log") == damaged
    after = read_election_state(disk, STATE)
    assert (after.term, after.voted_for, after.committed) == (before.term, before.voted_for, 6)
    assert before.is_whole
    assert not after.is_whole
    assert not quorum._member.may_stand
    assert "is put aside; the other voters repair it" in caplog.text


def test_voter_that_remembers_no_committed_end_is_not_whole_either_with_the_log_that_it_begins_anew(disk):
    election = read_election_state(disk, STATE)
    for sequence in (election.sequence + 1, election.sequence + 2):
        write_election_state(disk, STATE, ElectionState(election.term, 1, 7, sequence=sequence))
    rot_last_batch(disk)
    start(disk, THREE)
    assert not read_election_state(disk, STATE).is_whole


def test_only_voter_with_such_a_log_does_not_start_and_its_batches_stay(disk):
    rot_last_batch(disk)
    damaged = disk.read_bytes(SEGMENT)
    with pytest.raises(MetadataLost, match=r"is damaged \(.*restore-metadata"):
        start(disk, (1,))
    assert disk.read_bytes(SEGMENT) == damaged


def test_repair_that_is_interrupted_anywhere_leaves_no_voter_that_counts_as_whole(disk):
    rot_last_batch(disk)
    damaged, first = disk.read_bytes(SEGMENT), disk
    for step in count():
        disk = first.copy()
        with disk.possibly(Fault(Outcome.KILL, on=CHANGES, skip=step)) as fault, suppress(ProcessKilled):
            start(disk, THREE)
        disk.crash_process()
        start(disk, THREE)
        assert not read_election_state(disk, STATE).is_whole
        assert damaged in disk.tree().values()
        if not fault.has_fired:
            assert step > 5
            break
