"""Strays are listed with why, restored where that is certain, and removed by their name alone."""

import shutil

import pytest

from eagleray.broker.log.partition_metadata import encode_partition_metadata
from eagleray.offline.layout import DirectoryInUse, NoDataDirectory, lock_partition
from eagleray.offline.strays import StrayKept, adopt, find_stray, list_strays, records_in, remove
from tests.support.data_directories import flip, state_of

ORDERS = "logs/orders-0"
METADATA = f"{ORDERS}/partition.metadata"


def test_directory_that_is_whole_has_no_strays(data_dir):
    before = state_of(data_dir)
    assert list_strays(str(data_dir)) == []
    assert state_of(data_dir) == before


@pytest.mark.parametrize("at", [3, -3, 20], ids=["unreadable", "another id", "another id too"])
def test_stray_whose_partition_metadata_is_damaged_is_restored_as_it_was(data_dir, at):
    whole = (data_dir / METADATA).read_bytes()
    flip(data_dir / METADATA, at)
    (stray,) = list_strays(str(data_dir))
    assert stray.name == "orders-0"
    assert stray.size_bytes == sum(path.stat().st_size for path in (data_dir / ORDERS).iterdir())
    assert records_in(stray) == "whole"
    adopt(stray)
    assert (data_dir / METADATA).read_bytes() == whole
    assert list_strays(str(data_dir)) == []


def test_stray_whose_partition_metadata_is_gone_is_restored(data_dir):
    whole = (data_dir / METADATA).read_bytes()
    (data_dir / METADATA).unlink()
    adopt(find_stray(str(data_dir), "orders-0"))
    assert (data_dir / METADATA).read_bytes() == whole


def leave_unknown(data_dir):
    """The directory of a topic that the metadata never knew."""
    shutil.copytree(data_dir / ORDERS, data_dir / "logs/unknown-0")
    (data_dir / "logs/unknown-0/partition.metadata").write_bytes(encode_partition_metadata(b"other topic's id"))


def test_directory_that_the_metadata_do_not_know_is_a_stray_that_is_not_adopted(data_dir):
    leave_unknown(data_dir)
    stray = find_stray(str(data_dir), "unknown-0")
    assert "the metadata know no topic 'unknown'" in stray.why
    before = state_of(data_dir)
    with pytest.raises(StrayKept, match="is not certain"):
        adopt(stray)
    assert state_of(data_dir) == before


def test_directory_under_the_name_of_another_topic_is_not_adopted(data_dir):
    """All that it says of itself agrees, and it is not that of the topic of this name."""
    shutil.rmtree(data_dir / "logs/payments-0")
    shutil.copytree(data_dir / ORDERS, data_dir / "logs/payments-0")
    (data_dir / "logs/payments-0/partition.metadata").unlink()
    with pytest.raises(StrayKept):
        adopt(find_stray(str(data_dir), "payments-0"))


def test_without_metadata_only_what_says_so_itself_is_a_stray(data_dir):
    leave_unknown(data_dir)
    shutil.rmtree(data_dir / "logs/__cluster_metadata-0")
    (data_dir / "logs/looked-at").mkdir()
    flip(data_dir / "logs/payments-0/partition.metadata", 3)
    found = {stray.name: stray for stray in list_strays(str(data_dir))}
    # The copy says that it is of two topics.
    assert set(found) == {"looked-at", "payments-0", "unknown-0"}
    assert found["payments-0"].adopted_as
    assert not found["looked-at"].adopted_as


def test_stray_is_removed_by_its_name_and_nothing_else_is(data_dir):
    leave_unknown(data_dir)
    others = state_of(data_dir / ORDERS)
    remove(find_stray(str(data_dir), "unknown-0"))
    assert not (data_dir / "logs/unknown-0").exists()
    assert not [*(data_dir / "logs").glob("*-delete")]
    assert state_of(data_dir / ORDERS) == others


def test_what_is_no_stray_is_not_removed(data_dir):
    with pytest.raises(StrayKept, match="is no stray"):
        find_stray(str(data_dir), "orders-0")
    with pytest.raises(NoDataDirectory):
        find_stray(str(data_dir), "orders-7")


def test_stray_that_a_process_has_open_is_left_alone(data_dir):
    flip(data_dir / METADATA, 3)
    stray = find_stray(str(data_dir), "orders-0")
    lock = lock_partition(str(data_dir), "orders-0")
    before = state_of(data_dir)
    for change in (adopt, remove):
        with pytest.raises(DirectoryInUse):
            change(stray)
    assert state_of(data_dir) == before
    lock.release()
