"""Whole nodes in one process, without Ray."""

import pytest

from eagleray.testing import THREE_MACHINES, LocalCluster
from tests.support.without_ray import without_ray

__all__ = ["without_ray"]

QUICK = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "leader.lease.ms": "1000",
    "replica.push.timeout.ms": "300",
    "replica.lag.time.max.ms": "3000",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture
def settings():
    """What a test sets for its cluster, beside what makes it quick."""
    return {}


@pytest.fixture
def nodes(tmp_path, settings, runner):
    """One node on each of three machines."""
    with runner.entered(LocalCluster(tmp_path, THREE_MACHINES, QUICK | settings)) as nodes:
        yield nodes


@pytest.fixture
def cluster(nodes, runner):
    """A client of the nodes."""

    async def connect():
        return nodes.connect()

    cluster = runner.run(connect())
    yield cluster
    runner.run(cluster.close())
