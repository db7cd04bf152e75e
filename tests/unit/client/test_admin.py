"""The admin: topics, records, groups, and transactions that have to be looked into or ended."""

import asyncio

import msgspec
import pytest

from eagleray.broker.controller.events import CreateTopics, DeleteTopics, TopicResult, TopicsAnswered
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import Produce, TransactionVerified
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.errors import (
    GroupNotFound,
    InvalidArgument,
    InvalidConfig,
    NodeUnreachable,
    NotConnected,
    ProducerFenced,
    RefusedError,
    TopicExists,
    TopicNotFound,
    TopicRefused,
    TransactionNotFound,
)
from eagleray.client.retry_policy import RetryPolicy
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch
from tests.support.client_helpers import (
    ORDERS,
    a_consumer,
    a_producer,
    a_transactional,
    commit_records,
    outcome,
    poll_values,
    settled,
)
from tests.support.cluster_in_memory import CONTROLLER, COORDINATOR, LEADER_A
from tests.support.lanes_in_memory import Fate


async def test_a_topic_is_there_to_use_when_creating_it_returns(runtime):
    admin = AsyncAdmin(runtime)
    await admin.create_topic("new", partitions=4, configs={"retention.ms": "1000"})
    producer = a_producer(runtime, max_block_ms=0)
    assert (await producer.send_and_wait("new", b"one", partition=3)).offset == 0
    assert (await admin.list_topics()) == {"invoices": 2, "new": 4, "orders": 3}
    assert "__transaction_state" in await admin.list_topics(internal=True)
    assert (await admin.describe_configs("new")).configs["retention.ms"] == "1000"
    assert (await admin.describe_configs("new")).explicit == ("retention.ms",)
    await producer.close()


async def test_impossible_request_is_refused_by_name(runtime):
    admin = AsyncAdmin(runtime)
    assert isinstance(await outcome(admin.create_topic("orders")), TopicExists)
    await admin.create_topic("orders", exist_ok=True)
    assert isinstance(await outcome(admin.create_topic("x", configs={"nonsense": "1"})), InvalidConfig)
    assert isinstance(await outcome(admin.grow_topic("orders", 1)), RefusedError)
    for call in (admin.describe_topic("nothing"), admin.describe_configs("nothing")):
        assert isinstance(await outcome(call), TopicNotFound)


async def test_unknown_topic_and_group_are_not_found_at_once(runtime):
    admin, nothing = AsyncAdmin(runtime), TopicPartition("nothing", 0)
    calls = {
        TopicNotFound: (
            admin.delete_topic("nothing"),
            admin.grow_topic("nothing", 5),
            admin.alter_topic("nothing", {"retention.ms": 1}),
            admin.delete_records({nothing: 5}),
            admin.delete_records({TopicPartition("orders", 99): 5}),
            admin.list_offsets({nothing: -1}),
        ),
        GroupNotFound: (
            admin.describe_group("nothing"),
            admin.delete_group("nothing"),
            admin.delete_group_offsets("nothing", ORDERS[0]),
        ),
    }
    for expected, unknown in calls.items():
        for call in unknown:
            began_ms = runtime.now_ms()
            assert isinstance(await outcome(call), expected)
            assert runtime.now_ms() - began_ms < RetryPolicy().total_ms / 10, "nothing was waited for"


async def test_wrong_types_are_refused_before_anything_is_sent(world, runtime):
    admin = AsyncAdmin(runtime)
    world.network.plan(CreateTopics, Fate.REQUEST_LOST)
    calls = (
        admin.create_topic(5),
        admin.create_topic("x", partitions="3"),
        admin.create_topic("x", replication_factor="3"),
        admin.create_topic("x", configs={"retention.ms": [1]}),
        admin.grow_topic("orders", "9"),
        admin.alter_topic("orders", {"retention.ms": [1]}),
        admin.delete_topic(5),
        admin.describe_topic(5),
        admin.describe_configs(5),
        admin.delete_records({ORDERS[0]: "5"}),
        admin.delete_records({ORDERS[0]: 5}, timeout_ms="1"),
        admin.list_offsets({ORDERS[0]: "5"}),
        admin.describe_group(5),
        admin.alter_group_offsets("g", {ORDERS[0]: "5"}),
        admin.delete_group_offsets("g", "orders-0"),
        admin.delete_group(5),
        admin.list_transactions(states=["nonsense"]),
        admin.describe_transaction(5),
        admin.abort_transaction(5),
        admin.find_hanging(older_than_ms="1"),
        admin.reassign_partitions({ORDERS[0]: ["0"]}),
        admin.list_reassignments("orders-0"),
        admin.elect_leaders("orders-0"),
        admin.drain_node(2.5),
        admin.kept_by(None),
    )
    for call in calls:
        assert isinstance(await outcome(call), InvalidArgument), call.__qualname__
    # The fault that waits for a request is still there.
    await admin.create_topic("x", partitions=2, configs={"retention.ms": 1000, "unclean.leader.election.enable": False})
    assert (await admin.describe_topic("x")).configs == {
        "retention.ms": "1000",
        "unclean.leader.election.enable": "false",
    }


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST])
async def test_creating_and_deleting_are_repeated_without_an_answer(fate: Fate, world, runtime):
    admin = AsyncAdmin(runtime)
    world.network.plan(CreateTopics, fate)
    world.network.plan(DeleteTopics, fate)
    await admin.create_topic("new", partitions=1)
    await admin.delete_topic("new")
    assert "new" not in await admin.list_topics()


async def test_a_cluster_without_a_controller_is_named_after_the_last_retry(world, runtime):
    world.kill(CONTROLLER)
    admin = AsyncAdmin(runtime, RetryPolicy(total_ms=500))
    error = await outcome(admin.create_topic("new"))
    assert isinstance(error, NotConnected)
    assert "creating topic 'new'" in str(error)
    assert world.seconds < 1


async def test_node_whose_port_cannot_be_reached_is_named_with_it_after_the_timeout(world, runtime):
    world.kill(CONTROLLER)
    why = "node 0 runs, but cannot be reached at 192.0.2.1:9093 from here (refused)"
    runtime.peers.why_unreachable = {CONTROLLER: why}.get
    error = await outcome(AsyncAdmin(runtime, RetryPolicy(total_ms=500)).create_topic("new"))
    assert type(error) is NodeUnreachable
    assert str(error).startswith(f"creating topic 'new': {why}. Open the port")


def say_not_controller(on_reply, request_type, *fields):
    (topics,) = fields
    refused = (TopicResult(topics[0].name, ErrorCode.NOT_CONTROLLER),)
    asyncio.get_running_loop().call_soon(on_reply, TopicsAnswered(1, refused))


def say_nothing(on_reply, *request):
    asyncio.get_running_loop().call_soon(on_reply, None)


def be_silent(on_reply, *request):
    """Its machine is gone."""


@pytest.mark.parametrize("instead", [say_not_controller, say_nothing, be_silent])
async def test_another_controller_is_asked_where_one_is_none_or_gone(instead, world, runtime):
    nodes = dict(world.image.nodes)
    nodes[LEADER_A] = msgspec.structs.replace(nodes[LEADER_A], roles=("controller", "leader"))
    view, ask = runtime.view, runtime.ask
    view.update(msgspec.structs.replace(world.image, nodes=nodes))
    view.try_next_controller()
    assert (view.controllers, view.controller()) == ([CONTROLLER, LEADER_A], LEADER_A)
    asked = []

    def other_controllers(node_id, on_reply, request_type, *fields):
        if request_type is CreateTopics:
            asked.append(node_id)
            if node_id == LEADER_A:
                instead(on_reply, request_type, *fields)
                return
        ask(node_id, on_reply, request_type, *fields)

    runtime.ask = other_controllers
    await AsyncAdmin(runtime).create_topic("new", partitions=1)
    assert asked == [LEADER_A, CONTROLLER]
    assert world.seconds < 6


async def test_change_of_a_controller_that_resigned_meanwhile_is_no_error_of_the_next(world, runtime):
    nodes = dict(world.image.nodes)
    nodes[LEADER_A] = msgspec.structs.replace(nodes[LEADER_A], roles=("controller", "leader"))
    runtime.view.update(msgspec.structs.replace(world.image, nodes=nodes))
    runtime.view.try_next_controller()
    ask = runtime.ask

    def resigning(node_id, on_reply, request_type, *fields):
        """Have it done, and answer as a controller does that is none any more when it is committed."""
        if node_id != LEADER_A or request_type is not CreateTopics:
            ask(node_id, on_reply, request_type, *fields)
            return
        resigned = request_type(1, *fields).refused(ErrorCode.REQUEST_TIMED_OUT)
        ask(CONTROLLER, lambda _: on_reply(resigned), request_type, *fields)

    runtime.ask = resigning
    await AsyncAdmin(runtime).create_topic("new", partitions=1)
    assert (await AsyncAdmin(runtime).list_topics())["new"] == 1


async def test_a_topic_grows_and_changes(runtime):
    admin = AsyncAdmin(runtime)
    await admin.grow_topic("orders", 5)
    assert (await admin.list_topics())["orders"] == 5
    await admin.alter_topic("orders", {"retention.ms": "5"})
    assert (await admin.describe_configs("orders")).configs["retention.ms"] == "5"
    await admin.alter_topic("orders", {"retention.ms": None})
    assert (await admin.describe_configs("orders")).explicit == ()


async def test_a_description_says_what_holds_readers_back_and_is_json(world, runtime):
    producer = await a_transactional(runtime)
    await commit_records(producer, b"one")
    producer.begin()
    await (await producer.send("orders", b"open", partition=0))
    await settled()
    described = await AsyncAdmin(runtime).describe_topic("orders")
    first = described.partitions[0]
    assert (first.last_stable_offset, first.high_watermark, first.undecided) == (2, 3, 1)
    assert first.leader == world.image.leader_of(ORDERS[0])
    assert first.size_bytes > 0
    assert msgspec.json.decode(msgspec.json.encode(described))["partitions"][0]["high_watermark"] == 3
    await producer.close()


async def test_records_are_deleted_before_an_offset(runtime):
    producer = a_producer(runtime)
    for _ in range(5):
        await producer.send_and_wait("orders", b"x", partition=0)
    admin = AsyncAdmin(runtime)
    assert await admin.delete_records({ORDERS[0]: 3}) == {ORDERS[0]: 3}
    assert (await admin.list_offsets({ORDERS[0]: -2}))[ORDERS[0]].offset == 3
    assert await admin.delete_records({ORDERS[0]: -1}) == {ORDERS[0]: 5}
    assert (await admin.list_offsets({ORDERS[0]: -1}))[ORDERS[0]].offset == 5
    await producer.close()


async def test_offsets_are_listed_at_both_isolation_levels(runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await (await producer.send("orders", b"open", partition=0))
    admin, end = AsyncAdmin(runtime), {ORDERS[0]: -1}
    assert (await admin.list_offsets(end))[ORDERS[0]].offset == 1
    assert (await admin.list_offsets(end, isolation="read_uncommitted"))[ORDERS[0]].offset == 1
    assert (await admin.list_offsets(end, isolation="read_committed"))[ORDERS[0]].offset == 0
    await producer.abort()
    await producer.close()


@pytest.mark.parametrize("isolation", ["committed", 1, Isolation.READ_COMMITTED, None])
async def test_isolation_that_is_none_is_refused(isolation: object, runtime):
    refused = await outcome(AsyncAdmin(runtime).list_offsets({ORDERS[0]: -1}, isolation))
    assert isinstance(refused, InvalidConfig)
    assert "has to be one of 'read_committed', 'read_uncommitted'" in refused.message


async def test_groups_are_listed_described_moved_and_deleted(runtime):
    producer = a_producer(runtime)
    for _ in range(5):
        await producer.send_and_wait("orders", b"x", partition=0)
    admin = AsyncAdmin(runtime)
    await admin.alter_group_offsets("readers", {ORDERS[0]: 2, ORDERS[1]: 0})
    await admin.alter_group_offsets("others", {ORDERS[0]: 1})
    assert await admin.list_groups() == ["others", "readers"]
    first, second = await admin.describe_group("readers")
    assert (first.partition, first.offset, first.log_end_offset, first.lag) == (ORDERS[0], 2, 5, 3)
    assert second.lag == 0
    await admin.delete_group_offsets("readers", ORDERS[1])
    assert len(await admin.describe_group("readers")) == 1
    await admin.delete_group("others")
    assert await admin.list_groups() == ["readers"]
    assert isinstance(await outcome(admin.delete_group("others")), GroupNotFound)
    await producer.close()


async def test_transactions_are_listed_and_described(runtime):
    producer = await a_transactional(runtime)
    await a_transactional(runtime, "idle")
    producer.begin()
    await (await producer.send("orders", b"open", partition=1))
    admin = AsyncAdmin(runtime)
    assert [found.transactional_id for found in await admin.list_transactions()] == ["billing", "idle"]
    assert [found.transactional_id for found in await admin.list_transactions(states=["Ongoing"])] == ["billing"]
    described = await admin.describe_transaction("billing")
    assert (described.state, described.partitions) == ("Ongoing", (ORDERS[1],))
    assert isinstance(await outcome(admin.describe_transaction("nobody")), TransactionNotFound)
    await producer.close()


async def test_aborting_a_transaction_lets_readers_go_on_and_fences_its_producer(runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await (await producer.send("orders", b"open", partition=0))
    await (await (plain := a_producer(runtime)).send("orders", b"behind", partition=0))
    admin = AsyncAdmin(runtime)
    await admin.abort_transaction("billing")
    consumer = await a_consumer(runtime, ORDERS[0])
    assert await poll_values(consumer, 1) == [b"behind"]
    assert isinstance(await outcome(producer.commit()), ProducerFenced)
    assert isinstance(await outcome(admin.abort_transaction("nobody")), TransactionNotFound)
    for client in (producer, plain, consumer):
        await client.close()


async def leave_hanging(world, runtime, monkeypatch) -> None:
    """Open a transaction in a partition behind its coordinator's back, as only a broken cluster does."""
    identity = ProducerIdentity(424_242, 3)
    producer = await a_transactional(runtime, "broken")
    producer.begin()
    await (await producer.send("orders", b"known", partition=0))
    batch = build_batch(
        [NewRecord(b"hanging", timestamp=world.now_ms)],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=0,
        transactional=True,
    )
    leader = world.image.leader_of(ORDERS[0])
    (role,) = world.nodes[leader]._roles

    def verify(question):
        role.post(TransactionVerified(ORDERS[0], identity.producer_id, question.verification_id, ErrorCode.NONE))

    with monkeypatch.context() as patched:
        patched.setattr(role._verifier, "verify", verify)
        await world.peers.call(leader, Produce, ORDERS[0], batch, -1, "unknown", 1)
    await settled(1000)
    await producer.commit()
    await producer.close()


async def test_a_hanging_transaction_is_found_and_ended(world, runtime, monkeypatch):
    await leave_hanging(world, runtime, monkeypatch)
    open_one = await a_transactional(runtime, "healthy")
    open_one.begin()
    await (await open_one.send("orders", b"healthy", partition=1))
    await settled(1000)
    admin = AsyncAdmin(runtime)
    assert await admin.find_hanging(older_than_ms=60_000) == []
    (hanging,) = await admin.find_hanging(older_than_ms=500)
    assert (hanging.partition, hanging.producer.producer_id) == (ORDERS[0], 424_242)
    consumer = await a_consumer(runtime, ORDERS[0])
    assert b"hanging" not in await poll_values(consumer, 1)
    await admin.abort_hanging(hanging)
    assert await admin.find_hanging(older_than_ms=500) == []
    described = await admin.describe_topic("orders")
    assert described.partitions[0].undecided == 0
    await open_one.close()
    await consumer.close()


async def test_questions_wait_for_a_coordinator_that_restarts(world, runtime):
    producer = await a_transactional(runtime)
    world.kill(COORDINATOR)
    world.loop.call_later(1, world.start, COORDINATOR)
    found = await asyncio.wait_for(AsyncAdmin(runtime).list_transactions(), 5)
    assert [transaction.transactional_id for transaction in found] == ["billing"]
    await producer.close()


async def test_controllers_word_about_a_topic_reaches_the_application(runtime):
    admin = AsyncAdmin(runtime)
    with pytest.raises(TopicRefused, match=r"not/legal.*nothing was changed"):
        await admin.create_topic("not/legal", partitions=1)
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        await admin.create_topic("legal", partitions=1, configs={"retention.ms": "long"})


async def test_oldest_open_transaction_of_each_partition_holds_readers_back(world, runtime):
    admin = AsyncAdmin(runtime)
    assert await admin.blocking() == []
    first, second = await a_transactional(runtime, "first"), await a_transactional(runtime, "second")
    for producer, partitions in ((first, (0,)), (second, (0, 1))):
        producer.begin()
        for partition in partitions:
            await (await producer.send("orders", b"open", partition=partition))
    found = await admin.blocking("orders")
    assert [(each.transactional_id, each.partition) for each in found] == [("first", ORDERS[0]), ("second", ORDERS[1])]
    assert [(each.open_since_offset, each.records_waiting) for each in found] == [(0, 2), (0, 1)]
    assert found[0].ends_by_ms == found[0].start_ms + found[0].timeout_ms
    assert found[0].origin.client_id == runtime.origin.client_id
    await first.commit()
    await settled(1000)
    assert [each.transactional_id for each in await admin.blocking(ORDERS[0])] == ["second"]
    await second.abort()
    await settled(1000)
    assert await admin.blocking() == []
    await first.close()
    await second.close()


async def test_hanging_transaction_never_ends_by_itself(world, runtime, monkeypatch):
    await leave_hanging(world, runtime, monkeypatch)
    (found,) = await AsyncAdmin(runtime).blocking("orders")
    assert (found.transactional_id, found.state, found.ends_by_ms) == (None, "hanging", -1)
    assert found.end_with == "eagleray txn abort-hanging orders 0 424242"


async def test_transaction_that_ends_while_its_coordinator_is_asked_is_not_taken_for_a_hanging_one(world, runtime):
    producer = await a_transactional(runtime, "quick")
    producer.begin()
    await (await producer.send("orders", b"open", partition=0))
    admin = AsyncAdmin(runtime)
    list_transactions = admin.list_transactions

    async def list_after_the_end(**filters):
        await producer.commit()
        await settled(1000)
        return await list_transactions(**filters)

    admin.list_transactions = list_after_the_end
    assert await admin.blocking("orders") == []
    await producer.close()
