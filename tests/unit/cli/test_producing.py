"""`eagleray produce`."""

import asyncio
import errno
import io
import os
import signal
import threading

import pytest

from eagleray.cli import producing
from eagleray.client.errors import FatalError, ProducerFenced, TransactionAborted
from eagleray.client.producer.producer import AsyncProducer
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


def test_one_record_is_not_many(topic):
    assert f"1 record to {topic}" in succeed("produce", topic, stdin="alone").stderr


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_commits_nothing(topic, number, monkeypatch):
    source = InterruptedInput(number)
    monkeypatch.setattr(producing, "stdin_source", lambda: source)
    line = fail("produce", topic, "--transactional-id", f"{topic}-id", code=128 + number)
    source.is_over.set()
    assert "interrupted after" in line
    assert "nothing was committed" in line
    assert consumed(topic) == []
    assert "Ongoing" not in succeed("txn", "describe", f"{topic}-id").stdout


class InputThatEndsWithASignal(io.BytesIO):
    """An input whose end and a signal come at the same time."""

    def read(self, size=-1):
        if chunk := super().read(size):
            return chunk
        os.kill(os.getpid(), signal.SIGINT)
        return b""


def interrupted_commit(*, is_answered):
    """A commit during which the signal comes, before or after the coordinator has answered it."""
    commit = AsyncProducer.commit

    async def interrupted(producer):
        if not is_answered:
            os.kill(os.getpid(), signal.SIGINT)
        await commit(producer)
        if is_answered:
            os.kill(os.getpid(), signal.SIGINT)

    return interrupted


def says_what_happened(topic, result):
    """Whether the last line of a command agrees with what readers find."""
    line = result.stderr.splitlines()[-1]
    found = sorted(each.partition("=")[2] for each in consumed(topic))
    assert found in ([], ["a", "b"])
    is_committed = bool(found)
    assert ("nothing was committed" in line, line.endswith(", committed")) == (not is_committed, is_committed), line
    assert result.exit_code == (0 if is_committed else 128 + signal.SIGINT)
    return is_committed


@pytest.mark.parametrize("is_answered", [False, True])
def test_interrupt_during_the_commit_says_that_it_was_committed(topic, is_answered, monkeypatch):
    monkeypatch.setattr(AsyncProducer, "commit", interrupted_commit(is_answered=is_answered))
    result = invoke("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\nb\n")
    assert says_what_happened(topic, result)


def test_interrupt_with_the_end_of_input_says_what_happened(topic, monkeypatch):
    monkeypatch.setattr(producing, "stdin_source", lambda: InputThatEndsWithASignal(b"a\nb\n"))
    says_what_happened(topic, invoke("produce", topic, "--transactional-id", f"{topic}-id"))
    assert "Ongoing" not in succeed("txn", "describe", f"{topic}-id").stdout


def test_interrupt_without_transaction_says_how_many_were_written(topic, monkeypatch):
    source = InterruptedInput(signal.SIGINT)
    monkeypatch.setattr(producing, "stdin_source", lambda: source)
    line = fail("produce", topic, code=128 + signal.SIGINT)
    source.is_over.set()
    sent = len(consumed(topic))
    assert line in (
        f"interrupted after {sent} records; all of them were written.",
        "interrupted after 0 records; nothing was written.",
    )


class InputWithANewerProducer(io.BytesIO):
    """A line, and another one once a newer producer has the transactional id."""

    def __init__(self, take_over):
        super().__init__(b"first\n")
        self._take_over = take_over

    def read(self, size=-1):
        chunk = super().read(size)
        if not chunk and self._take_over is not None:
            take_over, self._take_over = self._take_over, None
            take_over()
            return b"second\n"
        return chunk


def take_over(cluster, topic):
    """Have a newer producer take the transactional id over."""

    async def init(session):
        async with session.cluster.producer(transactional_id=f"{topic}-id") as producer:
            await producer.init()

    cluster.run(init)


def test_fenced_producer_says_that_nothing_was_committed_and_leaves_the_newer_one_alone(topic, cluster, monkeypatch):
    source = InputWithANewerProducer(lambda: take_over(cluster, topic))
    monkeypatch.setattr(producing, "stdin_source", lambda: source)
    line = fail("produce", topic, "--transactional-id", f"{topic}-id")
    assert "has a newer producer" in line
    assert line.endswith("Nothing was committed, and nothing of it is left open.")
    assert "`eagleray txn" not in line
    assert consumed(topic) == []


FENCED = """it has a newer producer. The newer producer goes on in its place: two of them must not share a
--transactional-id. Whether the transaction was committed is not known, because a newer producer has taken {topic}-id
over; read the topic before you write the same records again."""
FAILED = """it failed. Whether the transaction was committed is not known, because its coordinator has not said so;
`eagleray txn describe {topic}-id` shows it: CompleteCommit where it was."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ProducerFenced("it has a newer producer."), FENCED), (FatalError("it failed."), FAILED)],
    ids=["fenced", "failed"],
)
def test_commit_that_fails_says_no_more_than_is_known(topic, error, expected, monkeypatch):
    async def commit(_):
        raise error

    monkeypatch.setattr(AsyncProducer, "commit", commit)
    line = fail("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\n")
    assert line == expected.replace("\n", " ").format(topic=topic)


@pytest.mark.parametrize("refused_by", ["send", "commit"])
def test_fenced_producer_whose_record_is_refused_is_told_of_the_newer_one(topic, refused_by, monkeypatch):
    async def refuse(*_, **__):
        raise TransactionAborted("a partition has refused it.")

    async def abort(_):
        raise ProducerFenced("it has a newer producer.")

    monkeypatch.setattr(AsyncProducer, refused_by, refuse)
    monkeypatch.setattr(AsyncProducer, "abort", abort)
    line = fail("produce", topic, "--transactional-id", f"{topic}-id", stdin="a\n")
    assert line.startswith("it has a newer producer.")
    assert line.endswith("Nothing was committed, and nothing of it is left open.")
    assert "run the command again" not in line


class NonBlockingInput(io.FileIO):
    """A pipe whose read does not wait: each piece, and its end, is written some time after it was found empty."""

    def __init__(self, *pieces):
        reader, self._writer = os.pipe()
        os.set_blocking(reader, False)
        super().__init__(reader)
        self._left = iter(pieces)
        self.times_empty = 0

    def read(self, size=-1):
        chunk = super().read(size)
        if chunk is None:
            self.times_empty += 1
            threading.Timer(0.05, self._write_next).start()
        return chunk

    def _write_next(self):
        piece = next(self._left, None)
        if piece is None:
            os.close(self._writer)
        else:
            os.write(self._writer, piece)


def test_input_that_does_not_wait_ends_when_its_writer_closes_it(monkeypatch):
    async def main():
        return [line async for line in producing.stdin_lines()]

    with NonBlockingInput(b"first\nsec", b"ond\n") as source:
        monkeypatch.setattr(producing, "stdin_source", lambda: source)
        assert asyncio.run(main()) == [b"first", b"second"]
        assert source.times_empty == 3, "it is read again when there is something to read"


def test_transaction_holds_the_whole_of_an_input_that_does_not_wait(topic, monkeypatch):
    with NonBlockingInput(b"first\nsec", b"ond\n") as source:
        monkeypatch.setattr(producing, "stdin_source", lambda: source)
        succeed("produce", topic, "--transactional-id", f"{topic}-id", "--partition", 0)
    assert consumed(topic) == ["0 =first", "0 =second"]


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
