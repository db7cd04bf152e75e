"""What becomes of a partition's directory: it goes only for a reason that the metadata name."""

import pytest

from eagleray.broker.log.partition_metadata import decode_partition_metadata, encode_partition_metadata
from eagleray.broker.metadata.changes import DeletedTopicsForgotten, NodesPlanned, TopicCreated, TopicDeleted
from eagleray.broker.metadata.directories import DirectoryFate, fate_of
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.metadata.topics import NO_TOPIC_ID, PartitionImage

ORDERS, GONE, UNKNOWN = bytes(range(16)), bytes(range(1, 17)), bytes(range(2, 18))
KEPT, DELETED, MOVED_AWAY, STRAY = DirectoryFate
NODES = tuple(PlannedNode(node_id, ("leader",), None, name) for node_id, name in ((1, "here"), (2, "there")))


def image_with(replicas=(1, 2), isr=(1, 2)):
    state = PartitionImage(replicas[0], 0, replicas, isr)
    created = (TopicCreated("orders", ORDERS, {}, (state,)), TopicCreated("gone", GONE, {}, (state,)))
    return EMPTY_IMAGE.apply([NodesPlanned(NODES), *created, TopicDeleted("gone", GONE, 7)])


@pytest.mark.parametrize(
    ("name", "topic_id", "fate"),
    [
        ("orders-0", ORDERS, KEPT),
        ("orders-1", ORDERS, STRAY),
        ("orders-0", UNKNOWN, STRAY),
        ("orders-0", None, STRAY),
        ("orders-0", GONE, DELETED),
        ("gone-0", GONE, DELETED),
        ("gone-0", None, STRAY),
        ("other-0", ORDERS, STRAY),
        ("orders", ORDERS, STRAY),
        ("-0", ORDERS, STRAY),
        ("orders-x", GONE, STRAY),
        ("__cluster_metadata-0", NO_TOPIC_ID, KEPT),
        ("__cluster_metadata-0", None, STRAY),
    ],
)
def test_directory_goes_only_where_its_topic_id_was_deleted(name, topic_id, fate):
    assert fate_of(name, topic_id, image_with(), "here") is fate


@pytest.mark.parametrize(
    ("replicas", "isr", "fate"),
    [((1, 2), (2,), KEPT), ((2,), (2,), MOVED_AWAY), ((2,), (1,), KEPT), ((2,), (), KEPT), ((2, 9), (2,), KEPT)],
    ids=["a replica", "moved", "none in sync", "nobody in sync", "unplanned"],
)
def test_replica_goes_only_where_others_are_in_sync(replicas, isr, fate):
    assert fate_of("orders-0", ORDERS, image_with(replicas, isr), "here") is fate


def test_id_of_a_deleted_topic_is_kept_until_it_is_forgotten():
    image = image_with()
    assert image.deleted_topics == {GONE: 7}
    assert fate_of("gone-0", GONE, image.apply([DeletedTopicsForgotten((GONE,))]), "here") is STRAY


def test_partition_metadata_names_what_it_was_written_for_and_nothing_else():
    written = encode_partition_metadata(ORDERS)
    assert decode_partition_metadata(written) == ORDERS
    assert decode_partition_metadata(written.rstrip()) == ORDERS
    for content in (b"", b"version: 1" + written[10:], written[:-3], written.replace(b"topic_id", b"topic"), b"\xff"):
        assert decode_partition_metadata(content) is None
