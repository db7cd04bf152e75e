"""Which nodes a machine gets that is added to a cluster, whoever else adds one at the same moment."""

import pytest

from eagleray.actors.cluster.add_machine import plan_one_more
from eagleray.actors.cluster.machines import CannotAdd, Machine
from eagleray.actors.cluster.supervision import ClusterSpec
from eagleray.broker.controller.events import PlanNodes
from eagleray.broker.metadata.nodes import PlannedNode
from tests.support.controllers import plan_of, replicated_driver

SPEC = ClusterSpec(name="growing", data_dir="/data", host="a", token=b"", settings={}, ports={0: 9092})
ALIVE = ("a", "b", "c", "d", "e")


class Controller:
    """A real controller behind a channel that answers at once."""

    def __init__(self):
        self.driver = replicated_driver()
        self.before_planning = []

    async def call(self, message_type, *fields):
        if message_type is PlanNodes and self.before_planning:
            await self.before_planning.pop()()
        return self.driver.ask(message_type, *fields)

    def planned(self):
        return {node.machine for node in self.driver.image.plan.values()}


@pytest.fixture
def controller():
    return Controller()


def added_nodes(place, address):
    """What every machine has but the controller."""
    return tuple(
        PlannedNode(100 * place + node.node_id % 100, roles, None, address)
        for node in plan_of("a")
        if (roles := tuple(role for role in node.roles if role != "controller"))
    )


def add(controller, address):
    return plan_one_more(SPEC, controller, address, ALIVE)


async def test_a_machine_gets_the_nodes_that_the_others_have(controller):
    grown, added = await add(controller, "d")
    assert added == added_nodes(3, "d")
    assert grown.machines == tuple(Machine(address, place) for place, address in enumerate("abcd"))
    assert grown.ports == {0: 9092, 330: 9092}, "clients begin at the first of its leaders"
    assert controller.planned() == {*"abcd"}


def somebody_adds_first(controller, address):
    """Have another machine planned right before the next plan comes; returns what that gave, once it has."""
    others = []

    async def add_another():
        others.append(await add(controller, address))

    controller.before_planning.append(add_another)
    return others


async def test_two_machines_that_are_added_at_once_are_both_there(controller):
    others = somebody_adds_first(controller, "e")
    grown, added = await add(controller, "d")
    assert others[0][1] == added_nodes(3, "e")
    assert added == added_nodes(4, "d")
    assert [machine.address for machine in grown.machines] == [*"abced"]
    assert controller.planned() == {*"abcde"}


async def test_a_machine_that_two_add_at_once_gets_its_nodes_once(controller):
    others = somebody_adds_first(controller, "d")
    assert await add(controller, "d") == others[0]
    assert controller.planned() == {*"abcd"}
    with pytest.raises(CannotAdd, match="machine d is a part of this cluster already"):
        await add(controller, "d")
