"""`eagleray produce`."""

import errno
import io
import os
import signal
import threading

import pytest

from eagleray.cli import producing
from tests.support.cli_cluster import fail, invoke, succeed

pytestmark = pytest.mark.usefixtures("cluster")


def consumed(topic, *options):
    result = succeed("consume", topic, "--timeout", 1, "--format", "{partition} {key}={value}\\n", *options)
    return sorted(result.stdout.splitlines())


def test_each_line_is_a_record(topic):
    result = succeed("produce", topic, "--partition", 0, stdin="a\nb\n\nlast")
    assert consumed(topic) == ["0 =", "0 =a", "0 =b", "0 =last"]
    assert result.stdout == ""
    assert f"4 records to {topic}" in result.stderr


def test_no_input_is_no_record(topic):
    assert "0 records" in succeed("produce", topic, stdin="").stderr


def test_bytes_go_through_as_they_are(topic):
    value = bytes(set(range(256)) - {10})
    succeed("produce", topic, "--partition", 0, stdin=value + b"\n")
    assert succeed("consume", topic, "--max", 1).stdout_bytes == value + b"\n"


def test_long_input_arrives_whole_and_in_order(topic):
    lines = [f"{number:0100}" for number in range(3000)]
    succeed("produce", topic, "--partition", 1, "--compression", "zstd", stdin="\n".join(lines))
    assert succeed("consume", topic, "--max", 3000).stdout.splitlines() == lines


def test_key_stands_before_the_separator(topic):
    succeed("produce", topic, "--key-separator", "::", "--partition", 0, stdin="k::v::w\n::empty\n")
    assert consumed(topic) == ["0 =empty", "0 k=v::w"]


def test_line_without_the_separator_is_named(topic):
    assert "line 2 has no ':'" in fail("produce", topic, "--key-separator", ":", stdin="k:v\noops\n")


def test_empty_separator_says_what_was_expected(topic):
    assert "--key-separator is empty" in fail("produce", topic, "--key-separator", "", stdin="a")


def test_whole_input_is_one_transaction(topic):
    result = succeed("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\nb\n")
    assert [line.partition("=")[2] for line in consumed(topic)] == ["a", "b"]
    assert "committed" in result.stderr
    assert "CompleteCommit" in succeed("txn", "describe", f"{topic}-id").stdout


class InputWithABadEnd(io.BytesIO):
    """A good line, and a bad one once the first has arrived."""

    def __init__(self, arrived):
        super().__init__(b"k:v\n")
        self._arrived = arrived

    def read(self, size=-1):
        if chunk := super().read(size):
            return chunk
        while not self._arrived():
            pass
        return b"oops\n"


def test_error_in_the_middle_aborts_the_transaction(topic, cluster, monkeypatch):
    async def high_watermark(session):
        return (await session.cluster.admin.describe_topic(topic)).partitions[0].high_watermark

    source = InputWithABadEnd(lambda: cluster.run(high_watermark))
    monkeypatch.setattr(producing, "stdin_source", lambda: source)
    options = ("--transactional-id", f"{topic}-id", "--key-separator", ":", "--partition", 0)
    assert "line 2 has no ':'" in fail("produce", topic, *options)
    assert consumed(topic) == []
    assert consumed(topic, "--isolation", "read_uncommitted") == ["0 k=v"]
    assert "CompleteAbort" in succeed("txn", "describe", f"{topic}-id").stdout


class InterruptedInput(io.BytesIO):
    """An input that says something, is interrupted, and never says anything more."""

    def __init__(self, number):
        super().__init__(b"first\nsecond\n")
        self._number = number
        self.is_over = threading.Event()

    def read(self, size=-1):
        if chunk := super().read(size):
            return chunk
        os.kill(os.getpid(), self._number)
        self.is_over.wait()
        return b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_commits_nothing(topic, number, monkeypatch):
    source = InterruptedInput(number)
    monkeypatch.setattr(producing, "stdin_source", lambda: source)
    line = fail("produce", topic, "--transactional-id", f"{topic}-id")
    source.is_over.set()
    assert "interrupted after" in line
    assert "nothing was committed" in line
    assert consumed(topic) == []
    assert "Ongoing" not in succeed("txn", "describe", f"{topic}-id").stdout


class BrokenInput(io.BytesIO):
    def read(self, _=-1):
        raise OSError(errno.EIO, "Input/output error")


def test_input_that_fails_says_so(topic, monkeypatch):
    monkeypatch.setattr(producing, "stdin_source", BrokenInput)
    assert fail("produce", topic, "--transactional-id", f"{topic}-id") == "Input/output error"


def test_unknown_topic_says_so_at_once():
    assert "there is no topic 'nowhere'" in fail("produce", "nowhere", stdin="a")


def test_unknown_partition_says_which_there_are(topic):
    assert "has the partitions 0 to 1" in fail("produce", topic, "--partition", 2, stdin="a")


def test_unknown_codec_is_a_usage_error(topic):
    assert invoke("produce", topic, "--compression", "rar", stdin="a").exit_code == 2


def test_record_that_is_too_large_says_so(topic):
    assert "max.request.size" in fail("produce", topic, stdin="x" * 2_000_000)
