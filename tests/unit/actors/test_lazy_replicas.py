"""Logs of internal topics, most of which are never used, are made when they are needed, and not all at once."""

import pytest

from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.metadata.changes import NodeJoined, NodesPlanned, TopicCreated
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from tests.support.hand_context import HandContext

PARTITIONS = 20
TOPIC = "__transaction_state"


class SlowContext(HandContext):
    """A look at the clock takes a millisecond."""

    def steady_ms(self):
        self.time_ms += 1
        return self.time_ms

    def rest(self):
        """Let so much time pass that what was put off is due."""
        self.time_ms += 50


@pytest.fixture
def context():
    """A node that leads many partitions, of which the third replica is not in sync."""
    states = tuple(PartitionImage(1, 0, (1, 2, 3), (1, 2)) for _ in range(PARTITIONS))
    image = EMPTY_IMAGE.apply(
        [
            NodesPlanned(tuple(PlannedNode(node_id, ("leader",), None, str(node_id)) for node_id in (1, 2, 3))),
            *(NodeJoined(NodeRegistration(node_id, 7, "", 0, ("leader",))) for node_id in (1, 2)),
            TopicCreated(TOPIC, bytes(16), {}, states),
        ]
    )
    return SlowContext(1, image)


@pytest.fixture
def replicas(context):
    replicas = ReplicaManager(context, is_lazy=lambda topic: True)
    replicas.metadata_changed(EMPTY_IMAGE)
    return replicas


def test_nothing_is_made_for_one_that_is_not_there(context, replicas):
    context.rest()
    replicas.chores.on_due()
    assert not [*replicas.logs]


def test_follower_that_has_to_catch_up_gets_logs_little_by_little(context, replicas):
    previous = context.image
    context.image = previous.apply([NodeJoined(NodeRegistration(3, 7, "", 0, ("leader",)))])
    replicas.metadata_changed(previous)
    assert not [*replicas.logs]
    opened = []
    while len(opened) < PARTITIONS:
        context.rest()
        replicas.chores.on_due()
        now = [each for each in replicas.logs if each not in opened]
        assert 0 < len(now) < PARTITIONS
        opened += now
