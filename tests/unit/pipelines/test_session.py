"""Which Ray cluster Spark is started on, and what is left when it ends; without Ray and Spark."""

import os

import pytest
from pyspark.core import context

from eagleray import cluster_records
from eagleray.actors.cluster import ray_probe
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.broker.metadata.image import MetadataImage
from eagleray.client.errors import ClusterNotFound, RefusedError
from eagleray.connecting import join_ray_of
from eagleray.pipelines import session
from eagleray.pipelines.spark_log import driver_output_to


class FanOut(Exception):
    """Stands for what follows when Ray has been joined."""


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A machine on which two clusters were started, and whose Ray cannot be joined."""

    def join(location):
        raise FanOut(location.address)

    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path))
    for key in ("EAGLERAY_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr(session, "join_ray_of", join)
    monkeypatch.setattr(ray_probe, "running_here", list)
    monkeypatch.setattr(ray_probe, "started_by_ray", lambda: None)
    for name, port in (("default", 1001), ("shop", 1002)):
        note(name, f"127.0.0.1:{port}")
    return tmp_path


def note(name, address):
    pid = os.getpid()
    record = cluster_records.ClusterRecord(
        name, address, "data", "", keeper_pid=pid, keeper_started=cluster_records.started_at(pid)
    )
    cluster_records.save(record)


def joined(**options):
    with pytest.raises(FanOut) as raised:
        session.spark_session(**options).__enter__()
    return str(raised.value)


def test_spark_runs_on_the_ray_of_its_cluster_and_not_on_any(home):
    assert joined() == "127.0.0.1:1001"
    assert joined(cluster="shop") == "127.0.0.1:1002"


def test_spark_without_a_cluster_is_refused(home):
    with pytest.raises(ClusterNotFound, match="no Eagleray cluster named 'hsop'"):
        session.spark_session(cluster="hsop").__enter__()


def test_spark_with_a_contact_file_is_refused(home, monkeypatch, tmp_path):
    monkeypatch.setattr(session, "join_ray_of", join_ray_of)
    path = tmp_path / "contact"
    path.write_bytes(ClusterCredentials(b"token", MetadataImage(cluster_id="id", nodes={})).encode())
    with pytest.raises(RefusedError, match="Spark needs Ray"):
        session.spark_session(address=str(path)).__enter__()


# Ending


class FakeRay:
    is_left = False

    def close(self):
        self.is_left = True


@pytest.fixture
def spark(monkeypatch, tmp_path):
    """Spark whose Java process is gone when it is to be stopped; returns what was done in the end."""
    done = []

    def stop_spark():
        raise ConnectionRefusedError("Connection refused")

    ray = FakeRay()
    monkeypatch.setattr(session, "_join_ray", lambda *_: ray)
    monkeypatch.setattr(session, "native_libraries", set)
    monkeypatch.setattr(session, "_settings", lambda *_: {})
    monkeypatch.setattr(session, "register", lambda *_, **__: None)
    monkeypatch.setattr(session, "_end_driver", lambda: done.append("driver"))
    monkeypatch.setattr(session.raydp, "init_spark", lambda *_, **__: "spark")
    monkeypatch.setattr(session.raydp, "stop_spark", stop_spark)
    monkeypatch.setattr(session.tempfile, "tempdir", str(tmp_path))
    yield done
    assert done == ["driver"]
    assert ray.is_left
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError("of the query"), KeyboardInterrupt("SIGTERM")])
def test_first_error_is_kept_where_the_driver_is_gone(spark, error):
    with pytest.raises(type(error)) as raised, session.spark_session():
        raise error
    assert raised.value is error


def test_driver_that_is_gone_in_the_end_is_said(spark):
    with pytest.raises(ConnectionRefusedError), session.spark_session():
        pass


@pytest.mark.parametrize("is_verbose", [True, False])
def test_driver_has_a_session_of_its_own(monkeypatch, tmp_path, is_verbose):
    """A signal to the process group of the program must not end it."""
    asked = []
    monkeypatch.setattr(context, "launch_gateway", lambda _, popen_kwargs: asked.append(popen_kwargs))
    launch = context.launch_gateway
    with driver_output_to(None if is_verbose else tmp_path / "spark.log"):
        context.launch_gateway()
    (options,) = asked
    assert options["start_new_session"] is True
    assert ("stdout" in options) is not is_verbose
    assert context.launch_gateway is launch
