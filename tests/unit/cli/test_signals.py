"""Signals that ask a command to stop, in processes of their own and without Ray."""

import os
import signal
import subprocess
import sys

import pytest

from eagleray.cli.signals import Interrupted, StopSignals

PRELUDE = """
import asyncio, os, signal, sys, time
from eagleray.cli import signals
from eagleray.cli.running import run_until_stopped
from eagleray.cli.signals import Interrupted, stop_signals

def say(*words):
    print(*words, flush=True)

def kill(number=signal.SIGTERM):
    os.kill(os.getpid(), number)
"""
ON_A_LOOP = """
async def work():
    try:
        kill()
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(0)
        say("closed")

with stop_signals.taken():
    try:
        run_until_stopped(work())
    except Interrupted as interrupted:
        say(interrupted, interrupted.exit_code)
"""
HELD = """
with stop_signals.taken():
    try:
        with stop_signals.held():
            kill()
            say("whole")
        say("never")
    except Interrupted as interrupted:
        say(interrupted)
"""
FINISHED = """
async def work():
    kill()
    return "committed"

with stop_signals.taken():
    say(run_until_stopped(work()))
"""
BEFORE_THE_LOOP = """
check = stop_signals.check

def check_and_be_killed():
    check()
    kill()

stop_signals.check = check_and_be_killed
with stop_signals.taken():
    try:
        with stop_signals.held():
            run_until_stopped(asyncio.sleep(60))
            say("never")
    except Interrupted as interrupted:
        say(interrupted)
"""
TWICE_AT_ONCE = """
with stop_signals.taken(), stop_signals.held():
    try:
        run_until_stopped(asyncio.sleep(0))
        kill()
        kill()
        say("still there")
    finally:
        os._exit(0)
"""
AGAIN = """
signals._SAME_S = 0.0
with stop_signals.taken(), stop_signals.held(), stop_signals.at_once(lambda: say("tidied")):
    kill()
    kill(signal.SIGINT)
    say("never")
"""

PRODUCING = """
from eagleray.cli import producing
signals._SAME_S = 0.0

def run(connection, work):
    with stop_signals.held():
        kill()
        kill()

producing.run = run
with stop_signals.taken():
    producing.produce("orders", transactional_id={transactional_id!r})
"""


def run(script, **options):
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, check=False, timeout=300, **options
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout.splitlines()


def test_work_on_a_loop_closes_before_it_is_interrupted():
    assert run(ON_A_LOOP) == (0, ["closed", "SIGTERM 143"])


def test_held_signal_is_raised_when_the_block_has_ended():
    assert run(HELD) == (0, ["whole", "SIGTERM"])


def test_work_that_ends_well_was_not_interrupted():
    assert run(FINISHED) == (0, ["committed"])


def test_signal_right_before_the_loop_stops_the_work():
    assert run(BEFORE_THE_LOOP) == (0, ["SIGTERM"])


def test_same_signal_from_two_sides_is_one():
    assert run(TWICE_AT_ONCE) == (0, ["still there"])


def test_signal_that_is_repeated_later_ends_the_process_at_once():
    assert run(AGAIN) == (128 + signal.SIGINT, ["tidied"])


@pytest.mark.parametrize(
    ("transactional_id", "left"),
    [
        ("loader-1", "nothing was committed; `eagleray txn abort loader-1` ends what may still be open"),
        (None, "nothing was written"),
    ],
)
def test_producer_that_a_repeated_signal_ends_says_what_is_left(transactional_id, left):
    script = PRELUDE + PRODUCING.format(transactional_id=transactional_id)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stdout) == (128 + signal.SIGTERM, "")
    assert ended.stderr == f"error: interrupted after 0 records; {left}.\n"


def test_ignored_signal_stays_ignored():
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    script = "with stop_signals.taken():\n    kill(signal.SIGHUP)\n    say('not stopped')\n"
    assert run(script, preexec_fn=ignore) == (0, ["not stopped"])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_exit_code_is_that_of_shells(number, code):
    assert Interrupted(number).exit_code == code


def test_handlers_of_the_program_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    signals = StopSignals()
    with pytest.raises(Interrupted), signals.taken():
        os.kill(os.getpid(), signal.SIGHUP)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
