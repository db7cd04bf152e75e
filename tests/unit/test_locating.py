"""Where clusters are looked for: records of this machine, Ray, contact files; Ray itself is played by a table."""

import os
import socket
import subprocess
import sys
import threading

import pytest

from eagleray import cluster_records
from eagleray.actors.cluster import ray_probe
from eagleray.actors.cluster.ray_probe import NoRay, clusters_at
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.client.errors import ClusterNotFound, InvalidArgument
from eagleray.cluster_records import ClusterRecord
from eagleray.locating import Location, check_ray, locate
from eagleray.location import COMMAND


class Machine:
    """What there is of Ray, as this process sees it."""

    def __init__(self):
        self.rays = {}
        self.joined = None
        self.by_ray_start = None
        self.asked = []

    def clusters_at(self, address, _=0):
        self.asked.append(address)
        if address not in self.rays:
            raise NoRay(f"no Ray cluster answers at {address} (Connection refused)")
        return self.rays[address]


@pytest.fixture
def machine(monkeypatch, tmp_path):
    machine = Machine()
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path))
    for key in ("EAGLERAY_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr(ray_probe, "clusters_at", machine.clusters_at)
    monkeypatch.setattr(ray_probe, "joined_address", lambda: machine.joined)
    monkeypatch.setattr(ray_probe, "clusters_joined", lambda: machine.rays[machine.joined])
    monkeypatch.setattr(ray_probe, "started_by_ray", lambda: machine.by_ray_start)
    monkeypatch.setattr(ray_probe, "running_here", lambda: tuple(machine.rays))
    return machine


def record(name, address, *, is_kept=True):
    pid = os.getpid() if is_kept else 0
    began = cluster_records.started_at(pid) if pid else 0
    cluster_records.save(ClusterRecord(name, address, "data", "127.0.0.1:9092", "", pid, began))


def test_given_address_is_asked_and_no_other(machine):
    machine.rays = {"a:1": ("default",), "b:2": ("default",)}
    machine.joined = None
    record("default", "b:2")
    assert locate(None, "a:1") == Location("default", "a:1")
    assert machine.asked == ["a:1"]


def test_joined_ray_comes_before_the_records(machine):
    machine.rays = {"a:1": ("mine",), "b:2": ("default",)}
    machine.joined = "a:1"
    record("default", "b:2")
    assert locate(None, None) == Location("mine", "a:1")
    with pytest.raises(ClusterNotFound, match=r"named 'default' on the Ray cluster at a:1; there is mine"):
        locate("default", None)


def test_another_address_than_the_joined_one_is_refused(machine):
    machine.rays = {"127.0.0.1:1": ("mine",), "b:2": ("default",)}
    machine.joined = "127.0.0.1:1"
    with pytest.raises(InvalidArgument, match=r"is not the Ray cluster at 127.0.0.1:1, which this process has joined"):
        locate(None, "127.0.0.1:2")
    with pytest.raises(InvalidArgument, match=r"is not the Ray cluster at 127.0.0.1:1, which this process has joined"):
        locate(None, "a..b:1")
    assert locate(None, "localhost:1") == Location("mine", "127.0.0.1:1")


def test_record_of_this_machine_is_found_by_name_and_alone(machine):
    record("a", "a:1")
    assert locate(None, None) == Location("a", "a:1")
    record("b", "b:2")
    assert locate("b", None) == Location("b", "b:2")
    with pytest.raises(ClusterNotFound, match=r"2 clusters .* a \(name='a', .*\), b \(name='b', .*\)"):
        locate(None, None)


def test_stale_records_are_no_candidates(machine):
    cluster_records.save(ClusterRecord("dead", "d:1", "data", "", "", os.getpid(), 1))
    record("unreachable", "u:1", is_kept=False)
    record("gone", "g:1", is_kept=False)
    record("live", "l:1", is_kept=False)
    machine.rays = {"g:1": ("another",), "l:1": ("live",)}
    assert locate(None, None) == Location("live", "l:1")
    with pytest.raises(ClusterNotFound, match="no Eagleray cluster named 'dead'"):
        locate("dead", None)


def test_damaged_record_is_no_candidate(machine, tmp_path):
    record("a", "a:1")
    (tmp_path / "clusters" / "b.json").write_text("{")
    assert locate(None, None) == Location("a", "a:1")


def test_ray_of_ray_start_is_the_last_place(machine):
    machine.rays = {"head:6379": ("default", "other")}
    machine.by_ray_start = "head:6379"
    assert locate("default", None) == Location("default", "head:6379")
    record("mine", "m:1")
    assert locate(None, None) == Location("mine", "m:1")
    with pytest.raises(ClusterNotFound, match=r"there are default .* mine .* other"):
        locate("nothing", None)


def test_other_rays_of_the_machine_are_named_and_not_taken(machine):
    machine.rays = {"127.0.0.1:5": ("default",)}
    with pytest.raises(ClusterNotFound, match=r"there is default \(name='default'\)"):
        locate(None, None)
    assert locate(None, "auto") == Location("default", "127.0.0.1:5")


def test_auto_with_two_rays_wants_a_choice(machine):
    machine.rays = {"127.0.0.1:5": ("default",), "127.0.0.1:6": ("default", "b")}
    with pytest.raises(ClusterNotFound, match=r"address='127.0.0.1:5'.*address='127.0.0.1:6'"):
        locate("default", "auto")
    assert locate("b", "auto") == Location("b", "127.0.0.1:6")
    machine.by_ray_start = "127.0.0.1:5"
    assert locate("default", "auto") == Location("default", "127.0.0.1:5")


def test_auto_without_ray_is_said(machine):
    with pytest.raises(ClusterNotFound, match="no Ray runs on this machine"):
        locate(None, "auto")


def test_contact_file_needs_no_ray(machine, tmp_path):
    credentials = ClusterCredentials(bytes(32), EMPTY_IMAGE)
    path = tmp_path / "contact"
    path.write_bytes(credentials.encode())
    assert locate(None, str(path)) == Location("default", credentials=credentials)
    assert machine.asked == []


def test_file_that_is_no_contact_is_said(tmp_path, machine):
    path = tmp_path / "contact"
    with pytest.raises(ClusterNotFound, match="cannot be read: No such file"):
        locate(None, str(path))
    path.write_bytes(b"garbage")
    with pytest.raises(ClusterNotFound, match="is no contact file"):
        locate(None, str(path))


@pytest.mark.parametrize("address", [None, "auto", "a:1"])
def test_ray_to_start_on_is_taken(machine, address):
    machine.rays = {"a:1": ()}
    check_ray(address)


@pytest.mark.parametrize(
    ("address", "error"), [("b:2", ClusterNotFound), ("garbage", InvalidArgument), ("/a/contact", InvalidArgument)]
)
def test_ray_to_start_on_that_is_not_there_is_said(machine, address, error):
    with pytest.raises(error):
        check_ray(address)


def test_auto_to_start_on_with_two_rays_wants_a_choice(machine):
    machine.rays = {"127.0.0.1:5": (), "127.0.0.1:6": ()}
    with pytest.raises(
        ClusterNotFound, match=r"2 Ray clusters .*: --address 127.0.0.1:5, --address 127.0.0.1:6\."
    ) as no:
        check_ray("auto", COMMAND)
    assert no.value.advice.startswith("Choose one")
    machine.by_ray_start = "127.0.0.1:6"
    check_ray("auto", COMMAND)


# Asking an address


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1:{free}", "no-such-host.invalid:6379", "a..b:1", f"{'a' * 64}.b:1"])
def test_address_where_no_ray_answers_is_said_in_one_line(address):
    with pytest.raises(NoRay, match="no Ray cluster answers at") as raised:
        clusters_at(address.format(free=free_port()))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("does", ["closes", "says HTTP", "is silent"])
def test_listener_that_is_no_ray_is_said_in_one_line(does, capfd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                taken.append(connection)
                if does == "says HTTP":
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                if does != "is silent":
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NoRay, match="is not the head of a Ray cluster") as raised:
            clusters_at(f"127.0.0.1:{server.getsockname()[1]}", 0.5)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in taken:
            connection.close()
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


THREADS = """
import glob, re, signal, socket
from eagleray.actors.cluster import ray_probe

def blocked(thread):
    try:
        status = open(f"{thread}/status").read()
    except OSError:
        return True  # It has ended.
    return int(re.search("SigBlk:[ \\t]*([0-9a-f]+)", status)[1], 16) >> (signal.SIGTERM - 1) & 1

with socket.create_server(("127.0.0.1", 0)) as silent:
    before = set(glob.glob("/proc/self/task/*"))
    try:
        ray_probe.clusters_at(f"127.0.0.1:{silent.getsockname()[1]}", 0.2)
    except ray_probe.NoRay:
        after = set(glob.glob("/proc/self/task/*"))
        print(len(after - before) > 0, all(map(blocked, after - before)), any(map(blocked, before)))
"""


def test_threads_of_grpc_leave_sigterm_to_the_program():
    """The kernel may give the signal to any thread that takes it."""
    ended = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False, timeout=300)
    assert (ended.stdout, ended.stderr) == ("True True False\n", "")
