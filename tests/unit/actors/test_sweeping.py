"""What is left on a machine's disk goes, once it is sure that nobody wants it."""

import os

import pytest

from eagleray.actors.logs import Logs
from eagleray.actors.sweeping import INTERVAL_MS, Sweeper
from eagleray.broker.controller.changes import NodesPlanned, TopicCreated
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.nodes import PlannedNode
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.identities import TopicPartition
from tests.support.batches import NOW_MS

HERE, THERE = 1, 2
TOPIC_ID = bytes(16)


def image_with(*topics, replicas=(HERE,)):
    nodes = (PlannedNode(HERE, ("leader",), None, "here"), PlannedNode(THERE, ("leader",), None, "there"))
    state = PartitionImage(replicas[0], 0, replicas, replicas)
    return EMPTY_IMAGE.apply([NodesPlanned(nodes), *(TopicCreated(name, TOPIC_ID, {}, (state,)) for name in topics)])


@pytest.fixture
def logs(tmp_path):
    logs = Logs(str(tmp_path), {})
    yield logs
    logs.close_all()


@pytest.fixture
def sweeper(logs):
    return Sweeper(logs, "here", now_ms=0)


def leave(logs, *topics):
    for topic in topics:
        partition = TopicPartition(topic, 0)
        logs.open(partition, {}, TOPIC_ID, now_ms=NOW_MS)
        logs.close(partition)


def test_a_log_that_nobody_wants_twice_is_removed_and_nothing_else(logs, sweeper, tmp_path):
    leave(logs, "known-topic", "forgotten-topic", "__cluster_metadata")
    image = image_with("known-topic")

    assert sweeper.sweep(image, INTERVAL_MS) == []
    assert sweeper.sweep(image, 2 * INTERVAL_MS) == ["forgotten-topic-0"]
    assert sorted(os.listdir(tmp_path / "logs")) == ["__cluster_metadata-0", "known-topic-0"]


def test_a_topic_that_was_only_too_new_to_be_known_stays(logs, sweeper):
    leave(logs, "new")

    assert sweeper.sweep(image_with(), INTERVAL_MS) == []
    assert sweeper.sweep(image_with("new"), 2 * INTERVAL_MS) == []
    assert sweeper.sweep(image_with(), 3 * INTERVAL_MS) == [], "it is the first time again"


def test_a_log_that_somebody_has_open_stays(logs, sweeper, tmp_path):
    another = Logs(str(tmp_path), {})
    another.open(TopicPartition("in-use", 0), {}, TOPIC_ID, now_ms=NOW_MS)

    assert [sweeper.sweep(image_with(), turn * INTERVAL_MS) for turn in (1, 2, 3)] == [[], [], []]
    another.close_all()
    assert sweeper.sweep(image_with(), 4 * INTERVAL_MS) == ["in-use-0"]


def test_a_replica_that_has_moved_to_another_machine_goes(logs, sweeper):
    leave(logs, "moved")

    assert sweeper.sweep(image_with("moved", replicas=(THERE,)), INTERVAL_MS) == []
    assert sweeper.sweep(image_with("moved", replicas=(THERE,)), 2 * INTERVAL_MS) == ["moved-0"]


def test_it_sweeps_rarely(logs, sweeper):
    leave(logs, "forgotten")

    assert sweeper.sweep(image_with(), INTERVAL_MS) == []
    assert sweeper.sweep(image_with(), INTERVAL_MS + 1) == []
