"""`eagleray consume`."""

import json
import os
import signal

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.cli import consuming
from tests.support.cli_cluster import fail, invoke, succeed

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def filled(topic):
    """Five records in the first partition, one in the second."""
    succeed("produce", topic, "--partition", 0, "--key-separator", "=", stdin="".join(f"k{n}=v{n}\n" for n in range(5)))
    succeed("produce", topic, "--partition", 1, stdin="other\n")
    return topic


def values(topic, *options):
    return succeed("consume", topic, "--timeout", 1, *options).stdout.splitlines()


def test_ends_after_a_while_without_records(filled):
    assert sorted(values(filled)) == ["other", "v0", "v1", "v2", "v3", "v4"]


def test_ends_after_as_many_as_were_asked_for(filled):
    result = succeed("consume", filled, "--partition", 0, "--max", 2)
    assert result.stdout == "v0\nv1\n"
    assert f"2 records of {filled}" in result.stderr


def test_reads_one_partition(filled):
    assert values(filled, "--partition", 1) == ["other"]


def test_begins_at_an_offset(filled):
    assert values(filled, "--partition", 0, "--from", 3) == ["v3", "v4"]


def test_begins_at_the_end(filled):
    assert values(filled, "--from", "end") == []


def test_begins_at_the_beginning_whatever_the_group_has(filled):
    values(filled, "--group", f"{filled}-g")
    assert len(values(filled, "--group", f"{filled}-g", "--from", "beginning")) == 6


def test_bad_start_says_what_was_expected(filled):
    assert "expected beginning, end or an offset" in fail("consume", filled, "--from", "-3")


def test_group_goes_on_behind_what_was_printed(filled):
    group = ("--group", f"{filled}-g", "--partition", 0)
    assert values(filled, *group, "--max", 2) == ["v0", "v1"]
    assert values(filled, *group) == ["v2", "v3", "v4"]
    assert values(filled, *group) == []


def test_open_and_aborted_records_are_left_out_unless_asked_for(filled, cluster):
    async def leave_open(session):
        producer = session.cluster.producer(transactional_id=f"{filled}-open")
        await producer.init()
        producer.begin()
        await producer.send_and_wait(filled, b"undecided", partition=1)

    cluster.run(leave_open)
    assert values(filled, "--partition", 1) == ["other"]
    assert values(filled, "--partition", 1, "--isolation", "read_uncommitted") == ["other", "undecided"]


def test_format_says_what_is_printed(filled):
    options = ("--partition", 0, "--max", 2, "--format", "{topic}/{partition}/{offset} {key}\\t{value};")
    assert succeed("consume", filled, *options).stdout == f"{filled}/0/0 k0\tv0;{filled}/0/1 k1\tv1;"


@pytest.mark.parametrize(("template", "expected"), [("{nothing}", "{nothing}"), ("{value", "--format")])
def test_bad_format_says_what_was_expected(filled, template, expected):
    assert expected in fail("consume", filled, "--format", template)


def test_json_is_one_object_a_line(filled):
    lines = succeed("consume", filled, "--partition", 0, "--max", 2, "--json").stdout.splitlines()
    first, second = map(json.loads, lines)
    assert (first["key"], first["value"], first["offset"]) == ("k0", "v0", 0)
    assert second["topic"] == filled


def test_json_of_what_is_no_text_is_base64(topic, cluster):
    async def produce(session):
        async with session.cluster.producer() as producer:
            await producer.send_and_wait(topic, b"\xff\x00", headers={"trace": b"7"})

    cluster.run(produce)
    found = json.loads(succeed("consume", topic, "--max", 1, "--json").stdout)
    assert found["value_base64"] == "/wA="
    assert found["key"] is None
    assert found["headers"] == [{"name": "trace", "value": "7"}]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_is_a_normal_end(filled, monkeypatch, number):
    def interrupt(record):
        os.kill(os.getpid(), number)
        return record.value + b"\n"

    monkeypatch.setattr(consuming, "_as_json", interrupt)
    result = succeed("consume", filled, "--partition", 1, "--json")
    assert result.stdout == "other\n"
    assert "1 records" in result.stderr


def test_unknown_topic_says_so_at_once():
    assert "there is no topic 'nowhere'" in fail("consume", "nowhere")


def test_unknown_partition_says_which_there_are(filled):
    assert "has the partitions 0 to 1" in fail("consume", filled, "--partition", 7)


def test_unknown_isolation_is_a_usage_error(filled):
    assert invoke("consume", filled, "--isolation", "snapshot").exit_code == 2


def test_output_that_fails_commits_nothing(filled, cluster, monkeypatch):
    def fail_to_format(_):
        raise BrokenPipeError

    monkeypatch.setattr(consuming, "_as_json", fail_to_format)
    assert invoke("consume", filled, "--group", f"{filled}-g", "--json", "--max", 1).exit_code != 0

    async def committed(session):
        consumer = session.cluster.consumer(group=f"{filled}-g")
        return await consumer.committed(TopicPartition(filled, 0), TopicPartition(filled, 1))

    assert cluster.run(committed) == {}
