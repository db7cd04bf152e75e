"""A data directory says whose it is: what is foreign, newer or damaged is refused, and what is older gets the file."""

from contextlib import suppress
from itertools import count

import msgspec
import pytest

from eagleray.actors.storage.data_directory import DataDirectory, format_directory, identities_in, identity_path
from eagleray.broker.checked_file import decode_checked, encode_checked
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.generations import SECOND_SUFFIX, summed
from eagleray.broker.metadata.directory_identity import FORMATS, DirectoryIdentity, DirectoryRefused
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.kept_image import KeptImage, kept_image_path, write_kept_image
from eagleray.broker.metadata.positions import NO_POSITION, MetadataPosition, TermBeginning
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.node_disk import NodeDisk

DATA, NODE, OTHER = "/data", 0, 30
PATH = identity_path(DATA, NODE)
CHANGES = frozenset(
    {Operation.CREATE, Operation.WRITE, Operation.FLUSH, Operation.RENAME, Operation.REMOVE, Operation.FLUSH_DIRECTORY}
)


@pytest.fixture
def disk():
    return NodeDisk()


def opened(disk, node_id=NODE):
    return DataDirectory(disk, DATA, node_id)


def older(disk):
    """A directory of the version that had no identity files."""
    disk.make_directories(f"{DATA}/nodes")
    write_atomically(disk, f"{DATA}/nodes/{NODE}.life", b"{}")
    return disk


def put(disk, identity, path=PATH):
    disk.make_directories(f"{DATA}/nodes")
    write_atomically(disk, path, identity if isinstance(identity, bytes) else encode_checked(identity))


def test_only_a_directory_that_was_formatted_may_begin_the_metadata(disk):
    assert not opened(disk).may_begin_metadata
    formatted = NodeDisk()
    format_directory(formatted, DATA, NODE)
    assert opened(formatted).may_begin_metadata
    assert not opened(formatted, OTHER).may_begin_metadata


def test_directory_that_was_used_is_not_formatted_again(disk):
    opened(disk)
    format_directory(disk, DATA, NODE)
    assert not opened(disk).may_begin_metadata
    with_logs = NodeDisk()
    with_logs.make_directories(f"{DATA}/logs/orders-0")
    format_directory(with_logs, DATA, NODE)
    assert not opened(with_logs).may_begin_metadata
    format_directory(older(old := NodeDisk()), DATA, NODE)
    assert not opened(old).may_begin_metadata


def test_metadata_begins_once(disk):
    format_directory(disk, DATA, NODE)
    opened(disk).metadata_has_begun()
    assert not opened(disk).may_begin_metadata


def test_cluster_that_a_node_has_registered_with_is_kept(disk):
    opened(disk).belong_to("ours")
    again = opened(disk)
    assert again.cluster_id == "ours"
    again.belong_to("ours")
    with pytest.raises(DirectoryRefused, match="belongs to cluster ours; expected cluster theirs"):
        again.belong_to("theirs")
    assert opened(disk).cluster_id == "ours"


def test_node_that_is_new_in_a_directory_belongs_to_the_cluster_of_the_others(disk):
    opened(disk, OTHER).belong_to("ours")
    assert opened(disk).cluster_id == "ours"


def test_directory_with_nodes_of_two_clusters_is_refused(disk):
    put(disk, DirectoryIdentity(node_id=NODE, cluster_id="ours"))
    put(disk, DirectoryIdentity(node_id=OTHER, cluster_id="theirs"), identity_path(DATA, OTHER))
    with pytest.raises(DirectoryRefused, match="node 0 of cluster ours and node 30 of cluster theirs"):
        opened(disk)


class NewerIdentity(msgspec.Struct):
    version: int = 2
    node: str = "zero"


@pytest.mark.parametrize(
    ("identity", "refusal"),
    [
        (NewerIdentity(), r"has version 2; this version of Eagleray knows up to 1\..*Install that version"),
        (
            DirectoryIdentity(node_id=NODE, formats={**FORMATS, "partition-log": 9}),
            "names format partition-log 9; this version of Eagleray knows up to 1",
        ),
        (DirectoryIdentity(node_id=NODE, formats={"tiers": 1}), "names format tiers 1; .* knows up to 0"),
        (DirectoryIdentity(node_id=7), "that of node 7; expected node 0"),
        (encode_checked(DirectoryIdentity(node_id=NODE)).replace(b'"node_id": 0', b'"node_id": 1'), "is damaged"),
        (b"", "is damaged"),
    ],
    ids=["newer file", "newer format", "unknown format", "another node", "changed digit", "empty"],
)
def test_identity_that_is_not_as_expected_is_refused_and_left_as_it_is(disk, identity, refusal):
    put(disk, identity)
    before = disk.tree()
    with pytest.raises(DirectoryRefused, match=refusal):
        opened(disk)
    assert disk.tree() == before


BOTH = (PATH, PATH + SECOND_SUFFIX)


@pytest.mark.parametrize("path", BOTH)
def test_identity_of_which_a_bit_has_changed_counts_by_its_other_generation_and_is_written_again(disk, path):
    opened(disk).belong_to("ours")
    sound = disk.read_bytes(path)
    for position in range(len(sound)):
        put(disk, sound[:position] + bytes([sound[position] ^ 4]) + sound[position + 1 :], path)
        assert opened(disk).cluster_id == "ours"
        assert [decode_checked(disk.read_bytes(each), DirectoryIdentity).cluster_id for each in BOTH] == ["ours"] * 2


def test_identity_of_which_both_generations_are_damaged_is_refused_and_left_as_it_is(disk):
    opened(disk).belong_to("ours")
    for path in BOTH:
        disk.rot(path, 30, 1)
    before = disk.tree()
    with pytest.raises(DirectoryRefused, match=r"identity is damaged.*nothing was changed"):
        opened(disk)
    assert disk.tree() == before


@pytest.mark.parametrize("path", BOTH)
def test_damaged_identity_never_gives_back_the_permission_to_begin_the_metadata(disk, path):
    format_directory(disk, DATA, NODE)
    disk.rot(path, 30, 1)
    assert not opened(disk).may_begin_metadata


def test_identity_of_the_version_with_one_generation_is_written_twice(disk):
    put(disk, DirectoryIdentity(node_id=NODE, cluster_id="ours"))
    opened(disk)
    disk.rot(PATH, 30, 1)
    assert opened(disk).cluster_id == "ours"


@pytest.mark.parametrize("keeps", [True, False], ids=["killed", "without power"])
@pytest.mark.parametrize("prepare", [older, lambda disk: format_directory(disk, DATA, NODE)], ids=["older", "new"])
def test_migration_that_is_interrupted_anywhere_is_made_up_for(prepare, keeps):
    for step in count():
        disk = NodeDisk()
        prepare(disk)
        may_begin = disk.exists(PATH)
        with disk.possibly(Fault(Outcome.KILL, on=CHANGES, skip=step)) as fault, suppress(ProcessKilled):
            opened(disk).belong_to("ours")
        if not fault.has_fired:
            assert step > 2, "it was interrupted"
            break
        if keeps:
            disk.crash_process()
        else:
            disk.lose_power(lambda: False)
        again = opened(disk)
        assert again.cluster_id in ("", "ours")
        assert again.may_begin_metadata is may_begin
        again.belong_to("ours")
        assert [each.cluster_id for each in identities_in(disk, DATA)] == ["ours"]


POSITION = MetadataPosition("ours", 7, 42)
POSITION_PATH = f"{DATA}/nodes/{NODE}.position"


def keep_image(disk, version, sequence=1):
    disk.make_directories(f"{DATA}/nodes")
    image = MetadataImage(version=version, cluster_id="ours", terms=(TermBeginning(7, 0),))
    write_kept_image(disk, DATA, NODE, KeptImage(sequence=sequence, image=image))


def test_position_of_the_metadata_is_kept(disk):
    assert opened(disk).position == NO_POSITION
    opened(disk).note_position(POSITION)
    assert opened(disk).position == POSITION


def test_position_that_is_damaged_is_no_reason_to_take_older_metadata(disk):
    opened(disk).note_position(POSITION)
    disk.rot(POSITION_PATH, 30, 1)
    before = disk.tree()
    with pytest.raises(DirectoryRefused, match=r"position is damaged.*no whole image is in .*0\.image.*was changed"):
        opened(disk)
    assert disk.tree() == before


def test_position_that_is_damaged_is_that_of_the_kept_image(disk, caplog):
    opened(disk).note_position(POSITION)
    keep_image(disk, 41)
    assert opened(disk).position == POSITION
    disk.rot(POSITION_PATH, 30, 1)
    assert opened(disk).position == MetadataPosition("ours", 7, 41)
    assert "takes what it knew from its kept image" in caplog.text


def test_position_is_that_of_a_kept_image_that_is_newer(disk):
    opened(disk).note_position(POSITION)
    keep_image(disk, 43, sequence=8)
    assert opened(disk).position.version == 43
    assert opened(disk).image_sequence == 8


def test_kept_image_has_two_generations_and_one_may_be_damaged(disk):
    keep_image(disk, 41, sequence=1)
    keep_image(disk, 42, sequence=2)
    disk.rot(kept_image_path(DATA, NODE) + SECOND_SUFFIX, 40, 1)
    assert opened(disk).position.version == 41
    disk.rot(kept_image_path(DATA, NODE), 40, 1)
    with pytest.raises(DirectoryRefused, match="position is not there, and no whole image"):
        opened(disk)


def test_kept_image_of_a_later_release_is_refused(disk):
    disk.make_directories(f"{DATA}/nodes")
    newer = summed(msgspec.msgpack.encode({"version": 2, "sequence": 1, "image": "other"}))
    write_atomically(disk, kept_image_path(DATA, NODE), newer)
    with pytest.raises(DirectoryRefused, match="a kept image of the metadata has version 2"):
        opened(disk)
