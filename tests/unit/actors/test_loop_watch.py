"""The watch on a loop, with a call of the disk that really hangs: one to a pipe at whose other end nobody is."""

import os
import time

import pytest

from eagleray.actors.process import loop_watch
from eagleray.actors.process.loop_watch import EXIT_STATUS, LoopWatch
from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.runtime import loop_stall


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Look at the loop every hundredth of a second."""
    for module in (loop_watch, loop_stall):
        monkeypatch.setattr(module, "LOOK_MS", 10)
    monkeypatch.setattr(loop_stall, "SAY_AFTER_MS", 20)


class Watched:
    """A watch that tells a test what it would write, and that it would end the process."""

    def __init__(self, timeout_ms, on_end=lambda: None):
        self.said = []
        self.ended = []
        self._on_end = on_end
        self._watch = LoopWatch("node 7", timeout_ms, end=self._end, say=self.said.append)

    def _end(self, status):
        self.ended.append(status)
        self._on_end()

    def __enter__(self):
        self._watch.start()
        return self

    def __exit__(self, *raised):
        self._watch.stop()

    @property
    def text(self):
        return "".join(self.said)


async def test_process_whose_disk_call_does_not_return_is_ended_and_the_call_is_named(tmp_path):
    pipe = tmp_path / "hangs"
    os.mkfifo(pipe)

    def let_go():
        pipe.write_bytes(b"at last")

    with Watched(50, let_go) as watched:
        assert LocalFileSystem().read_bytes(str(pipe)) == b"at last"
    assert watched.ended == [EXIT_STATUS]
    assert "waits for its disk" in watched.text
    assert "storage.flush.timeout.ms" in watched.text
    assert "in read_bytes" in watched.text


async def test_process_whose_loop_is_busy_is_not_ended():
    with Watched(2_000) as watched:
        while "is busy" not in watched.text:
            time.sleep(0.01)
        for _ in range(20):
            time.sleep(0.01)
    assert watched.ended == []


async def test_many_short_calls_of_the_disk_end_nothing(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    disk = LocalFileSystem()
    with Watched(2_000) as watched:
        while not watched.said:
            disk.read_bytes(str(path))
        for _ in range(5_000):
            disk.read_bytes(str(path))
    assert watched.ended == []
