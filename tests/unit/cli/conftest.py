"""What the tests of commands share."""

import re

import pytest

from eagleray.actors.cluster import ray_probe
from eagleray.cli import session
from tests.support.cli_cluster import NodesOnThread, succeed


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """No test sees clusters of this machine, or leaves notes about its own."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("EAGLERAY_HOME", str(folder))
    monkeypatch.delenv("EAGLERAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_probe, "started_by_ray", lambda: None)
    monkeypatch.setattr(ray_probe, "running_here", tuple)
    monkeypatch.setenv("COLUMNS", "200")
    return folder


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = NodesOnThread(tmp_path_factory.mktemp("data"))
    yield nodes
    nodes.close()


@pytest.fixture
def cluster(nodes, monkeypatch):
    """A running cluster that commands connect to."""
    monkeypatch.setattr(session, "connected", nodes.connected)
    return nodes


@pytest.fixture
def topic(cluster, request):
    """A topic of two partitions for one test."""
    name = re.sub(r"[^A-Za-z0-9_]", "-", request.node.name)[:80]
    succeed("topic", "create", name, "--partitions", 2)
    return name
