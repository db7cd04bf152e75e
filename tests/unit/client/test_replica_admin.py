"""The admin's part about replicas, when answers are lost or are refusals; what moves do is tested with real nodes."""

import asyncio

import msgspec
import pytest

from eagleray.broker.controller.events import (
    DrainNodes,
    ElectLeaders,
    ListReassignments,
    PartitionsAnswered,
    ReassignPartitions,
)
from eagleray.broker.identities import TopicPartition
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.calls import RetryPolicy
from eagleray.client.errors import NotConnected, ReplicasRefused, RequestTimedOut
from eagleray.protocol.errors import ErrorCode
from tests.support.client_helpers import ORDERS, outcome
from tests.support.client_world import CONTROLLER, LEADER_A, LEADER_B, PLAN, ClientWorld, Fate, in_world

FIRST = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _two_machines(monkeypatch):
    plan = (msgspec.structs.replace(node, machine=f"machine-{node.node_id == LEADER_B}") for node in PLAN)
    monkeypatch.setattr(ClientWorld, "plan", tuple(plan))


def other_than(node_id):
    return LEADER_B if node_id == LEADER_A else LEADER_A


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST])
def test_moves_are_begun_and_taken_back_though_answers_are_lost(fate):
    async def main(world, runtime):
        admin, here = AsyncAdmin(runtime), world.image.leader_of(FIRST)
        for kind in (ReassignPartitions, ReassignPartitions, ListReassignments, DrainNodes):
            world.network.plan(kind, fate)
        await admin.reassign_partitions({FIRST: [other_than(here)]})
        (moving,) = await admin.list_reassignments()
        assert (moving.partition, moving.adding, moving.removing) == (FIRST, (other_than(here),), (here,))
        assert await admin.list_reassignments(*ORDERS[1:]) == []
        await admin.reassign_partitions({FIRST: None})
        assert await admin.list_reassignments() == []
        await admin.undrain_node("machine-True")

    in_world(main)


def test_every_refusal_is_told_and_the_others_go_on():
    async def main(world, runtime):
        admin, here = AsyncAdmin(runtime), world.image.leader_of(FIRST)
        targets = {FIRST: [other_than(here)], ORDERS[1]: [77], TopicPartition("nothing", 3): [here]}
        error = await outcome(admin.reassign_partitions(targets))
        assert isinstance(error, ReplicasRefused)
        assert error.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "orders-1: " in error.message
        assert "nothing-3: there is no partition 3 of nothing" in error.message
        assert "orders-0" not in error.message
        assert [moving.partition for moving in await admin.list_reassignments()] == [FIRST]

    in_world(main)


@pytest.mark.parametrize(("node", "said"), [(77, "there is no node 77"), ("x", "there is no machine 'x'")])
@pytest.mark.parametrize("undo", [False, True])
def test_nodes_that_do_not_exist_are_not_drained(node, said, undo):
    async def main(world, runtime):
        admin = AsyncAdmin(runtime)
        error = await outcome(admin.undrain_node(node) if undo else admin.drain_node(node))
        assert isinstance(error, ReplicasRefused)
        assert said in str(error)

    in_world(main)


def test_nodes_are_listed_with_what_they_keep():
    async def main(world, runtime):
        admin = AsyncAdmin(runtime)
        nodes = {node.node_id: node for node in await admin.list_nodes()}
        assert [*nodes] == [node.node_id for node in PLAN]
        for node_id, node in nodes.items():
            assert (node.leads, node.keeps) == (len(world.image.led_by(node_id)), len(world.image.kept_by(node_id)))
            assert node.registered
            assert not node.draining
        assert await admin.drain_node("machine-True") == nodes[LEADER_B].keeps > 0
        assert [node.node_id for node in await admin.list_nodes() if node.draining] == [LEADER_B]
        assert await admin.kept_by(LEADER_B) == await admin.kept_by("machine-True")

    in_world(main)


def test_an_election_that_nobody_needs_is_none_and_one_that_takes_too_long_is_told():
    async def main(world, runtime):
        admin = AsyncAdmin(runtime, RetryPolicy(total_ms=500))
        assert await admin.elect_leaders() == []
        assert await admin.elect_leaders(FIRST) == []
        assert await admin.elect_leaders(FIRST, unclean=True) == []
        here = world.image.leader_of(FIRST)
        controller = world.nodes[CONTROLLER].controller
        orders = controller.image.topics["orders"]
        both = (other_than(here), here)
        first = msgspec.structs.replace(orders.partitions[0], replicas=both, isr=both)
        orders = msgspec.structs.replace(orders, partitions=(first, *orders.partitions[1:]))
        controller._image = msgspec.structs.replace(
            controller.image, topics=controller.image.topics | {"orders": orders}, version=controller.image.version + 1
        )
        world.image_changed(controller.image)
        # Leaders of this world do not hand over.
        error = await outcome(admin.elect_leaders(FIRST))
        assert isinstance(error, RequestTimedOut)
        assert "orders-0" in str(error)

    in_world(main)


def test_a_controller_that_is_busy_is_asked_again_and_one_that_is_gone_is_named():
    async def main(world, runtime):
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

    in_world(main)
