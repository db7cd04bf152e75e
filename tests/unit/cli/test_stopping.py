"""`eagleray stop`: which cluster it stops, whose keeper it ends, and which records it forgets."""

import os
import subprocess
import sys

import pytest

from eagleray import cluster_records as records
from eagleray.actors.cluster import ray_probe
from eagleray.actors.cluster.ray_probe import NoRay
from eagleray.cluster_records import ClusterRecord
from tests.support.cli_cluster import SessionWithoutRay, succeed

HERE = "127.0.0.1:6001"
KEEPER = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print(flush=True); signal.sigwait([15])"


@pytest.fixture
def rays(monkeypatch):
    """The Ray clusters that there are, with the names of the clusters on each."""
    rays = {HERE: ("default",), "localhost:6001": ("default",)}

    def clusters_at(address, _=0):
        if address not in rays:
            raise NoRay(f"no Ray cluster answers at {address}")
        return rays[address]

    monkeypatch.setattr(ray_probe, "clusters_at", clusters_at)
    monkeypatch.setattr(ray_probe, "running_here", lambda: (HERE,))
    return rays


@pytest.fixture
def keeper():
    """A process that keeps the cluster "default", and ends when it is asked to."""
    process = subprocess.Popen([sys.executable, "-c", KEEPER], stdout=subprocess.PIPE)
    process.stdout.readline()
    records.save(ClusterRecord("default", HERE, "/data", "b:2", "", process.pid, records.started_at(process.pid)))
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def ended(keeper):
    return keeper.wait(60) == 0 and records.kept("default", HERE) is None


@pytest.mark.parametrize("options", [(), ("--name", "default")])
@pytest.mark.usefixtures("rays")
def test_stale_record_does_not_hide_the_keeper(keeper, options):
    records.save(ClusterRecord("default", "127.0.0.1:1", "/old", "b:2"))
    records.save(ClusterRecord("gone", "127.0.0.1:2", "/old", "b:2"))
    assert "stopped cluster default" in succeed("stop", *options).stderr
    assert ended(keeper)
    assert {record.address for record in records.load_all()} == {"127.0.0.1:1", "127.0.0.1:2"}


@pytest.mark.parametrize("address", [HERE, "localhost:6001", "auto"])
@pytest.mark.usefixtures("rays")
def test_keeper_is_ended_by_whichever_address_names_its_ray(keeper, address):
    succeed("stop", "--address", address)
    assert ended(keeper)


@pytest.mark.usefixtures("cluster")
def test_keeper_of_another_ray_and_its_record_are_left_alone(keeper, rays, monkeypatch):
    rays["10.0.0.1:6001"] = ("default",)
    monkeypatch.setattr(SessionWithoutRay, "ray_address", "10.0.0.1:6001")
    monkeypatch.setattr(SessionWithoutRay, "stopped", [])
    records.save(ClusterRecord("default", "10.0.0.1:6001", "/data", "b:2"))
    succeed("stop", "--address", "10.0.0.1:6001")
    assert SessionWithoutRay.stopped == ["default"]
    assert keeper.poll() is None
    assert [record.address for record in records.named("default")] == [HERE]


# Records


def test_records_of_one_name_on_two_rays_do_not_overwrite_each_other():
    both = [ClusterRecord("default", address, "/data", "b:2") for address in ("[::1]:1", "a:1")]
    for record in both:
        records.save(record)
    assert records.named("default") == both
    assert records.load("default") is None, "it may be either"
    records.remove("default", "a:1")
    assert records.load("default") == both[0]


def test_record_of_an_earlier_release_is_read_and_replaced(home):
    folder = home / "clusters"
    folder.mkdir()
    old = '{"name":"default","address":"a:1","data_dir":"/data","bootstrap":"b:2","ray_auth_mode":"","keeper_pid":0,'
    (folder / "default.json").write_text(old + '"keeper_started":0}')
    record = ClusterRecord("default", "a:1", "/data", "b:2")
    assert records.load("default") == record
    records.save(ClusterRecord("default", "other:1", "/data", "b:2"))
    assert len(records.named("default")) == 2
    records.save(record)
    assert sorted(os.listdir(folder)) == ["default@a:1.json", "default@other:1.json"]


def test_record_of_an_earlier_release_is_forgotten(home):
    (home / "clusters").mkdir()
    path = home / "clusters" / "default.json"
    path.write_text('{"name":"default","address":"a:1","data_dir":"/data","bootstrap":"b:2"}')
    records.remove("default", "b:1")
    assert records.load("default") is not None
    records.remove("default", "a:1")
    assert not path.exists()
