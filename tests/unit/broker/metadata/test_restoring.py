"""What a restored metadata log begins with is above everything that was found."""

import pytest
from msgspec.structs import replace

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.positions import MetadataPosition, TermBeginning
from eagleray.broker.metadata.restoring import PRODUCER_IDS_SKIPPED, FoundReplica, newest_of, restored
from eagleray.broker.metadata.topics import PartitionImage, TopicImage

ORDERS = TopicPartition("orders", 0)
TOPIC = TopicImage("orders", b"o" * 16, {}, (PartitionImage(0, 5, (0, 100, 200), (0, 100, 200), 9),))
IMAGE = MetadataImage(
    version=100, cluster_id="ours", topics={"orders": TOPIC}, next_producer_id=7000, terms=(TermBeginning(7, 3),)
)


def at(term, version):
    return MetadataPosition("ours", term, version)


def partition_after(*replicas):
    return restored(IMAGE, [], {ORDERS: replicas}, -1).topics["orders"].partitions[0]


def test_image_of_the_newest_term_is_the_newest():
    later = replace(IMAGE, version=90, terms=(TermBeginning(8, 80),))
    assert newest_of([IMAGE, later, replace(IMAGE, version=99)]) is later


@pytest.mark.parametrize(
    "known",
    [
        [],
        [at(7, 100)],
        [at(7, 103)],
        [at(7, 104), at(8, 108), at(8, 106)],
        [at(8, 101), at(9, 102)],
        [at(9, 110), at(7, 50)],
    ],
    ids=["none", "the image", "newer", "a newer term", "terms of one change", "an unheard term"],
)
def test_restored_image_includes_all_that_any_node_has_known(known):
    image = restored(IMAGE, known, {}, -1)
    assert all(image.includes(position) for position in (IMAGE.position, *known))
    assert image.version > max([100, *(each.version for each in known)])


def test_position_of_another_history_is_not_included():
    image = replace(IMAGE, version=90, terms=(TermBeginning(7, 3), TermBeginning(8, 80)))
    assert not restored(image, [at(7, 100)], {}, -1).includes(at(7, 100))


def test_producer_ids_go_on_above_all_that_were_found_and_those_that_may_have_been_handed_out_since():
    assert restored(IMAGE, [], {}, 6999).next_producer_id == 7000 + PRODUCER_IDS_SKIPPED
    assert restored(IMAGE, [], {}, 9000).next_producer_id == 9001 + PRODUCER_IDS_SKIPPED


def test_leader_epoch_rises_above_every_one_that_a_disk_names():
    assert partition_after().leader_epoch == 6
    assert partition_after(FoundReplica(0, 5, 10, 5)).leader_epoch == 6
    assert partition_after(FoundReplica(0, 5, 10, 5), FoundReplica(100, 5, 10, 8)).leader_epoch == 9
    assert partition_after().partition_epoch == 10


def test_partition_without_files_keeps_its_replicas():
    partition = partition_after()
    assert (partition.leader, partition.isr) == (0, (0, 100, 200))


def test_partition_is_led_by_the_replica_that_has_most():
    partition = partition_after(FoundReplica(0, 5, 10, 5), FoundReplica(100, 5, 12, 5), FoundReplica(200, 5, 12, 5))
    assert (partition.leader, partition.isr) == (100, (100, 200))
    assert partition.replicas == (0, 100, 200)


def test_replica_of_a_newer_epoch_leads_although_it_is_shorter():
    partition = partition_after(FoundReplica(0, 5, 90, 5), FoundReplica(200, 6, 12, 6))
    assert (partition.leader, partition.isr) == (200, (200,))


def test_leader_stays_where_it_has_as_much_as_any():
    partition = partition_after(FoundReplica(100, 5, 10, 5), FoundReplica(0, 5, 10, 5))
    assert (partition.leader, partition.isr) == (0, (0, 100))
