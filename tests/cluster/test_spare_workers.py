"""Ray keeps a process ready on each machine, and a node that is killed goes on in it."""

import time

import psutil
import pytest

from tests.support.clusters import kill, nodes_with, until, until_back

pytestmark = pytest.mark.slow


def goes_on_in_a_process_that_was_there(cluster):
    """Kill a node; say whether the process that it goes on in is older than the kill."""
    victim = nodes_with(cluster, "leader")[-1]
    killed_at = time.time()
    kill(victim)
    (back,) = until_back(cluster, [victim])
    return psutil.Process(back["pid"]).create_time() < killed_at


def test_a_node_that_is_killed_goes_on_in_a_process_that_was_ready(colocated):
    def is_ready():
        # The process that is kept ready is there some seconds after the last one was used, also by another test.
        time.sleep(3)
        return goes_on_in_a_process_that_was_there(colocated)

    until(is_ready, "a node goes on in a process that was there before")
