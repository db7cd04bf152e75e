"""The metadata log's records: changes one by one, or an image that stands for all before it."""

import msgspec

from eagleray.broker.controller.events import DeleteTopics
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import (
    ClusterCreated,
    NodesLeft,
    ReplicasChange,
    ReplicasChanged,
    TopicCreated,
    TopicDeleted,
)
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.log_records import (
    decode_record,
    encode_changes,
    encode_image,
    replay,
)
from eagleray.broker.metadata.topics import PartitionImage
from tests.support.controllers import PLAN, ControllerDriver, planned_driver


def busy_driver() -> ControllerDriver:
    driver = planned_driver()
    driver.create("orders", 3, retention_ms="1000")
    driver.create("payments", 2, leader_placement="dedicated")
    driver.create("gone")
    driver.ask(DeleteTopics, ("gone",))
    driver.register(PLAN[2], 2**64 - 1)
    return driver


def test_replay_of_the_log_is_the_live_image():
    driver = busy_driver()
    assert driver.replayed() == driver.image


def test_an_image_survives_being_a_record():
    image = busy_driver().image
    assert decode_record(encode_image(image)) == image


def test_an_image_stands_for_everything_before_it():
    driver = busy_driver()
    snapshot = encode_image(driver.image)
    driver.create("later")
    records = [*encode_changes([ClusterCreated("another")]), snapshot, *driver.batches[-1]]
    assert replay(records) == driver.image
    assert replay(driver.batches[-1], replay([snapshot])) == driver.image


def test_replay_of_nothing_is_the_image_of_nothing():
    assert replay([]) == EMPTY_IMAGE


def test_changes_are_records_in_order():
    changes = (ClusterCreated("a"), TopicDeleted("orders", bytes(16)))
    assert tuple(map(decode_record, encode_changes(changes))) == changes


def test_a_log_from_before_replicas_could_move_is_still_read():
    old_partition = [1, 5, [1, 2], [1], 3]
    old_record = msgspec.msgpack.encode(["TopicCreated", "orders", b"1" * 16, {}, [old_partition]])
    image = replay([old_record])
    assert image.topics["orders"].partitions == (PartitionImage(1, 5, (1, 2), (1,), 3),)


def test_replicas_that_move_are_in_the_image():
    partition = TopicPartition("orders", 0)
    created = TopicCreated("orders", b"1" * 16, {}, (PartitionImage(1, 5, (1, 2), (1, 2)),))
    moved = ReplicasChanged((ReplicasChange(partition, 1, 5, (2, 3, 1), (1, 2), (3,), (1,)),))
    image = replay(encode_changes([created, moved]))
    assert image.find(partition) == PartitionImage(1, 5, (2, 3, 1), (1, 2), 1, (3,), (1,))


def test_a_node_that_has_left_is_planned_and_not_registered():
    driver = busy_driver()
    node_id = PLAN[2].node_id
    after = driver.image.apply([NodesLeft((node_id, 999))])
    assert node_id in driver.image.nodes
    assert node_id not in after.nodes
    assert node_id in after.plan
