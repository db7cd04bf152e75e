"""Looking things up in an image, and what a change copies."""

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import NodeJoined, NodesPlanned, TopicConfigsChanged, TopicCreated
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage


def created(name: str, *leaders: int) -> TopicCreated:
    partitions = tuple(PartitionImage(leader, 5, (leader,), (leader,)) for leader in leaders)
    return TopicCreated(name, name.encode().ljust(16), {}, partitions)


IMAGE = EMPTY_IMAGE.apply([created("a", 1, 2), created("b", 2)])


def test_lookups_of_what_exists():
    assert IMAGE.leader_of(TopicPartition("a", 1)) == 2
    assert IMAGE.leader_epoch_of(TopicPartition("a", 1)) == 5
    assert IMAGE.topic_id("b") == b"b".ljust(16)
    assert IMAGE.topic_with_id(b"b".ljust(16)).name == "b"
    assert set(IMAGE.led_by(2)) == {TopicPartition("a", 1), TopicPartition("b", 0)}


def test_lookups_of_what_does_not_exist():
    for partition in (TopicPartition("a", 2), TopicPartition("a", -1), TopicPartition("c", 0)):
        assert IMAGE.leader_of(partition) == -1
        assert IMAGE.leader_epoch_of(partition) == -1
        assert IMAGE.find(partition) is None
    assert IMAGE.topic_id("c") is None
    assert IMAGE.topic_with_id(bytes(16)) is None
    assert IMAGE.led_by(3) == ()


def test_nodes_of_a_role_are_the_planned_ones_in_order():
    planned = (PlannedNode(7, ("leader", "groups")), PlannedNode(3, ("leader",)), PlannedNode(5, ("groups",)))
    image = EMPTY_IMAGE.apply([NodesPlanned(planned)])
    assert image.nodes_with("leader") == (3, 7)
    assert image.nodes_with("markers") == ()


def test_the_version_counts_changes():
    assert IMAGE.version == 2
    assert IMAGE.apply([created("c", 1)]).version == 3
    assert IMAGE.apply([TopicConfigsChanged("a", {}), NodesPlanned(())]).version == 4


def test_a_change_leaves_the_image_before_it_alone():
    after = IMAGE.apply([NodeJoined(NodeRegistration(1, 1, "", 0, ())), TopicConfigsChanged("a", {"segment.ms": "1"})])
    assert (IMAGE.nodes, IMAGE.topics["a"].configs) == ({}, {})
    assert set(after.nodes) == {1}
    assert after.topics["a"].configs == {"segment.ms": "1"}


def test_a_change_shares_what_it_is_not_about():
    after = IMAGE.apply([TopicConfigsChanged("a", {"segment.ms": "1"})])
    assert after.topics["b"] is IMAGE.topics["b"]
    assert after.topics["a"].partitions is IMAGE.topics["a"].partitions


def test_an_index_is_built_once_and_not_carried_over_to_the_next_image():
    assert IMAGE.led_by(2) is IMAGE.led_by(2)
    assert set(IMAGE.apply([created("c", 2)]).led_by(2)) == {*IMAGE.led_by(2), TopicPartition("c", 0)}
