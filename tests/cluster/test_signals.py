"""Signals that stop commands on a real Ray: each is a clean stop, with the exit code that shells expect."""

import os
import pty
import select
import signal
import subprocess

import psutil
import pytest

from tests.support.cli_cluster import eagleray
from tests.support.cli_processes import FEWER, Machine, still_running, with_descendants

pytestmark = pytest.mark.slow

SMALL = ("--layout", "colocated", "--leaders", 1)
NOISE = (b"***", b"Traceback", b"GCS", b"Stack", b"raylet")
"""What Ray and Python say where a process is ended without being asked to stop."""


@pytest.fixture
def machine():
    machine = Machine()
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def running():
    """A machine with a cluster, for commands that only talk to it."""
    machine = Machine()
    try:
        machine.start(*SMALL)
        machine.run("topic", "create", "orders")
        yield machine
    finally:
        machine.close()


def begin(machine, *arguments):
    """Begin a command whose input stays open; what it says goes to pipes."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(eagleray(*arguments), env=machine.environment, start_new_session=True, **streams)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_commands_end_with_the_code_of_the_signal_and_without_noise(running, number):
    record = b"before %s\n" % number.name.encode()
    consume, produce = begin(running, "consume", "orders", "--from", "end"), begin(running, "produce", "orders")
    try:
        # Once records of the one reach the other, both are at work; where `consume` began there may be none yet.
        while True:
            produce.stdin.write(record)
            produce.stdin.flush()
            if has_line(consume, seconds=1):
                break
        assert consume.stdout.readline() == record
        for process in (consume, produce):
            process.send_signal(number)
        for process in (consume, produce):
            # Its input stays open: nothing but the signal may end it.
            assert process.wait(60) == 128 + number
            said = process.stderr.read()
            assert not any(noise in said for noise in NOISE), said
    finally:
        for process in (consume, produce):
            process.kill()
            process.communicate()
    assert [name for name in os.listdir(running.temporary) if name.startswith("eagleray")] == []


def has_line(process, seconds):
    """Whether a process says something within a time."""
    return bool(select.select([process.stdout], [], [], seconds)[0])


def test_signal_to_the_group_of_a_cluster_stops_it_in_good_order(machine):
    process, _ = machine.start(*SMALL)
    processes = with_descendants(process)
    # As `timeout` and systemd do, and twice as `timeout` does.
    process.send_signal(signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 0
    assert still_running(processes) == []
    assert os.listdir(machine.temporary) == []


def test_closed_terminal_stops_a_cluster_in_good_order(machine):
    terminal, theirs = pty.openpty()
    command = eagleray("start", "--data-dir", machine.data_dir, "--listen", "127.0.0.1:0", *SMALL, *FEWER)
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        env=machine.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        said = b""
        while b"bootstrap.servers=" not in said:
            said += os.read(terminal, 4096)
        processes = with_descendants(process)
    finally:
        os.close(terminal)
    try:
        assert process.wait(60) == 0
    finally:
        for each in still_running(processes):
            each.kill()
    assert os.listdir(machine.temporary) == []
    # A clean stop leaves nothing to recover.
    assert psutil.pid_exists(process.pid) is False


def test_signal_while_a_cluster_starts_leaves_nothing(machine):
    command = ("start", "--data-dir", machine.data_dir, "--listen", "127.0.0.1:0", *SMALL, *FEWER)
    process = begin(machine, *command)
    try:
        while not os.listdir(machine.temporary):
            assert process.poll() is None, process.communicate()
        processes = with_descendants(process)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(90) == 128 + signal.SIGTERM
        assert still_running(processes) == []
        assert os.listdir(machine.temporary) == []
        said = process.stderr.read()
        assert not any(noise in said for noise in NOISE), said
    finally:
        process.kill()
        process.communicate()
