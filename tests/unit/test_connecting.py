"""What programs are told where a cluster cannot be started or grown: errors of Eagleray, whichever layer noticed."""

import pytest

from eagleray import connecting, errors
from eagleray.actors.cluster import machines
from eagleray.actors.cluster.discovery import NoSuchCluster
from eagleray.actors.lanes.peers import Unanswered, Unreachable
from eagleray.connecting import StartOptions


def failing(error):
    async def fail(*_, **__):
        raise error

    return fail


async def test_cluster_that_cannot_start_is_an_error_of_eagleray(monkeypatch):
    monkeypatch.setattr(connecting, "start_cluster", failing(machines.MachinesMissing("Ray has 1 node")))
    with pytest.raises(errors.CannotStart, match=r"^Ray has 1 node\. What was started") as raised:
        await connecting.start_nodes(StartOptions())
    assert isinstance(raised.value, errors.EaglerayError)


async def test_machine_that_cannot_be_added_is_an_error_of_eagleray(monkeypatch):
    monkeypatch.setattr(connecting.adding, "add_machine", failing(machines.CannotAdd("it is a part already")))
    with pytest.raises(errors.CannotAdd, match=r"^it is a part already\. The cluster goes on as it is"):
        await connecting.add_machine("default", "10.0.0.1", wait_s=0.0)


def finding(monkeypatch, *outcomes):
    """Let each look for the cluster have the next of the outcomes, and the last one again and again."""
    left = list(outcomes)

    async def find_cluster(*_):
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(connecting, "find_cluster", find_cluster)


async def test_cluster_whose_nodes_are_being_started_anew_is_asked_again(monkeypatch, virtual_time):
    finding(monkeypatch, *[Unanswered("no node answers")] * 20, "credentials")
    assert await connecting.find("orders", "direct") == "credentials"


async def test_cluster_whose_nodes_do_not_answer_for_half_a_minute_is_an_error(monkeypatch, virtual_time):
    finding(monkeypatch, Unanswered("no node of cluster 'orders' answers: node 0 is not there"))
    with pytest.raises(errors.NotConnected, match=r"no node of cluster 'orders' answers: node 0 is not there\."):
        await connecting.find("orders", "direct")


@pytest.mark.parametrize(
    ("why", "error"), [(NoSuchCluster("none"), errors.ClusterNotFound), (Unreachable("shut"), errors.NodeUnreachable)]
)
async def test_cluster_that_is_not_there_or_cannot_be_reached_is_not_asked_again(monkeypatch, why, error):
    finding(monkeypatch, why, "credentials")
    with pytest.raises(error):
        await connecting.find("orders", "direct")
