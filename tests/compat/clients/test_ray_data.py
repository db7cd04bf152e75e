"""Ray Data's own Kafka source and sink."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from tests.compat.clients.librdkafka import transactional_producer
from tests.compat.clients.ray_data_job import ROWS
from tests.support.clusters import fresh

SECONDS = 300


@pytest.fixture
def short_temporary():
    """Ray's sockets lie deep in it, and have short names."""
    directory = tempfile.mkdtemp(prefix="er-", dir="/tmp")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def run_job(job, bootstrap_servers, topic, short_temporary):
    """What a job has found."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.compat.clients.ray_data_job", job, bootstrap_servers, topic],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | {"TMPDIR": short_temporary},
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_write_and_read(bootstrap_servers, make_topic, short_temporary):
    found = run_job("write_and_read", bootstrap_servers, make_topic("ray-data", partitions=2), short_temporary)
    expected = [[f"name {number}", {"id": number, "name": f"name {number}"}] for number in range(ROWS)]
    assert sorted(found, key=lambda row: row[1]["id"]) == expected


def test_read_of_a_topic_that_ends_with_a_marker(bootstrap_servers, make_topic, short_temporary):
    """Up to the marker, or for a time, as docs/clients.md says: without either it would wait for ever."""
    topic = make_topic("ray-data")
    producer = transactional_producer(bootstrap_servers, fresh("ray-data"))
    producer.begin_transaction()
    for value in (b"first", b"last"):
        producer.produce(topic, value)
    producer.commit_transaction()
    found = run_job("read_to_marker", bootstrap_servers, topic, short_temporary)
    assert found == [["first", "last"], ["first", "last"]]
