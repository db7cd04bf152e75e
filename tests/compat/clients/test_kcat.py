"""kcat, as Debian has it: an older librdkafka than the one of confluent-kafka."""

import json
import os
import shutil
import subprocess

import pytest

from tests.compat.conftest import give_up
from tests.support.clusters import fresh, until

SECONDS = 120


@pytest.fixture
def kcat(bootstrap_servers, tmp_path):
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        give_up("kcat is not on the PATH; scripts/ensure_java.py --kcat installs it")

    def run(*arguments, stdin=""):
        command = (program, "-b", bootstrap_servers, *arguments)
        # A configuration in the user's home would be taken up.
        environment = os.environ | {"HOME": str(tmp_path)}
        ended = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


def test_metadata(kcat, make_topic):
    topic = make_topic("metadata", partitions=2)
    found = json.loads(kcat("-L", "-J", "-t", topic))
    (described,) = found["topics"]
    assert [each["partition"] for each in described["partitions"]] == [0, 1]
    assert {each["leader"] for each in described["partitions"]} <= {each["id"] for each in found["brokers"]}


def test_produce_and_consume(kcat, make_topic):
    topic = make_topic("plain")
    kcat("-P", "-t", topic, "-K", ":", "-H", "a=b", "-z", "gzip", stdin="k1:v1\nk2:v2\n")
    output = kcat("-C", "-t", topic, "-e", "-q", "-f", "%o %k %s %h\n")
    assert output == "0 k1 v1 a=b\n1 k2 v2 a=b\n"
    assert kcat("-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "2"]


def test_transaction_and_isolation(kcat, history, make_topic):
    topic = make_topic("transaction")
    kcat("-P", "-t", topic, "-X", f"transactional.id={fresh('id')}", stdin="one\ntwo\n")
    committed = ("-C", "-t", topic, "-e", "-q", "-X", "isolation.level=read_committed")
    assert kcat(*committed).split() == ["one", "two"]
    read = ("-C", "-t", history.topic, "-e", "-q", "-X")
    everything, stable = kcat(*read, "isolation.level=read_uncommitted"), kcat(*read, "isolation.level=read_committed")
    assert everything.splitlines() == [value.decode() for value in history.everything]
    assert stable.splitlines() == [value.decode() for value in history.stable]


def test_group(kcat, make_topic):
    topic, group = make_topic("group"), fresh("group")
    kcat("-P", "-t", topic, stdin="one\ntwo\nthree\n")
    options = ("-X", "auto.offset.reset=earliest", "-q")
    assert kcat(*options, "-c", "2", "-G", group, topic).split() == ["one", "two"]
    assert kcat(*options, "-c", "1", "-G", group, topic).split() == ["three"]


def test_idempotent_producer(kcat, make_topic):
    topic = make_topic("idempotent")
    kcat("-P", "-t", topic, "-X", "enable.idempotence=true", stdin="one\n")
    until(lambda: kcat("-C", "-t", topic, "-e", "-q").split() == ["one"], "the record is there", SECONDS)
