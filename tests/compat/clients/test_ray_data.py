"""Ray Data's own Kafka source and sink."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from tests.compat.clients.ray_data_job import ROWS

SECONDS = 300


@pytest.fixture
def short_temporary():
    """Ray's sockets lie deep in it, and have short names."""
    directory = tempfile.mkdtemp(prefix="er-", dir="/tmp")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_write_and_read(bootstrap_servers, make_topic, short_temporary):
    topic = make_topic("ray-data", partitions=2)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.compat.clients.ray_data_job", bootstrap_servers, topic],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | {"TMPDIR": short_temporary},
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    expected = [[f"name {number}", {"id": number, "name": f"name {number}"}] for number in range(ROWS)]
    assert sorted(found, key=lambda row: row[1]["id"]) == expected
