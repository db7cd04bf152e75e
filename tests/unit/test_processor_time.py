"""scripts/processor_time.py: what processes use is counted for the run that they belong to."""

import os
import subprocess
import sys
import time

import pytest

from tests.support.scripts import load_script

BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


@pytest.fixture
def script(monkeypatch):
    return load_script("processor_time", monkeypatch)


@pytest.fixture
def busy(script):
    """A process of the run `busy` whose child has used some of the processor, and waits."""
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    environment = {**os.environ, script.VARIABLE: "busy"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, **pipes) as process:
        assert process.stdout.readline() == b"\n"
        yield
        process.communicate(b"\n")


def test_time_of_a_child_is_counted_once_for_its_run(script, busy):
    times = script.ProcessorTime()
    times.look()
    used_s = times.used_s("busy")
    assert used_s > 0.25
    times.look()
    assert times.used_s("busy") - used_s < 0.25, "what was counted is not counted again"
    assert times.used_s("another") == 0


def test_process_without_the_variable_belongs_to_the_run_of_its_parent(script):
    child = script.Process(pid=2**30, parent_pid=7, started=1, used_s=0.0)
    assert script._run_of(child, {7: "cluster"}) == "cluster"
    assert script._run_of(child, {}) == ""


def test_runs_are_looked_at_until_it_is_stopped(script, busy, monkeypatch):
    monkeypatch.setattr(script, "_LOOK_S", 0.01)
    times = script.ProcessorTime()
    times.start()
    while not times.used_s("busy"):
        time.sleep(0.01)
    times.stop()
    assert not times._thread.is_alive()
