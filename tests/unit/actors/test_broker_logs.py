"""The logs of nodes: what a line has, how much is kept, and in which order lines are read."""

import logging
import os
import re
from datetime import UTC, datetime, timedelta

import pytest

from eagleray.actors.process import broker_logs
from eagleray.actors.process.broker_logs import NodeLog, lines_since, logs_in, merged, open_log, path_of

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ([A-Z]+) node-30 eagleray\.test: (.*)\n")


class NodeThatSpeaks:
    """Writes the log of node 30."""

    def __init__(self, data_dir):
        self.path = path_of(str(data_dir), 30)
        self._handler = open_log(str(data_dir), 30)

    def say(self, message, level="INFO", **fields):
        fields |= {"name": "eagleray.test", "levelname": level, "msg": message}
        self._handler.handle(logging.makeLogRecord(fields))

    def close(self):
        self._handler.close()


@pytest.fixture
def node(tmp_path):
    node = NodeThatSpeaks(tmp_path)
    yield node
    node.close()


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(broker_logs, "FILE_BYTES", 500)


@pytest.fixture
def opened():
    """Opens logs to read, which are closed in the end."""
    logs = []

    def open_to_read(path):
        logs.append(NodeLog(str(path)))
        return logs[-1]

    yield open_to_read
    for log in logs:
        log.close()


def read(log):
    return [line for _, line in log.new_lines()]


def messages(lines):
    return [line.split(": ", 1)[1].rstrip("\n") for line in lines]


def test_each_line_has_time_level_node_and_logger(node, opened):
    node.say("the disk of orders-0 is slow", "WARNING")
    (line,) = read(opened(node.path))
    assert LINE.fullmatch(line).groups() == ("WARNING", "the disk of orders-0 is slow")


def test_time_is_utc(node, opened):
    node.say("at noon", created=datetime(2026, 11, 18, 12, 0, 0, 125_000, tzinfo=UTC).timestamp())
    (line,) = read(opened(node.path))
    assert line == "2026-11-18T12:00:00.125Z INFO node-30 eagleray.test: at noon\n"


def test_lines_of_a_traceback_and_of_other_programs_have_it_too(node, opened):
    error = ValueError("first\nsecond")
    node.say("a name with\na line's end", "ERROR", exc_info=(type(error), error, None))
    lines = read(opened(node.path))
    assert messages(lines) == ["a name with", "a line's end", "ValueError: first", "second"]
    assert all(LINE.fullmatch(line) for line in lines)


def test_kept_lines_are_bounded(tmp_path, small, node, opened):
    for number in range(200):
        node.say(f"line {number}")
    folder = tmp_path / broker_logs.FOLDER
    files = sorted(os.listdir(folder))
    assert files == ["node-30.log", *(f"node-30.log.{number}" for number in range(1, broker_logs.FILES_KEPT + 1))]
    assert all(os.path.getsize(folder / name) <= 500 for name in files)
    said = messages(read(opened(node.path)))
    # The newest, in their order, from the oldest file to the newest.
    assert said == [f"line {number}" for number in range(200 - len(said), 200)]
    assert len(said) > 20


def test_reader_goes_on_through_files_that_are_put_aside(small, node, opened):
    reader = opened(node.path)
    found = []
    for number in range(50):
        node.say(f"line {number}")
        if number % 5 == 0:
            found += read(reader)
    found += read(reader)
    assert os.path.exists(f"{node.path}.1")
    assert messages(found) == [f"line {number}" for number in range(50)]


def test_line_without_an_end_is_whole_later_or_last(tmp_path, opened):
    path = tmp_path / "node-30.log"
    path.write_text("2026-11-18T09:00:00.000Z INFO node-30 x: wh")
    reader = opened(path)
    assert read(reader) == []
    assert [line for _, line in reader.last_line()] == ["2026-11-18T09:00:00.000Z INFO node-30 x: wh\n"]
    with path.open("a") as file:
        file.write("ole\n")
    assert read(reader) == ["2026-11-18T09:00:00.000Z INFO node-30 x: whole\n"]


def test_lines_of_nodes_are_merged_by_time(tmp_path, opened):
    (tmp_path / "a").write_text("2026-11-18T09:00:00.000Z 1\nof the first\n2026-11-18T09:00:02.000Z 3\n")
    (tmp_path / "b").write_text("2026-11-18T09:00:01.000Z 2\n2026-11-18T09:00:03.000Z 4\n")
    lines = list(merged(opened(tmp_path / name).new_lines() for name in ("a", "b")))
    assert [line.split()[-1] for line in lines] == ["1", "first", "2", "3", "4"]


def test_logs_are_found_where_nodes_of_one_or_several_machines_write(tmp_path):
    for data_dir, node_id in ((tmp_path, 2), (tmp_path, 10), (tmp_path / "machine-1", 130)):
        open_log(str(data_dir), node_id).close()
    assert list(logs_in(str(tmp_path))) == ["node-2", "node-10", "node-130"]


def test_log_that_is_not_there_has_no_lines(tmp_path):
    assert lines_since(str(tmp_path / "node-9.log"), datetime.now(UTC)) == []


def test_only_what_was_said_since_is_looked_at(node):
    begun = datetime.now(UTC)
    node.say("now")
    assert messages(lines_since(node.path, begun)) == ["now"]
    assert lines_since(node.path, begun + timedelta(seconds=60)) == []
