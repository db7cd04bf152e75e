"""A Ray of this process's own, as Ray is asked for it; without Ray itself."""

import os

import pytest
import ray

from eagleray.actors.cluster import embedded_ray


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What `ray.init` was called with, each time; it writes into the settings that it is given, as Ray does."""
    calls = []

    def init(*, _system_config, _temp_dir, **_):
        calls.append(dict(_system_config))
        _system_config["object_spilling_directory"] = os.path.join(_temp_dir, "session")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(embedded_ray, "_stay_on_loopback", lambda: None)
    monkeypatch.setattr(embedded_ray.tempfile, "tempdir", str(tmp_path))
    return calls


def test_second_ray_of_a_process_has_nothing_of_the_first(asked):
    for _ in range(2):
        embedded_ray.EmbeddedRay().close()
    first, second = asked
    assert first == second


# Joining and leaving


class FakeRay:
    """Ray as this process sees it: the address that it has joined, and a job for each time."""

    def __init__(self):
        self.address = None
        self.jobs = 0

    def init(self, *, address="of its own", **_):
        assert self.address is None, "a process is in one Ray cluster"
        self.address, self.jobs = address, self.jobs + 1

    def shutdown(self):
        self.address = None

    def is_initialized(self):
        return self.address is not None

    def get_runtime_context(self):
        return self

    @property
    def gcs_address(self):
        return self.address

    def get_job_id(self):
        return "01000000"


@pytest.fixture
def fake_ray(monkeypatch, tmp_path):
    fake = FakeRay()
    for name in ("init", "shutdown", "is_initialized", "get_runtime_context"):
        monkeypatch.setattr(ray, name, getattr(fake, name))
    monkeypatch.setattr(embedded_ray, "_stay_on_loopback", lambda: None)
    monkeypatch.setattr(embedded_ray.tempfile, "tempdir", str(tmp_path))
    return fake


def test_ray_that_was_joined_is_left_and_another_can_be_joined(fake_ray):
    for address in ("a:1", "b:2"):
        joined = embedded_ray.EmbeddedRay(address)
        assert fake_ray.address == address
        joined.close()
        assert fake_ray.address is None


@pytest.mark.parametrize("address", ["a:1", None])
def test_ray_that_is_shared_is_left_by_the_last(fake_ray, address, tmp_path):
    first, second = embedded_ray.EmbeddedRay(address), embedded_ray.EmbeddedRay(address)
    assert fake_ray.jobs == 1
    first.close()
    first.close()
    assert fake_ray.is_initialized()
    second.close()
    assert not fake_ray.is_initialized()
    assert list(tmp_path.iterdir()) == []


def test_ray_that_the_application_has_joined_is_never_left(fake_ray):
    fake_ray.init(address="theirs:1")
    embedded_ray.EmbeddedRay("theirs:1").close()
    assert fake_ray.address == "theirs:1"


def test_ray_that_the_application_has_joined_after_ours_is_not_left(fake_ray):
    ours = embedded_ray.EmbeddedRay("a:1")
    fake_ray.shutdown()
    fake_ray.init(address="theirs:1")
    theirs = embedded_ray.EmbeddedRay("theirs:1")
    ours.close()
    theirs.close()
    assert fake_ray.address == "theirs:1"
