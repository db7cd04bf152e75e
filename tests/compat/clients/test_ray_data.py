"""Ray Data's own Kafka source and sink."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from tests.compat.clients.ray_data_job import ROWS

SECONDS = 120


@pytest.fixture
def short_temporary():
    """Ray's sockets lie deep in it, and have short names."""
    directory = tempfile.mkdtemp(prefix="er-", dir="/tmp")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_write_and_read(broker, make_topic, short_temporary):
    """On the cluster's own Ray where it has one, for this is who uses it."""
    topic = make_topic("ray-data", partitions=2)
    address = [broker.ray_address] if hasattr(broker, "ray_address") else []
    environment = {"TMPDIR": short_temporary, **getattr(broker, "environment", {})}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.compat.clients.ray_data_job", broker.bootstrap_servers, topic, *address],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | environment,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    expected = [[f"name {number}", {"id": number, "name": f"name {number}"}] for number in range(ROWS)]
    assert sorted(found, key=lambda row: row[1]["id"]) == expected
