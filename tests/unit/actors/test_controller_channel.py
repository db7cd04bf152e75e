"""The channel to the controller finds out which node that is."""

import asyncio

import pytest

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.lanes.peers import Unanswered
from eagleray.broker.controller.events import (
    FollowMetadata,
    GetMetadata,
    MetadataAnswered,
    MetadataFollowed,
)
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.protocol.errors import ErrorCode


class Nodes:
    """Nodes that answer as the test says: as the controller, as none, with None, or never."""

    def __init__(self, **answers):
        self.answers = {int(name.removeprefix("node_")): answer for name, answer in answers.items()}
        self.asked = []
        self.unreachable = {}

    def why_unreachable(self, node_id):
        return self.unreachable.get(node_id)

    def ask(self, node_id, on_reply, message_type, *fields, **named):
        self.asked.append(node_id)
        answer = self.answers[node_id]
        if answer == "never":
            return
        code = ErrorCode.NONE if answer == "controller" else ErrorCode.NOT_CONTROLLER
        if message_type is FollowMetadata:
            reply = MetadataFollowed(1, code, 7)
        else:
            reply = MetadataAnswered(1, code, EMPTY_IMAGE)
        asyncio.get_running_loop().call_soon(on_reply, None if answer is None else reply)


CONTROLLERS = (0, 100, 200)


@pytest.mark.parametrize("other", ["none", None, "never"])
async def test_channel_asks_on_until_the_controller_answers_and_remembers_it(other):
    nodes = Nodes(node_0=other, node_100=other, node_200="controller")

    channel = ControllerChannel(nodes, CONTROLLERS, reply_timeout_s=0.01)

    assert (await channel.call(GetMetadata)).error_code is ErrorCode.NONE
    await channel.call(GetMetadata)
    assert nodes.asked == [0, 100, 200, 200]


async def test_question_without_a_controller_is_unanswered_and_each_voter_was_asked_once():
    nodes = Nodes(node_0="none", node_100=None, node_200="none")

    with pytest.raises(Unanswered, match="GetMetadata"):
        await ControllerChannel(nodes, CONTROLLERS).call(GetMetadata)
    assert sorted(nodes.asked) == [0, 100, 200]


def test_controller_whose_port_cannot_be_reached_is_told_of():
    nodes = Nodes(node_0=None, node_100=None, node_200=None)
    channel = ControllerChannel(nodes, CONTROLLERS)
    nodes.unreachable = {30: "no controller"}
    assert channel.why_unreachable() is None
    nodes.unreachable[100] = "node 100 runs, but cannot be reached"
    assert channel.why_unreachable() == "node 100 runs, but cannot be reached"


async def test_one_node_alone_is_asked_and_its_answer_is_the_answer():
    nodes = Nodes(node_0="none")
    answer = await ControllerChannel(nodes, (0,)).call(GetMetadata)
    assert answer.error_code is ErrorCode.NOT_CONTROLLER
    assert nodes.asked == [0]


async def test_question_to_a_node_that_is_gone_is_sent_on_when_another_is_found():
    nodes = Nodes(node_0="never", node_100="none", node_200="controller")

    channel = ControllerChannel(nodes, CONTROLLERS)

    waiting = asyncio.ensure_future(channel.call_within(3600, FollowMetadata, 7, 10_000))
    await asyncio.sleep(0)
    assert (await channel.call_within(0.01, GetMetadata)).error_code is ErrorCode.NONE
    assert (await waiting).version == 7
    assert channel.node_id == 200


async def test_an_answer_that_comes_after_its_question_was_asked_elsewhere_is_dropped():
    late = []

    class LateNodes(Nodes):
        def ask(self, node_id, on_reply, message_type, *fields, **named):
            if node_id == 0:
                late.append(on_reply)
            else:
                super().ask(node_id, on_reply, message_type, *fields)

    answers = []
    nodes = LateNodes(node_0="never", node_100="controller", node_200="none")

    ControllerChannel(nodes, CONTROLLERS, reply_timeout_s=0.01).ask(answers.append, GetMetadata)
    await asyncio.sleep(0.05)
    late[0](MetadataAnswered(9, ErrorCode.NONE, EMPTY_IMAGE))
    await asyncio.sleep(0.01)
    assert [answer.request_id for answer in answers] == [1]
