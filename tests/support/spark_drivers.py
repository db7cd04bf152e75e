"""Drivers of streaming queries as processes, and what Spark runs on Ray for them: how tests start and kill these."""

import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import msgspec
import psutil

from eagleray.pipelines.session import DEFAULT_SETTINGS
from tests.support.clusters import NotInTime, until
from tests.support.processes import children_of, has_name, has_word, kill_first

DRIVER_S = 600
DAEMON = DEFAULT_SETTINGS["spark.python.daemon.module"]


class Driver:
    """A streaming query in a process of its own, whose batches are counted as it reports them."""

    def __init__(self, plan, scratch):
        """Start it; what it leaves lying about when it is killed is in `scratch`."""
        scratch.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.pipelines.streaming_driver", msgspec.json.encode(plan).decode()]
        environment = {**os.environ, "TMPDIR": str(scratch)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.batches = []
        self._crash_mark = pathlib.Path(plan.crash_mark)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until_batch(self, number):
        """Wait until Spark has finished a batch with this number or a later one."""
        self._follow(lambda: bool(self.batches) and self.batches[-1] >= number)

    def until_end(self):
        """Wait until the process has ended, and return how."""
        self._follow(lambda: False)
        return self.process.wait(DRIVER_S)

    @property
    def has_ended_itself(self):
        """Whether it came to where its plan has it end itself."""
        return self._crash_mark.is_file()

    def _follow(self, is_enough):
        deadline = time.monotonic() + DRIVER_S
        while not is_enough():
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.1))
            except queue.Empty:
                raise NotInTime(f"the driver has come to batches {self.batches} in {DRIVER_S} s") from None
            if line is None:
                return
            if line.startswith("{"):
                self.batches.append(json.loads(line)["batch"])

    def kill(self):
        """End the driver with kill -9, its Java half too."""
        assert self.process.poll() is None, "the driver has ended by itself"
        processes = [self.process.pid, *(child.pid for child in java_of(psutil.Process(self.process.pid)))]
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        self.until_end()

    def close(self):
        """End what is left of it."""
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()


def java_of(process):
    return [child for child in children_of(process) if has_name(child, "java")]


def executors():
    """The Java processes of Spark's executors: those that Ray has started and that run Python for tasks."""
    (raylet,) = [child for child in children_of(psutil.Process()) if has_name(child, "raylet")]
    return [java for java in java_of(raylet) if daemons_of(java)]


def daemons_of(java):
    return [child for child in children_of(java) if has_word(child, DAEMON)]


def python_workers():
    """The Python processes that work for executors."""
    return [worker for executor in executors() for daemon in daemons_of(executor) for worker in children_of(daemon)]


def kill_executor():
    """End an executor with kill -9."""
    until(lambda: kill_first(executors()), "an executor runs Python")


def kill_python_worker():
    """End a Python process that works for an executor with kill -9."""
    until(lambda: kill_first(python_workers()), "a Python worker of an executor runs")


def until_no_executor():
    """Wait until the executors of a driver that is gone are gone, too."""
    until(lambda: not executors(), "the executors have ended")
