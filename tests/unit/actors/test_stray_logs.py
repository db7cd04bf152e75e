"""What is on a machine's disk and not wanted goes if the metadata say why, and stays where they do not."""

import errno
import os

import pytest

from eagleray.actors.storage.log_manager import LogManager
from eagleray.actors.storage.stray_logs import INTERVAL_MS, StrayLogs
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import NodeJoined, NodesPlanned, TopicCreated, TopicDeleted
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from tests.support.batches import NOW_MS
from tests.support.local_disk import DiskWithoutThreads

HERE, THERE = 1, 2
DELAY_MS = 3 * INTERVAL_MS


def id_of(topic):
    return topic.encode().ljust(16)[:16]


def put_aside(topic):
    return f"{topic}-0.{id_of(topic).hex()}-delete"


def image_with(*topics, replicas=(HERE,), isr=None, deleted=(), registered=(HERE, THERE)):
    nodes = (PlannedNode(HERE, ("leader",), None, "here"), PlannedNode(THERE, ("leader",), None, "there"))
    state = PartitionImage(replicas[0], 0, replicas, replicas if isr is None else isr)
    created = (TopicCreated(name, id_of(name), {}, (state,)) for name in (*topics, *deleted))
    gone = (TopicDeleted(name, id_of(name), NOW_MS) for name in deleted)
    joined = (NodeJoined(NodeRegistration(node_id, 1, "host", 1, ("leader",))) for node_id in registered)
    return EMPTY_IMAGE.apply([NodesPlanned(nodes), *joined, *created, *gone])


@pytest.fixture
def logs(tmp_path):
    logs = LogManager(str(tmp_path), {}, DiskWithoutThreads())
    yield logs
    logs.close_all()


@pytest.fixture
def stray_logs(logs):
    return StrayLogs(logs, "here", now_ms=0, delay_ms=DELAY_MS)


def leave(logs, *topics):
    for topic in topics:
        partition = TopicPartition(topic, 0)
        logs.open(partition, {}, id_of(topic), now_ms=NOW_MS)
        logs.close(partition)


def sweep(stray_logs, image, *turns):
    return [stray_logs.sweep(image, turn * INTERVAL_MS) for turn in turns]


def test_logs_of_deleted_topics_are_put_aside_and_removed_after_a_delay_and_no_others(logs, stray_logs):
    leave(logs, "known-topic", "deleted-topic", "__cluster_metadata")
    image = image_with("known-topic", deleted=["deleted-topic"])
    assert sweep(stray_logs, image, 1, 2) == [[], ["deleted-topic-0"]]
    assert logs.on_disk() == ["__cluster_metadata-0", put_aside("deleted-topic"), "known-topic-0"]
    sweep(stray_logs, image, 3, 4)
    assert put_aside("deleted-topic") in logs.on_disk()
    sweep(stray_logs, image, 5)
    assert logs.on_disk() == ["__cluster_metadata-0", "known-topic-0"]


def test_unknown_log_is_listed_and_never_removed(logs, stray_logs, tmp_path, caplog):
    leave(logs, "forgotten")
    os.makedirs(tmp_path / "logs/not a partition")
    (tmp_path / "logs/unmarked-0").mkdir()
    (tmp_path / "logs/unmarked-0/00000000000000000000.log").touch()
    before = logs.on_disk()
    assert sweep(stray_logs, image_with(), *range(1, 20)) == [[]] * 19
    assert stray_logs.strays == tuple(before) == ("forgotten-0", "not a partition", "unmarked-0")
    assert logs.on_disk() == before
    assert caplog.text.count("3 directories of partitions are strays: forgotten-0, not a partition, unmarked-0") == 1


def test_image_that_has_lost_all_topics_removes_nothing(logs, stray_logs):
    """It may be the image of a controller that has lost its log: no deletion led to it."""
    leave(logs, "orders", "payments")
    sweep(stray_logs, image_with("orders", "payments"), 1, 2)
    assert sweep(stray_logs, image_with(), *range(3, 20)) == [[]] * 17
    assert logs.on_disk() == ["orders-0", "payments-0"]
    sweep(stray_logs, image_with("orders", "payments"), 20, 21)
    assert stray_logs.strays == ()


def test_log_of_a_deleted_topic_whose_name_another_has_got_goes(logs, stray_logs):
    leave(logs, "orders")
    other = TopicCreated("orders", b"another topic id", {}, (PartitionImage(HERE, 0, (HERE,), (HERE,)),))
    image = image_with(deleted=["orders"]).apply([other])
    assert sweep(stray_logs, image, 1, 2) == [[], ["orders-0"]]


def test_log_whose_name_a_topic_of_another_id_has_is_a_stray(logs, stray_logs):
    leave(logs, "orders")
    other = TopicCreated("orders", b"another topic id", {}, (PartitionImage(HERE, 0, (HERE,), (HERE,)),))
    assert sweep(stray_logs, image_with().apply([other]), 1, 2) == [[], []]
    assert stray_logs.strays == ("orders-0",)


def test_a_topic_that_was_only_too_new_to_be_known_is_no_stray(logs, stray_logs):
    leave(logs, "new")
    sweep(stray_logs, image_with(), 1)
    sweep(stray_logs, image_with("new"), 2)
    sweep(stray_logs, image_with(), 3)
    assert stray_logs.strays == (), "it is the first time again"


def test_a_log_that_somebody_has_open_stays(logs, stray_logs, tmp_path):
    another = LogManager(str(tmp_path), {})
    another.open(TopicPartition("in-use", 0), {}, id_of("in-use"), now_ms=NOW_MS)
    image = image_with(deleted=["in-use"])
    assert sweep(stray_logs, image, 1, 2, 3) == [[], [], []]
    another.close_all()
    assert sweep(stray_logs, image, 4) == [["in-use-0"]]


def test_a_replica_that_has_moved_to_another_machine_goes(logs, stray_logs):
    leave(logs, "moved")
    assert sweep(stray_logs, image_with("moved", replicas=(THERE,)), 1, 2) == [[], ["moved-0"]]


def test_a_replica_that_has_moved_away_stays_while_no_other_is_in_sync(logs, stray_logs):
    leave(logs, "moved")
    assert sweep(stray_logs, image_with("moved", replicas=(THERE,), isr=()), 1, 2, 3) == [[], [], []]
    assert sweep(stray_logs, image_with("moved", replicas=(THERE,), isr=(HERE,)), 4, 5) == [[], []]


def test_replica_that_has_moved_away_stays_while_those_that_are_in_sync_are_not_registered(logs, stray_logs):
    """They may know newer metadata than this image, and not join its controller for that."""
    leave(logs, "moved")
    assert sweep(stray_logs, image_with("moved", replicas=(THERE,), registered=(HERE,)), 1, 2, 3) == [[], [], []]
    assert sweep(stray_logs, image_with("moved", replicas=(THERE,)), 4, 5) == [[], ["moved-0"]]


TOPICS = ("orders", "bills", "parcels", "returns", "visits")


def test_most_directories_of_a_machine_that_have_moved_away_at_once_are_held_back(logs, stray_logs, tmp_path, caplog):
    leave(logs, *TOPICS)
    image = image_with(*TOPICS, replicas=(THERE,))
    before = logs.on_disk()
    assert sweep(stray_logs, image, *range(1, 20)) == [[]] * 19
    assert stray_logs.held_back == tuple(before)
    assert caplog.text.count("5 of the 5 directories of this machine have moved to others") == 1
    assert f"echo 5 > {tmp_path}/accept-purge" in caplog.text
    (tmp_path / "accept-purge").write_text("4\n")
    assert sweep(stray_logs, image, 20) == [[]], "another number"
    (tmp_path / "accept-purge").write_text("5\n")
    assert sweep(stray_logs, image, 21) == [before]
    assert stray_logs.held_back == ()
    assert not (tmp_path / "accept-purge").exists()


def test_acceptance_that_was_there_before_does_not_count(logs, stray_logs, tmp_path):
    leave(logs, *TOPICS)
    (tmp_path / "accept-purge").write_text("5\n")
    image = image_with(*TOPICS, replicas=(THERE,))
    assert sweep(stray_logs, image, 1, 2) == [[], []]
    assert len(stray_logs.held_back) == 5


def test_few_directories_that_have_moved_away_go(logs, stray_logs):
    leave(logs, *TOPICS)
    image = image_with(*TOPICS[:3]).apply(
        [TopicCreated(name, id_of(name), {}, (PartitionImage(THERE, 0, (THERE,), (THERE,)),)) for name in TOPICS[3:]]
    )
    assert sweep(stray_logs, image, 1, 2) == [[], ["returns-0", "visits-0"]]
    assert stray_logs.held_back == ()


def test_directory_whose_checkpoint_names_another_topic_is_a_stray_whatever_its_partition_metadata_says(
    logs, stray_logs, tmp_path
):
    leave(logs, "orders", "deleted")
    path = "logs/{}-0/partition.metadata"
    (tmp_path / path.format("orders")).write_bytes((tmp_path / path.format("deleted")).read_bytes())
    assert sweep(stray_logs, image_with("orders", deleted=["deleted"]), 1, 2) == [[], ["deleted-0"]]
    assert stray_logs.strays == ("orders-0",)


def test_it_sweeps_rarely_and_not_before_it_has_metadata(logs, stray_logs):
    leave(logs, "deleted")
    image = image_with(deleted=["deleted"])
    assert sweep(stray_logs, EMPTY_IMAGE, 1, 2, 3) == [[], [], []]
    assert stray_logs.strays == ()
    assert sweep(stray_logs, image, 4) == [[]]
    assert stray_logs.sweep(image, 4 * INTERVAL_MS + 1) == []


def test_directory_that_cannot_be_judged_stays_and_keeps_no_other_from_going(logs, stray_logs, monkeypatch, caplog):
    """Another node of the machine may be putting it aside, or its disk has failed."""
    leave(logs, "deleted-topic", "unreadable")
    topic_id_in = logs.topic_id_in

    def fail(name):
        if name == "unreadable-0":
            raise OSError(errno.EIO, "cannot be read")
        return topic_id_in(name)

    monkeypatch.setattr(logs, "topic_id_in", fail)
    image = image_with(deleted=["deleted-topic", "unreadable"])
    assert sweep(stray_logs, image, 1, 2) == [[], ["deleted-topic-0"]]
    assert "unreadable-0" in logs.on_disk()
    assert "unreadable-0 cannot be judged yet" in caplog.text
