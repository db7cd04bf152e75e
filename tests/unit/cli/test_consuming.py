"""`eagleray consume`."""

import asyncio
import json
import os
import signal
import subprocess
import time

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.cli import consuming, printing
from eagleray.cli.printing import PipePrinter, StreamPrinter, printer_for, unread_bytes
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


def test_offset_past_the_end_is_an_error_that_says_the_range(filled):
    line = fail("consume", filled, "--partition", 0, "--from", 9999)
    assert (
        line == f"--from is 9999, which is out of range: {filled}-0 has 0 to 5; choose one of these, beginning or end."
    )
    assert values(filled, "--partition", 0, "--from", 5) == []


def test_offset_that_one_partition_does_not_have_names_it(filled):
    line = fail("consume", filled, "--from", 3)
    assert f"{filled}-1 has 0 to 1" in line
    assert f"{filled}-0" not in line
    assert "--partition" in line


def test_offset_before_the_beginning_is_an_error(filled, cluster):
    async def delete(session):
        await session.cluster.admin.delete_records({TopicPartition(filled, 0): 2})

    cluster.run(delete)
    assert "has 2 to 5" in fail("consume", filled, "--partition", 0, "--from", 1)


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


def test_format_takes_the_words_of_kcat(topic, cluster):
    now_ms = time.time_ns() // 1_000_000

    async def produce(session):
        async with session.cluster.producer() as producer:
            sent = {"key": b"k", "partition": 1, "timestamp_ms": now_ms, "headers": [("a", b"1"), ("b", None)]}
            await producer.send_and_wait(topic, b"\xff", **sent)

    cluster.run(produce)
    template = '{"%t"}:%p:%o %k=%v/%s %T %h 100%%\\n\\t|'
    printed = succeed("consume", topic, "--max", 1, "--format", template).stdout_bytes
    assert printed == b'{"%s"}:1:0 k=\xff/\xff %d a=1,b= 100%%\n\t|' % (topic.encode(), now_ms)


@pytest.mark.parametrize("template", ["%k %x", "100% %v", "%v %", "{key} %v"])
def test_bad_words_of_a_format_list_the_good_ones(filled, template):
    line = fail("consume", filled, "--format", template)
    assert f"--format is {template!r}" in line
    assert template == "{key} %v" or "%t, %p, %o, %k, %v, %s, %T, %h, %%" in line


def test_percent_alone_stands_for_itself_beside_fields(filled):
    options = ("--partition", 0, "--max", 1, "--format", "{value} 100%")
    assert succeed("consume", filled, *options).stdout == "v0 100%"


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_says_what_was_read_and_ends_with_the_code_of_the_signal(filled, monkeypatch, number):
    def interrupt(record):
        os.kill(os.getpid(), number)
        return record.value + b"\n"

    monkeypatch.setattr(consuming, "as_json", interrupt)
    result = invoke("consume", filled, "--partition", 1, "--json")
    assert result.exit_code == 128 + number
    assert result.stdout == "other\n"
    assert "1 record of" in result.stderr


def test_unknown_topic_says_so_at_once():
    assert "there is no topic 'nowhere'" in fail("consume", "nowhere")


def test_unknown_partition_says_which_there_are(filled):
    assert "has the partitions 0 to 1" in fail("consume", filled, "--partition", 7)


def test_unknown_isolation_is_a_usage_error(filled):
    assert invoke("consume", filled, "--isolation", "snapshot").exit_code == 2


def committed(cluster, topic):
    async def ask(session):
        consumer = session.cluster.consumer(group=f"{topic}-g")
        return await consumer.committed(TopicPartition(topic, 0), TopicPartition(topic, 1))

    return {partition.partition: found.offset for partition, found in cluster.run(ask).items()}


def test_output_that_fails_commits_nothing(filled, cluster, monkeypatch):
    def fail_to_format(_):
        raise BrokenPipeError

    monkeypatch.setattr(consuming, "as_json", fail_to_format)
    assert invoke("consume", filled, "--group", f"{filled}-g", "--json", "--max", 1).exit_code != 0
    assert committed(cluster, filled) == {}


def through_pipe(monkeypatch, *reader):
    """Let `consume` write to a pipe that a process reads."""
    reading, writing = os.pipe()
    process = subprocess.Popen(reader, stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    monkeypatch.setattr(consuming, "printer_for", lambda **_: PipePrinter(writing))
    return process, writing


def test_group_commits_what_the_reader_of_a_pipe_has_taken(topic, cluster, monkeypatch):
    succeed("produce", topic, "--partition", 0, stdin="".join(f"v{n}\n" for n in range(500)))
    process, writing = through_pipe(monkeypatch, "head", "-3")
    result = invoke("consume", topic, "--partition", 0, "--group", f"{topic}-g")
    os.close(writing)
    assert process.communicate()[0] == b"v0\nv1\nv2\n"
    # Silent, as programs in a pipe are.
    assert (type(result.exception), result.exit_code, result.stderr) == (SystemExit, 1, "")
    assert committed(cluster, topic) == {0: 3}


def test_reader_that_takes_the_last_piece_and_goes_between_two_looks_has_taken_it(monkeypatch):
    reading, writing = os.pipe()

    def look(pipe):
        unread = unread_bytes(pipe)
        if unread:
            os.read(reading, unread)
            os.close(reading)
        return unread

    monkeypatch.setattr(printing, "unread_bytes", look)
    printer = PipePrinter(writing)
    asyncio.run(printer.write([b"v0\n"]))
    os.close(writing)
    assert printer.printed == 1


def test_whole_pipe_is_read_and_committed(filled, cluster, monkeypatch):
    process, writing = through_pipe(monkeypatch, "cat")
    result = succeed("consume", filled, "--group", f"{filled}-g", "--timeout", 1)
    os.close(writing)
    assert len(process.communicate()[0].splitlines()) == 6
    assert "6 records" in result.stderr
    assert committed(cluster, filled) == {0: 5, 1: 1}


def test_interrupt_commits_what_was_printed(filled, cluster, monkeypatch):
    process, writing = through_pipe(monkeypatch, "cat")
    write_all = PipePrinter._write_all

    async def interrupted(printer, piece):
        if printer.printed == 2:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(3600)
        await write_all(printer, piece)

    monkeypatch.setattr(PipePrinter, "_write_all", interrupted)
    result = invoke("consume", filled, "--partition", 0, "--group", f"{filled}-g")
    os.close(writing)
    assert process.communicate()[0] == b"v0\nv1\n"
    assert result.exit_code == 128 + signal.SIGINT
    assert "2 records" in result.stderr
    assert committed(cluster, filled) == {0: 2}


def test_record_larger_than_a_pipe_is_printed_whole():
    reading, writing = os.pipe()
    process = subprocess.Popen(["wc", "-c"], stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    asyncio.run(PipePrinter(writing).write([b"x" * 1_000_000, b""]))
    os.close(writing)
    assert int(process.communicate()[0]) == 1_000_000


def test_pipe_is_exact_for_groups_alone(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        kinds = [type(printer_for(is_exact=is_exact)) for is_exact in (True, False)]
        monkeypatch.undo()
    os.close(reading)
    assert kinds == [PipePrinter, StreamPrinter]
