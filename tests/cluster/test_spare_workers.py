"""Ray keeps a process ready on each machine, and a node that is killed goes on in it."""

import time

import psutil
import pytest

from tests.support.clusters import kill, nodes_with, until_back

pytestmark = pytest.mark.slow

PAUSES_S = (3, 6, 12, 24, 48)
"""How long Ray is given to have a process ready after the last one was used; slow machines need more."""


def goes_on_in_a_process_that_was_there(cluster):
    """Kill a node; say whether the process that it goes on in is older than the kill."""
    victim = nodes_with(cluster, "leader")[-1]
    killed_at = time.time()
    kill(victim)
    (back,) = until_back(cluster, [victim])
    return psutil.Process(back["pid"]).create_time() < killed_at


def test_a_node_that_is_killed_goes_on_in_a_process_that_was_ready(ray_here):
    with ray_here.start("colocated", leaders=1, config={"spare.worker.processes": "1"}) as cluster:
        for pause_s in PAUSES_S:
            time.sleep(pause_s)
            if goes_on_in_a_process_that_was_there(cluster):
                return
    pytest.fail("every node that was killed went on in a process that Ray had to start")
