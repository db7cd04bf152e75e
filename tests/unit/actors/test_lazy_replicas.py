"""Logs of internal topics, most of which are never used, are made when somebody needs them, and not all at once."""

from itertools import count
from types import SimpleNamespace

import pytest

from eagleray.actors.replicas import Replicas
from eagleray.actors.spec import NodeSpec
from eagleray.broker.controller.changes import NodeJoined, NodesPlanned, TopicCreated
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.nodes import NodeRegistration, PlannedNode
from eagleray.broker.controller.topics import PartitionImage
from tests.simulation.cluster.ports import MachineDisk
from tests.support.batches import NOW_MS
from tests.support.timers import HandTimer

PARTITIONS = 20
TOPIC = "__transaction_state"


class Host:
    """A node that leads many partitions, of which the third replica is not in sync. A look at the clock takes 1 ms."""

    def __init__(self):
        self.spec = NodeSpec(
            cluster="test", node_id=1, roles=("leader",), data_dir="/data", host="", token=b"", settings={}
        )
        self.disk = MachineDisk()
        self.incarnation = 7
        self.is_registered = True
        self.controller = SimpleNamespace(ask_within=lambda *question, **options: None)
        self.peers = SimpleNamespace(gather=lambda node_id, ask: None)
        self.timer = HandTimer()
        self._ms = count()
        states = tuple(PartitionImage(1, 0, (1, 2, 3), (1, 2)) for _ in range(PARTITIONS))
        self.image = EMPTY_IMAGE.apply(
            [
                NodesPlanned(tuple(PlannedNode(node_id, ("leader",), None, str(node_id)) for node_id in (1, 2, 3))),
                *(NodeJoined(NodeRegistration(node_id, 7, "", 0, ("leader",))) for node_id in (1, 2)),
                TopicCreated(TOPIC, bytes(16), {}, states),
            ]
        )

    def now_ms(self):
        return NOW_MS

    def steady_ms(self):
        return next(self._ms)

    def rest(self):
        """Let so much time pass that what was put off is due."""
        for _ in range(50):
            next(self._ms)


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def replicas(host):
    replicas = Replicas(host, is_lazy=lambda topic: True)
    replicas.metadata_changed(EMPTY_IMAGE)
    return replicas


def test_nothing_is_made_for_one_that_is_not_there(host, replicas):
    host.rest()
    replicas.chores.on_due()
    assert not [*replicas.logs]


def test_whoever_comes_and_has_to_catch_up_gets_logs_little_by_little(host, replicas):
    previous = host.image
    host.image = previous.apply([NodeJoined(NodeRegistration(3, 7, "", 0, ("leader",)))])
    replicas.metadata_changed(previous)
    assert not [*replicas.logs]
    opened = []
    while len(opened) < PARTITIONS:
        host.rest()
        replicas.chores.on_due()
        now = [each for each in replicas.logs if each not in opened]
        assert 0 < len(now) < PARTITIONS
        opened += now
