"""Three nodes keep the metadata, one of them decides, and when it goes another does."""

from unittest import mock

import msgspec
import pytest

from eagleray.broker.controller.events import CreateTopics, GetMetadata, NewTopic
from eagleray.broker.log import LogWriteFailed
from eagleray.broker.metadata.log_records import encode_image
from eagleray.protocol.errors import ErrorCode
from tests.support.cluster_in_memory import ClusterInMemory, entered

CONTROLLERS = (0, 100, 200)
LAYOUT = {
    0: ("controller", "allocator", "coordinator", "markers", "groups", "leader"),
    100: ("controller", "leader"),
    200: ("controller", "leader"),
    30: ("leader",),
}
MACHINES = {node_id: f"machine-{node_id // 100}" for node_id in LAYOUT}

pytestmark = pytest.mark.usefixtures("virtual_time")


class Quorum(ClusterInMemory):
    """Nodes of which three keep the metadata."""

    def role(self, node_id):
        return self.nodes[node_id]._roles[0]

    def active(self):
        return [node_id for node_id in CONTROLLERS if node_id in self.nodes and self.role(node_id)._state_machine]

    async def create(self, name):
        return (await self.ask_controller(CreateTopics, (NewTopic(name, 1),))).results[0].error_code


@pytest.fixture
def machines(virtual_time, runner):
    with runner.entered(entered(Quorum, topics={}, layout=LAYOUT, machines=MACHINES)) as machines:
        yield machines


async def test_one_of_three_decides_and_all_nodes_follow_it(machines):
    assert len(machines.active()) == 1
    assert await machines.create("orders") is ErrorCode.NONE
    await machines.until(lambda: all("orders" in node.image.topics for node in machines.nodes.values()))


async def test_another_decides_when_the_controller_goes_and_knows_all_that_it_did(machines):
    await machines.create("before")
    (first,) = machines.active()
    await machines.stop_node(first)
    assert await machines.create("before") is ErrorCode.TOPIC_ALREADY_EXISTS
    assert await machines.create("after") is ErrorCode.NONE
    (second,) = machines.active()
    assert second != first
    await machines.until(lambda: "after" in machines.nodes[30].image.topics)
    await machines.start_node(first)
    await machines.until(lambda: machines.nodes[first].is_registered)
    leader, follower = machines.role(second)._quorum, machines.role(first)._quorum
    await machines.until(lambda: follower.committed_offset == leader.committed_offset)
    assert machines.active() == [second]


async def test_nothing_is_decided_or_told_without_a_majority(machines):
    (active,) = machines.active()
    for node_id in CONTROLLERS:
        if node_id != active:
            await machines.stop_node(node_id)
    await machines.until(lambda: not machines.role(active)._quorum.holds())
    answer = await machines.peers.call(active, CreateTopics, (NewTopic("never", 1),))
    assert answer.results[0].error_code is ErrorCode.NOT_CONTROLLER
    answer = await machines.peers.call(active, GetMetadata)
    assert answer.error_code is ErrorCode.NOT_CONTROLLER
    assert answer.image.version == machines.nodes[active].image.version
    await machines.until(lambda: not machines.active())


async def test_client_of_a_controller_that_loses_its_majority_is_told_so(machines):
    (active,) = machines.active()
    for node_id in CONTROLLERS:
        if node_id != active:
            await machines.stop_node(node_id)
    # The lease holds for a while yet: the change is taken, and can never be committed.
    answer = await machines.peers.call(active, CreateTopics, (NewTopic("lost", 1),))
    assert answer.results[0].error_code is ErrorCode.REQUEST_TIMED_OUT, "it may still come to be"


async def lose_a_topic(role, create):
    """Have a topic refused whose changes the log does not take, and created when the log takes them again."""
    machine, quorum = role._state_machine, role._quorum
    with mock.patch.object(quorum._member.log, "append", side_effect=LogWriteFailed("the disk is full")):
        assert await create("lost") is ErrorCode.KAFKA_STORAGE_ERROR
    assert role._state_machine is not machine, "it is ahead of the log"
    assert "lost" not in role._state_machine.latest_image.topics
    assert await create("lost") is ErrorCode.NONE


async def test_controller_whose_log_takes_nothing_goes_on_from_what_the_log_has(machines):
    (active,) = machines.active()
    assert await machines.create("kept") is ErrorCode.NONE
    await lose_a_topic(machines.role(active), machines.create)
    assert await machines.create("kept") is ErrorCode.TOPIC_ALREADY_EXISTS
    await machines.until(lambda: "lost" in machines.nodes[30].image.topics)


async def test_single_controller_whose_log_takes_nothing_goes_on_from_what_the_log_has():
    async with ClusterInMemory() as nodes:

        async def create(name):
            answer = await nodes.peers.call(0, CreateTopics, (NewTopic(name, 1),))
            return answer.results[0].error_code

        await lose_a_topic(nodes.nodes[0]._roles[0], create)


async def test_image_larger_than_most_batches_is_kept_by_every_voter(machines):
    (active,) = machines.active()
    role = machines.role(active)
    deleted = {number.to_bytes(16): 0 for number in range(200_000)}
    image = msgspec.structs.replace(role._state_machine.latest_image, deleted_topics=deleted)
    assert len(encode_image(image)) > 3 * 1024**2
    end_offset = role._quorum.propose([encode_image(image)])
    voters = [machines.role(node_id)._quorum for node_id in CONTROLLERS]
    await machines.until(lambda: all(voter.committed_offset >= end_offset for voter in voters))
