"""Verifying finds damage in every kind of file, and changes nothing."""

import shutil

import pytest

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log.index_file import IndexPrefix
from eagleray.broker.log.index_files import IndexFiles
from eagleray.offline.findings import Severity
from eagleray.offline.layout import NoDataDirectory, lock_partition
from eagleray.offline.verifying import verify
from tests.support.data_directories import flip, state_of

ORDERS = "logs/orders-0"
DERIVED = {".checksums", ".index", ".timeindex", ".txnindex", ".snapshot"}
DERIVED_NAMES = {"leader-epoch-checkpoint", "leader-epoch-checkpoint.checksum", "segment-bookmark"}
IRRELEVANT = {".lock", ".port", ".reserve"}
"""What says nothing that could be wrong."""


def problems(path, partition=""):
    return [finding for each in verify(str(path), partition) for finding in each.findings if finding.is_problem]


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_directory_of_nodes_that_were_stopped_or_killed_is_whole(written, name):
    before = state_of(written / name)
    (verified,) = verify(str(written / name))
    assert verified.is_whole, verified.findings
    assert verified.partitions == [
        "__cluster_metadata-0",
        "__consumer_offsets-0",
        "__transaction_state-0",
        "orders-0",
        "payments-0",
    ]
    assert verified.node_ids == (0, 1)
    assert verified.cluster_id
    assert state_of(written / name) == before


def files_with_content(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_flipped_bit_of_any_file_is_found_in_that_file_and_nothing_changes(written, tmp_path, name):
    for original in files_with_content(written / name):
        relative = original.relative_to(written / name)
        if relative.suffix in IRRELEVANT:
            continue
        data_dir = shutil.copytree(written / name, tmp_path / "data")
        flip(data_dir / relative)
        before = state_of(data_dir)
        found = problems(data_dir, relative.parts[1] if relative.parts[0] == "logs" else "")
        assert found, f"a flipped bit of {relative} was not found"
        is_derived = relative.suffix in DERIVED or relative.name in DERIVED_NAMES
        expected = Severity.DERIVED if is_derived else Severity.DAMAGE
        assert expected in {finding.severity for finding in found}, (relative, found)
        if is_derived:
            assert all("eagleray storage repair" in finding.help for finding in found), found
        assert state_of(data_dir) == before
        shutil.rmtree(data_dir)


@pytest.mark.parametrize("at", range(0, 800, 50))
def test_damaged_batch_is_named_by_file_and_offset(data_dir, at):
    path = data_dir / ORDERS / "00000000000000000022.log"
    flip(path, at)
    found = problems(data_dir, "orders-0")
    (batch,) = [finding for finding in found if finding.path == str(path)] or [None]
    if batch is None:
        # What no checksum covers: the offset and the epoch of a batch.
        assert any("offset" in finding.what or "epoch" in finding.what for finding in found), found
    else:
        assert 0 <= batch.position <= at
        assert 22 <= batch.offset < 44


def test_every_damaged_segment_is_named(data_dir):
    damaged = [data_dir / ORDERS / f"{offset:020d}.log" for offset in (0, 44)]
    for path in damaged:
        flip(path)
    assert {str(path) for path in damaged} <= {finding.path for finding in problems(data_dir)}


def test_segment_that_is_gone_is_found(data_dir):
    (data_dir / ORDERS / "00000000000000000022.log").unlink()
    assert [finding.severity for finding in problems(data_dir)].count(Severity.DAMAGE) >= 1


def test_index_that_is_gone_is_found(data_dir):
    path = data_dir / ORDERS / "00000000000000000022.index"
    path.unlink()
    assert str(path) in {finding.path for finding in problems(data_dir)}


def test_index_that_leads_to_no_batch_is_found_though_its_checksum_is_right(data_dir):
    start = str(data_dir / ORDERS / f"{22:020d}")
    index_files = IndexFiles(LocalFileSystem(), start, "")
    assert index_files.load()
    content = index_files.read(".index")
    changed = content[:-1] + bytes([content[-1] ^ 1])
    index_files.expect({".index": IndexPrefix()})
    index_files.append(".index", changed, flush=True)
    index_files.write_checksums()
    (finding,) = problems(data_dir, "orders-0")
    assert finding.path == f"{start}.index"
    assert "where no such batch is" in finding.what


@pytest.mark.parametrize(
    "name",
    [
        f"{ORDERS}/{22:020d}.index",
        f"{ORDERS}/{22:020d}.log",
        f"{ORDERS}/partition-checkpoint",
        f"{ORDERS}/partition.metadata",
        "nodes/0.identity",
    ],
)
def test_file_that_the_disk_does_not_give_is_found_and_the_rest_is_read(data_dir, name):
    (data_dir / name).unlink()
    (data_dir / name).mkdir()
    flip(data_dir / "logs/payments-0/partition-checkpoint.2")
    found = problems(data_dir)
    assert any("cannot be read" in finding.what or "could not be opened" in finding.what for finding in found), found
    assert "payments-0" in {finding.partition for finding in found}


def test_torn_write_is_a_notice(killed_dir):
    path = killed_dir / ORDERS / "00000000000000000066.log"
    path.write_bytes(path.read_bytes() + b"\0" * 7)
    (verified,) = verify(str(killed_dir))
    assert verified.is_whole
    (notice,) = [finding for finding in verified.findings if finding.partition == "orders-0"]
    assert "7 bytes" in notice.what


def test_metadata_log_that_is_shorter_than_what_was_committed_is_found(data_dir):
    directory = data_dir / "logs/__cluster_metadata-0"
    election = (directory / "quorum-state").read_bytes()
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / "quorum-state").write_bytes(election)
    assert any("had been committed here" in finding.what for finding in problems(data_dir))


def test_replica_without_files_is_found(data_dir):
    shutil.rmtree(data_dir / ORDERS)
    (finding,) = problems(data_dir)
    assert (finding.partition, "in sync" in finding.what) == ("orders-0", True)


def test_directories_of_two_clusters_are_found(data_dir, written):
    shutil.copy(written / "killed/nodes/1.identity", data_dir / "nodes/1.identity")
    assert any("expected nodes of one cluster" in finding.what for finding in problems(data_dir))


def test_partition_that_a_node_has_open_is_not_read(data_dir):
    lock = lock_partition(str(data_dir), "orders-0")
    try:
        (verified,) = verify(str(data_dir))
    finally:
        lock.release()
    assert (verified.in_use, verified.is_whole) == (["orders-0"], False)
    assert verify(str(data_dir))[0].is_whole


def test_machines_of_one_directory_are_all_read(tmp_path, written):
    for name in ("machine-0", "machine-1"):
        shutil.copytree(written / "stopped", tmp_path / name)
    flip(tmp_path / "machine-1/nodes/0.identity")
    first, second = verify(str(tmp_path))
    assert (first.is_whole, second.is_whole) == (True, False)


def test_path_that_is_no_data_directory_is_refused(tmp_path):
    with pytest.raises(NoDataDirectory, match="expected the --data-dir"):
        verify(str(tmp_path))
