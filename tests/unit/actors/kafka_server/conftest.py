"""A cluster for each test of handlers, in virtual time."""

import pytest

from tests.support.cluster_in_memory import TWO_MACHINES, entered
from tests.support.kafka_requests import KafkaCluster


@pytest.fixture
def world(virtual_time, runner):
    with runner.entered(entered(KafkaCluster)) as world:
        yield world


@pytest.fixture
def world_of_two_hosts(virtual_time, runner):
    """Each of the leaders is on a host of its own."""
    with runner.entered(entered(KafkaCluster, machines=TWO_MACHINES)) as world:
        yield world
