"""A cluster for each test of a client, in virtual time, or in the background of its thread."""

import pytest

from tests.support.background import Background
from tests.support.cluster_in_memory import client_of, entered


@pytest.fixture
def world(virtual_time, runner):
    with runner.entered(entered()) as world:
        yield world


@pytest.fixture
def runtime(world, runner):
    with runner.entered(client_of(world)) as runtime:
        yield runtime


@pytest.fixture
def background():
    with Background() as background:
        yield background
