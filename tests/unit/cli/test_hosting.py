"""What `eagleray start` does around the start of a cluster; the cluster and Ray are played by a table."""

import asyncio

import pytest

from eagleray.actors.cluster.discovery import NoSuchCluster
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.cli import hosting
from eagleray.cli.errors import UsageError
from eagleray.cli.hosting_commands import StartRequest
from eagleray.cli.options import Connection
from eagleray.client.errors import CannotStart
from eagleray.cluster_records import ClusterRecord, load, save


class Ray:
    """A Ray cluster, and what is done to the cluster "mine" on it."""

    address = "127.0.0.1:1"

    def __init__(self):
        self.looks = NoSuchCluster("none")
        self.starts = ClusterCredentials(bytes(32), EMPTY_IMAGE)
        self.stopped = []

    async def find(self, _):
        raise self.looks

    async def start(self, _):
        if isinstance(self.starts, Exception):
            raise self.starts
        return self.starts

    def stop(self, name, _):
        self.stopped.append(name)


@pytest.fixture
def ray(monkeypatch):
    ray = Ray()
    monkeypatch.setattr(hosting, "_ASK_S", 0.05)
    monkeypatch.setattr(hosting, "find_quietly", ray.find)
    monkeypatch.setattr(hosting, "start_nodes", ray.start)
    monkeypatch.setattr(hosting, "stop_cluster", ray.stop)
    monkeypatch.setattr(hosting.session, "ray_address", lambda: ray.address)
    return ray


def host(tmp_path, on_ready=lambda _: None):
    request = StartRequest(connection=Connection("mine"), listen="127.0.0.1:0", data_dir=str(tmp_path))
    asyncio.run(hosting._host(request, on_ready, lambda _: None, detach=False))


def test_start_that_finds_another_cluster_too_late_leaves_it_alone(ray, tmp_path):
    """Its nodes are silent, so it is not found; then Ray says that there are nodes of this name."""
    record = ClusterRecord("mine", ray.address, "/data", "b:2")
    save(record)
    ray.looks = Unanswered("silent")
    ray.starts = CannotStart("a cluster named 'mine' is running on this Ray cluster already")
    with pytest.raises(UsageError, match="is running on this Ray cluster already"):
        host(tmp_path)
    assert ray.stopped == []
    assert load("mine") == record


def test_cluster_that_runs_is_stopped_where_what_follows_fails(ray, tmp_path):
    def break_pipe(_):
        assert load("mine") is not None
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        host(tmp_path, break_pipe)
    assert ray.stopped == ["mine"]
    assert load("mine") is None
