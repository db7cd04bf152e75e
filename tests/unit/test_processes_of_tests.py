"""What tests ask of processes is answered for those, too, that have ended since they were found."""

import os
import subprocess
import sys

import psutil
import pytest

from tests.support.processes import children_of, has_name, has_word, kill_first, variable_of


@pytest.fixture
def running():
    child = subprocess.Popen([sys.executable, "-c", "input()", "a-word"], stdin=subprocess.PIPE, env={"WHO": "me"})
    yield psutil.Process(child.pid)
    child.kill()
    child.wait()
    child.stdin.close()


@pytest.fixture
def ended():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    child.kill()
    child.wait()
    child.stdin.close()
    return process


def test_a_process_that_runs_is_known(running):
    assert running in children_of(psutil.Process(os.getpid()))
    assert has_name(running, psutil.Process(running.pid).name())
    assert has_word(running, "a-word")
    assert variable_of(running, "WHO") == "me"


def test_a_process_that_has_ended_is_nothing_any_more(ended):
    assert children_of(ended) == []
    assert not has_name(ended, "python")
    assert not has_word(ended, "-c")
    assert variable_of(ended, "PATH") is None


def test_the_first_that_still_runs_is_killed(running, ended):
    assert kill_first([ended]) is None
    assert kill_first([ended, running]) == running
    assert not running.is_running() or running.status() == psutil.STATUS_ZOMBIE
