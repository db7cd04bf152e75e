"""What a client knows of the cluster, and how it learns more."""

import asyncio

import msgspec

from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    GetMetadata,
    MetadataAnswered,
    TopicResult,
    TopicsAnswered,
)
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.errors import NotConnected, TopicNotFound
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode
from tests.support.client_helpers import ORDERS, a_producer, outcome
from tests.support.cluster_in_memory import CONTROLLER, LEADER_A
from tests.support.lanes_in_memory import Fate


async def test_one_question_is_under_way_however_many_ask(world, runtime):
    await asyncio.gather(*(runtime.view.refreshed() for _ in range(50)))
    assert len(world.asked(GetMetadata)) == 1


async def test_nodes_are_asked_in_turn_so_that_a_dead_one_does_not_matter(world, runtime):
    version = runtime.view.image.version
    await world.restart_node(LEADER_A)
    world.kill(CONTROLLER)
    for _ in range(5):
        await runtime.view.refreshed()
    assert runtime.view.image.version > version


async def test_a_question_without_an_answer_still_lets_those_go_on_who_asked(world, runtime):
    world.network.plan(GetMetadata, Fate.REPLY_LOST)
    await runtime.view.refreshed()
    assert world.seconds < 1


async def test_next_node_is_asked_silently_where_one_does_not_answer(world, runtime):
    await world.create_topics({"later": 1})
    for node_id in set(world.nodes) - {LEADER_A}:
        world.kill(node_id)
    assert "later" not in runtime.view.image.topics
    await runtime.view.refreshed()
    assert runtime.view.image.version == world.image.version
    assert "later" in runtime.view.image.topics


async def test_a_machine_that_is_gone_without_a_word_is_not_waited_for(world, runtime):
    asked, ask = [], runtime.ask

    def lose_in_silence(node_id, *request):
        asked.append(node_id)
        if node_id == LEADER_A:
            ask(node_id, *request)

    runtime.ask = lose_in_silence
    await runtime.view.refreshed()
    assert asked[-1] == LEADER_A
    assert len(asked) > 1
    assert world.seconds < 2.1 * len(asked)


async def test_late_answer_counts_and_lets_no_client_go_on_twice(world, runtime):
    replies, ask = [], runtime.ask
    newer = msgspec.structs.replace(world.image, version=world.image.version + 5)

    def hold_the_first(node_id, on_reply, *request):
        if not replies:
            replies.append(on_reply)
        else:
            ask(node_id, on_reply, *request)

    runtime.ask = hold_the_first
    told = []
    runtime.view.refresh(lambda: told.append(True))
    await asyncio.sleep(5)
    replies[0](MetadataAnswered(1, ErrorCode.NONE, newer))
    assert runtime.view.image is newer
    await asyncio.sleep(5)
    assert told == [True]


async def test_an_older_image_is_ignored(runtime):
    newest = runtime.view.image
    runtime.view.update(msgspec.structs.replace(newest, version=newest.version - 1, topics={}))
    assert runtime.view.image is newest
    assert ORDERS[0] in runtime.view.leaders


async def test_peers_learn_where_nodes_are_with_every_image(world, runtime):
    learned = []
    world.peers.learn = learned.append
    runtime.view.update(msgspec.structs.replace(world.image, version=world.image.version + 1))
    assert learned == [world.image.nodes]


async def test_a_topic_is_found_as_soon_as_it_is_there(world, runtime):
    producer = a_producer(runtime)
    sending = asyncio.ensure_future(producer.send_and_wait("orders", b"one"))
    await sending
    waiting = asyncio.ensure_future(runtime.view.find_topic("later", 10_000))
    await asyncio.sleep(0.5)
    world.create("later", 2)
    assert len(await waiting) == 2
    assert world.seconds < 1
    await producer.close()


async def test_a_client_that_knows_no_node_says_that_and_not_that_the_topic_is_missing(world, runtime):
    lonely = ClientRuntime(world.peers, EMPTY_IMAGE)
    assert isinstance(await outcome(lonely.view.find_topic("orders", 100)), NotConnected)
    assert isinstance(await outcome(runtime.view.find_topic("nothing", 100)), TopicNotFound)
    lonely.close()
    lonely.view.close()


async def test_a_node_that_could_be_the_controller_and_is_not_tells_the_metadata_all_the_same(world, runtime):
    newer = msgspec.structs.replace(world.image, version=world.image.version + 1)

    def ask(node_id, on_reply, message_type, *fields):
        world.loop.call_soon(on_reply, MetadataAnswered(1, ErrorCode.NOT_CONTROLLER, newer))

    runtime.ask = ask
    await runtime.view.refreshed()
    assert runtime.view.image is newer


async def test_changes_go_to_another_of_the_controllers_where_one_is_not_it(world, runtime):
    nodes = dict(world.image.nodes)
    nodes[100] = msgspec.structs.replace(nodes[CONTROLLER], node_id=100)
    two = msgspec.structs.replace(world.image, version=world.image.version + 1, nodes=nodes)
    runtime.view.update(two)
    asked = []

    def ask(node_id, on_reply, message_type, *fields):
        if message_type is not AlterTopicConfigs:
            world.loop.call_soon(on_reply, MetadataAnswered(1, ErrorCode.NONE, two))
            return
        asked.append(node_id)
        code = ErrorCode.NONE if node_id == 100 else ErrorCode.NOT_CONTROLLER
        world.loop.call_soon(on_reply, TopicsAnswered(1, (TopicResult("orders", code),)))

    runtime.ask = ask
    admin = AsyncAdmin(runtime)
    await admin.alter_topic("orders", {})
    await admin.alter_topic("orders", {})
    assert asked == [CONTROLLER, 100, 100]
