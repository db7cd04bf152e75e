"""The admin's part about replicas, when answers are lost or are refusals; what moves do is tested with real nodes."""

import asyncio

import pytest

from eagleray.broker.controller.replica_events import (
    DrainNodes,
    ElectLeaders,
    ListReassignments,
    PartitionsAnswered,
    ReassignPartitions,
)
from eagleray.broker.identities import TopicPartition
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.errors import NotConnected, ReplicasRefused, RequestTimedOut
from eagleray.client.retry_policy import RetryPolicy
from eagleray.protocol.errors import ErrorCode
from tests.support.client_helpers import ORDERS, outcome
from tests.support.cluster_in_memory import CONTROLLER, LAYOUT, LEADER_A, LEADER_B, TWO_MACHINES, entered
from tests.support.lanes_in_memory import Fate

FIRST = TopicPartition("orders", 0)


@pytest.fixture
def world(virtual_time, runner):
    """Each of the leaders is on a machine of its own."""
    with runner.entered(entered(machines=TWO_MACHINES)) as world:
        yield world


def other_than(node_id):
    return LEADER_B if node_id == LEADER_A else LEADER_A


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST])
async def test_moves_are_begun_and_taken_back_though_answers_are_lost(fate, world, runtime):
    admin, here = AsyncAdmin(runtime), world.image.leader_of(FIRST)
    world.kill(other_than(here))
    for kind in (ReassignPartitions, ReassignPartitions, ListReassignments, DrainNodes):
        world.network.plan(kind, fate)
    await admin.reassign_partitions({FIRST: [other_than(here)]})
    (moving,) = await admin.list_reassignments()
    assert (moving.partition, moving.adding, moving.removing) == (FIRST, (other_than(here),), (here,))
    assert await admin.list_reassignments(*ORDERS[1:]) == []
    await admin.reassign_partitions({FIRST: None})
    assert await admin.list_reassignments() == []
    await admin.undrain_node("second")


async def test_every_refusal_is_told_and_the_others_go_on(world, runtime):
    admin, here = AsyncAdmin(runtime), world.image.leader_of(FIRST)
    world.kill(other_than(here))
    targets = {FIRST: [other_than(here)], ORDERS[1]: [77], TopicPartition("nothing", 3): [here]}
    error = await outcome(admin.reassign_partitions(targets))
    assert isinstance(error, ReplicasRefused)
    assert error.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "orders-1: " in error.message
    assert "nothing-3: there is no partition 3 of nothing" in error.message
    assert "orders-0" not in error.message
    assert [moving.partition for moving in await admin.list_reassignments()] == [FIRST]


@pytest.mark.parametrize(("node", "said"), [(77, "there is no node 77"), ("x", "there is no machine 'x'")])
@pytest.mark.parametrize("undo", [False, True])
async def test_nodes_that_do_not_exist_are_not_drained(node, said, undo, runtime):
    admin = AsyncAdmin(runtime)
    error = await outcome(admin.undrain_node(node) if undo else admin.drain_node(node))
    assert isinstance(error, ReplicasRefused)
    assert said in str(error)


async def test_nodes_are_listed_with_what_they_keep(world, runtime):
    admin = AsyncAdmin(runtime)
    nodes = {node.node_id: node for node in await admin.list_nodes()}
    assert [*nodes] == [*LAYOUT]
    for node_id, node in nodes.items():
        assert (node.leads, node.keeps) == (len(world.image.led_by(node_id)), len(world.image.kept_by(node_id)))
        assert node.registered
        assert not node.draining
    assert await admin.drain_node("second") == nodes[LEADER_B].keeps > 0
    assert [node.node_id for node in await admin.list_nodes() if node.draining] == [LEADER_B]
    assert await admin.kept_by(LEADER_B) == await admin.kept_by("second")


async def test_needless_election_is_none_and_one_that_takes_too_long_is_told(world, runtime):
    admin = AsyncAdmin(runtime, RetryPolicy(total_ms=500))
    assert await admin.elect_leaders() == []
    assert await admin.elect_leaders(FIRST) == []
    assert await admin.elect_leaders(FIRST, unclean=True) == []
    here = world.image.leader_of(FIRST)
    await admin.reassign_partitions({FIRST: [other_than(here), here]})
    await world.until(lambda: len(world.image.find(FIRST).isr) == 2)
    assert world.image.leader_of(FIRST) == here
    world.kill(here)
    error = await outcome(admin.elect_leaders(FIRST))
    assert isinstance(error, RequestTimedOut)
    assert "orders-0" in str(error)


async def test_a_controller_that_is_busy_is_asked_again_and_one_that_is_gone_is_named(world, runtime):
    admin, ask = AsyncAdmin(runtime, RetryPolicy(total_ms=500)), runtime.ask
    refusals = [ErrorCode.NOT_CONTROLLER] * 2

    def busy(node_id, on_reply, kind, *fields):
        if kind is ElectLeaders and refusals:
            reply = PartitionsAnswered(1, (), refusals.pop())
            asyncio.get_running_loop().call_soon(on_reply, reply)
        else:
            ask(node_id, on_reply, kind, *fields)

    runtime.ask = busy
    assert await admin.elect_leaders() == []
    assert not refusals
    world.kill(CONTROLLER)
    error = await outcome(admin.list_reassignments())
    assert isinstance(error, NotConnected)
    assert "listing moves" in str(error)
