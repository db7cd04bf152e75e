"""Consumers in a group whose network is not to be trusted, in virtual time."""

import asyncio

import pytest

from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat
from eagleray.broker.groups.events import CommitOffsets
from eagleray.broker.identities import TopicPartition
from eagleray.client.cluster import AsyncCluster
from eagleray.client.consumer.group_member import _error_of
from eagleray.client.consumer.membership import MemberState
from eagleray.client.errors import CommitFailed, FatalError, GroupNotFound, InvalidArgument, InvalidConfig, RefusedError
from eagleray.protocol.errors import ErrorCode
from tests.support.client_helpers import ORDERS, a_consumer, a_producer, outcome, settled
from tests.support.cluster_in_memory import GROUPS
from tests.support.lanes_in_memory import Fate


async def poll_until(is_done, *consumers):
    for _ in range(1000):
        if is_done():
            return
        for consumer in consumers:
            await consumer.poll(50)
    raise AssertionError("it does not come to that")


async def test_commit_with_an_epoch_of_the_past_is_repeated_with_the_new_one(world, runtime):
    cluster = AsyncCluster(runtime)
    revoked = []

    def on_revoked(partitions):
        revoked.extend(partitions)
        # The member gives the partitions up, and does not hear that its epoch has moved on by that.
        world.network.plan(ConsumerHeartbeat, Fate.REPLY_LOST)

    first = cluster.consumer(group="readers")
    await first.subscribe("orders", on_revoked=on_revoked)
    await poll_until(lambda: first.assignment() == {*ORDERS}, first)
    second = cluster.consumer("orders", group="readers")
    await second.__aenter__()
    await poll_until(lambda: revoked, first)
    epoch = first.group_metadata().generation
    await first.commit({revoked[0]: 5})
    assert [commit.generation - epoch for commit in world.asked(CommitOffsets)] == [0, 1]
    assert (await first.committed(revoked[0]))[revoked[0]].offset == 5
    await second.close()
    await first.close()


async def test_commit_of_a_member_that_was_lost_is_not_repeated(world, runtime):
    cluster = AsyncCluster(runtime)
    async with cluster.consumer("orders", group="readers") as consumer:
        member_id = consumer.group_metadata().member_id
        heard = asyncio.get_running_loop().create_future()
        coordinator = runtime.view.group_coordinator("readers")
        runtime.ask(coordinator, heard.set_result, ConsumerHeartbeat, "readers", member_id, -1)
        await heard
        error = await outcome(consumer.commit({ORDERS[0]: 1}))
        assert isinstance(error, CommitFailed)
        assert len(world.asked(CommitOffsets)) == 1


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
async def test_heartbeats_that_are_lost_or_come_twice_cost_no_partition(fate, world, runtime):
    world.network.plan(ConsumerHeartbeat, fate, times=6)
    cluster = AsyncCluster(runtime)
    lost = []
    consumer = cluster.consumer(group="readers")
    await consumer.subscribe("orders", on_lost=lost.extend, on_revoked=lost.extend)
    await poll_until(lambda: consumer.assignment() == {*ORDERS}, consumer)
    await consumer.poll(20_000)
    assert (lost, consumer.assignment()) == ([], {*ORDERS})
    await consumer.close()


async def test_member_outlives_its_coordinator(world, runtime):
    async with AsyncCluster(runtime).consumer("orders", group="readers") as consumer:
        before = consumer.group_metadata()
        world.kill(GROUPS)
        await consumer.poll(10_000)
        world.start(GROUPS)
        await consumer.poll(10_000)
        await consumer.commit({ORDERS[0]: 1})
        assert (consumer.group_metadata(), consumer.assignment()) == (before, {*ORDERS})


async def test_close_does_not_wait_long_for_a_coordinator_that_is_gone(world, runtime):
    consumer = AsyncCluster(runtime).consumer("orders", group="readers")
    await consumer.__aenter__()
    world.kill(GROUPS)
    before_s = world.seconds
    await consumer.close()
    assert world.seconds - before_s < 10
    world.start(GROUPS)


async def test_error_in_a_callback_reaches_the_application_and_the_change_counts(runtime):
    consumer = AsyncCluster(runtime).consumer(group="readers")

    def fail(_):
        raise ZeroDivisionError

    await consumer.subscribe("orders", on_assigned=fail)
    with pytest.raises(ZeroDivisionError):
        await consumer.poll(1000)
    await consumer.poll(100)
    assert consumer.assignment() == {*ORDERS}
    assert consumer._group._member.membership.state is MemberState.STABLE
    await consumer.close()


async def test_records_that_were_fetched_of_a_revoked_partition_are_not_returned(runtime):
    cluster = AsyncCluster(runtime)
    first, second = (cluster.consumer("orders", group="readers", max_poll_records=1) for _ in range(2))
    await first.__aenter__()
    producer = a_producer(runtime)
    for number in range(60):
        await producer.send("orders", b"%d" % number, partition=number % 3)
    await producer.flush()
    assert len(await first.poll(1000)) == 1
    await second.__aenter__()
    await settled(6000)
    while first.assignment() == {*ORDERS}:
        await first.poll(100)
    theirs = {*ORDERS} - first.assignment()
    read = [record.topic_partition for _ in range(50) for record in await first.poll(10)]
    assert read
    assert theirs.isdisjoint(read)
    for client in (first, second, producer):
        await client.close()


async def test_pattern_and_callbacks_need_a_group(runtime):
    consumer = await a_consumer(runtime, TopicPartition("orders", 0))
    assert isinstance(await outcome(consumer.subscribe(pattern="o.*")), InvalidConfig)
    assert isinstance(await outcome(consumer.subscribe("orders", on_lost=print)), InvalidConfig)
    await consumer.close()


def test_error_of_a_group_with_classic_members_says_so():
    error = _error_of("readers", ErrorCode.GROUP_ID_NOT_FOUND, "there is no consumer group readers")
    assert isinstance(error, RefusedError)
    assert not isinstance(error, GroupNotFound)
    assert "classic" in str(error)


@pytest.mark.parametrize("group", [None, "readers"])
@pytest.mark.parametrize("topic", [5, b"orders", "", "a b", "\udcff"])
async def test_subscription_to_what_no_topic_can_be_named_is_refused(group, topic, world, runtime):
    consumer = AsyncCluster(runtime).consumer(group=group)
    assert isinstance(await outcome(consumer.subscribe("orders", topic)), InvalidArgument)
    assert world.asked(ConsumerHeartbeat) == []
    await consumer.close()


@pytest.mark.parametrize("pattern", [5, "", "\udcff"])
async def test_pattern_that_is_no_text_is_refused(pattern, runtime):
    consumer = AsyncCluster(runtime).consumer(group="readers")
    assert isinstance(await outcome(consumer.subscribe(pattern=pattern)), InvalidArgument)
    await consumer.close()


async def test_heartbeat_that_cannot_be_carried_ends_the_membership(runtime):
    consumer = AsyncCluster(runtime).consumer(group="readers")
    await consumer.subscribe("orders")
    member = consumer._group._member
    number = member.membership._number
    member._on_reply(number, Malformed(1, "ConsumerHeartbeat cannot be encoded: it is wrong"))
    error = await outcome(consumer.poll(1000))
    assert isinstance(error, RefusedError | FatalError)
    assert "cannot be encoded" in str(error)
    await consumer.close()
