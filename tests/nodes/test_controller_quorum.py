"""Three nodes keep the metadata, one of them decides, and when it goes another does."""

import asyncio
from contextlib import suppress

from eagleray.actors.controller_finder import ControllerFinder
from eagleray.actors.lanes.peers import Lane, Peers, Unanswered
from eagleray.actors.spec import NodeSpec
from eagleray.broker.controller.events import CreateTopics, GetMetadata, NewTopic, PlanNodes
from eagleray.broker.controller.nodes import PlannedNode
from eagleray.protocol.errors import ErrorCode
from tests.support.nodes import FailingNode, NoActors

CONTROLLERS = (0, 100, 200)
LAYOUT = {
    0: ("controller", "allocator", "coordinator", "markers", "groups", "leader"),
    100: ("controller", "leader"),
    200: ("controller", "leader"),
    30: ("leader",),
}
SETTINGS = {
    "controller.quorum.election.timeout.ms": "600",
    "controller.quorum.lease.ms": "450",
    "controller.quorum.heartbeat.interval.ms": "100",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}


class Machines:
    """Nodes in this process, each with a disk of its own, that find each other without Ray."""

    def __init__(self, data_dir):
        self._data_dir = data_dir
        self.nodes = {}
        self.failures = []
        self._token = b"t" * 32

    async def __aenter__(self):
        for node_id in CONTROLLERS:
            await self.start(node_id)
        self.peers = Peers(token=self._token, lane=Lane.DIRECT, timeout_s=10)
        self.controller = ControllerFinder(self.peers, CONTROLLERS)
        self.meet()
        answer = await self.ask(PlanNodes, tuple(PlannedNode(*planned) for planned in LAYOUT.items()))
        assert answer.error_code is ErrorCode.NONE, answer.message
        await self.start(30)
        self.meet()
        await self.until(lambda: all(node.is_registered for node in self.nodes.values()))
        return self

    async def start(self, node_id):
        spec = NodeSpec(
            cluster="test",
            node_id=node_id,
            roles=LAYOUT[node_id],
            data_dir=f"{self._data_dir}/{node_id}",
            host="127.0.0.1",
            token=self._token,
            settings=SETTINGS,
            controllers=CONTROLLERS,
        )
        self.nodes[node_id] = FailingNode(spec, NoActors(), self.failures)
        await self.nodes[node_id].start()

    def meet(self):
        """Let everybody know where the others listen, which Ray would tell them."""
        registrations = {node_id: node.registration for node_id, node in self.nodes.items()}
        for peers in (self.peers, *(node.peers for node in self.nodes.values())):
            peers.learn(registrations)

    async def stop(self, node_id):
        await self.nodes.pop(node_id).close()

    async def ask(self, message_type, *fields):
        while True:
            try:
                return await self.controller.call(message_type, *fields)
            except Unanswered:
                await asyncio.sleep(0.02)

    async def create(self, name):
        answer = await self.ask(CreateTopics, (NewTopic(name, 1),))
        return answer.results[0].error_code

    async def until(self, is_so):
        async with asyncio.timeout(20):
            while not is_so():
                await asyncio.sleep(0.01)

    def shell(self, node_id):
        return self.nodes[node_id]._shells[0]

    def active(self):
        return [node_id for node_id in CONTROLLERS if node_id in self.nodes and self.shell(node_id)._machine]

    async def __aexit__(self, *exc):
        self.peers.close()
        for node_id in [*self.nodes]:
            with suppress(Exception):
                await self.stop(node_id)
        if self.failures:
            raise self.failures[0]


def run(scenario, data_dir):
    async def with_machines():
        async with asyncio.timeout(60), Machines(data_dir) as machines:
            await scenario(machines)

    asyncio.run(with_machines())


def test_one_of_three_decides_and_everybody_follows_it(tmp_path):
    async def scenario(machines):
        assert len(machines.active()) == 1
        assert await machines.create("orders") is ErrorCode.NONE
        await machines.until(lambda: all("orders" in node.image.topics for node in machines.nodes.values()))

    run(scenario, tmp_path)


def test_another_decides_when_the_controller_goes_and_knows_all_that_it_did(tmp_path):
    async def scenario(machines):
        await machines.create("before")
        (first,) = machines.active()
        await machines.stop(first)
        assert await machines.create("before") is ErrorCode.TOPIC_ALREADY_EXISTS
        assert await machines.create("after") is ErrorCode.NONE
        (second,) = machines.active()
        assert second != first
        await machines.until(lambda: "after" in machines.nodes[30].image.topics)
        await machines.start(first)
        machines.meet()
        await machines.until(lambda: machines.nodes[first].is_registered)
        leader, follower = machines.shell(second)._quorum, machines.shell(first)._quorum
        await machines.until(lambda: follower.committed_offset == leader.committed_offset)
        assert machines.active() == [second]

    run(scenario, tmp_path)


def test_without_a_majority_nothing_is_decided_and_nobody_is_told_anything_as_if_it_were(tmp_path):
    async def scenario(machines):
        (active,) = machines.active()
        for node_id in CONTROLLERS:
            if node_id != active:
                await machines.stop(node_id)
        await machines.until(lambda: not machines.shell(active)._quorum.holds())
        answer = await machines.peers.call(active, CreateTopics, (NewTopic("never", 1),))
        assert answer.results[0].error_code is ErrorCode.NOT_CONTROLLER
        answer = await machines.peers.call(active, GetMetadata)
        assert answer.error_code is ErrorCode.NOT_CONTROLLER
        assert answer.image.version == machines.nodes[active].image.version
        await machines.until(lambda: not machines.active())

    run(scenario, tmp_path)


def test_who_waits_for_a_controller_that_loses_its_majority_is_told_so(tmp_path):
    async def scenario(machines):
        (active,) = machines.active()
        for node_id in CONTROLLERS:
            if node_id != active:
                await machines.stop(node_id)
        # The lease holds for a while yet: the change is taken, and can never be committed.
        answer = await machines.peers.call(active, CreateTopics, (NewTopic("lost", 1),))
        assert answer.results[0].error_code is ErrorCode.NOT_CONTROLLER

    run(scenario, tmp_path)
