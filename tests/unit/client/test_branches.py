"""Transactions with many writers: exactly what the driver names is committed, once for each tag."""

import asyncio
import pickle
import re

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.events import BeginBranched, EndBranched, OpenBranch
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import (
    ClientClosed,
    DeliveryTimeout,
    FatalError,
    InvalidArgument,
    InvalidTransactionState,
    NotEnded,
    RefusedError,
    TopicNotFound,
)
from eagleray.client.producer.coordinator_call import ask_to_begin
from eagleray.protocol.errors import ErrorCode
from tests.support.client_helpers import INVOICES, ORDERS, outcome, settled
from tests.support.cluster_in_memory import COORDINATOR
from tests.support.lanes_in_memory import Fate


async def attempt(cluster: AsyncCluster, token, *values: bytes, partition: int = 0):
    async with await cluster.join(pickle.loads(pickle.dumps(token))) as writer:
        for value in values:
            await writer.send("orders", value, partition=partition)
        return pickle.loads(pickle.dumps(await writer.seal()))


async def write_and_fail(cluster: AsyncCluster) -> None:
    async with await cluster.begin("job-7", tag="batch-12") as transaction:
        await attempt(cluster, transaction.branch(), b"gone")
        raise ZeroDivisionError


async def test_the_branches_that_the_driver_names_are_committed_and_no_others(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    assert not transaction.already_committed
    tokens = [transaction.branch() for _ in range(3)]
    sealed = [await attempt(cluster, token, str(number).encode()) for number, token in enumerate(tokens)]
    await transaction.commit([sealed[0], sealed[2]])
    await settled()
    assert world.committed("orders") == [b"0", b"2"]


async def test_of_two_attempts_at_a_branch_the_first_that_is_given_wins(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    token = transaction.branch()
    first = await attempt(cluster, token, b"first")
    second = await attempt(cluster, token, b"second", partition=1)
    assert first.branch == second.branch
    assert first.producer != second.producer
    await transaction.commit([second, first])
    await settled()
    assert world.committed("orders") == [b"second"]


async def test_a_tag_that_was_committed_is_not_done_again(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    await transaction.commit([await attempt(cluster, transaction.branch(), b"one")])
    again = await cluster.begin("job-7", tag="batch-12")
    assert again.already_committed
    await again.commit([])
    following = await cluster.begin("job-7", tag="batch-13")
    assert not following.already_committed
    await following.commit([await attempt(cluster, following.branch(), b"two")])
    await settled()
    assert world.committed("orders") == [b"one", b"two"]


@pytest.mark.parametrize("kind", [BeginBranched, OpenBranch, EndBranched])
@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
async def test_branches_hold_when_requests_and_answers_are_lost(kind: type, fate: Fate, world, runtime):
    cluster = AsyncCluster(runtime)
    world.network.plan(kind, fate)
    transaction = await cluster.begin("job-7", tag="batch-12")
    sealed = [await attempt(cluster, transaction.branch(), str(number).encode()) for number in range(3)]
    await transaction.commit(sealed)
    await settled()
    assert world.committed("orders") == [b"0", b"1", b"2"]
    assert (await cluster.begin("job-7", tag="batch-12")).already_committed


async def test_a_commit_survives_the_restart_of_the_coordinator(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    sealed = await attempt(cluster, transaction.branch(), b"one")
    world.kill(COORDINATOR)
    world.loop.call_later(1, world.start, COORDINATOR)
    await transaction.commit([sealed])
    await settled()
    assert world.committed("orders") == [b"one"]


async def test_offsets_are_committed_with_the_branches(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    sealed = await attempt(cluster, transaction.branch(), b"one")
    await transaction.commit([sealed], offsets={INVOICES[0]: 9}, group="job")
    await settled()
    (found,) = await cluster.admin.describe_group("job")
    assert (found.partition, found.offset) == (INVOICES[0], 9)
    assert world.committed("orders") == [b"one"]


@pytest.mark.parametrize(("offsets", "group"), [({INVOICES[0]: 7}, 7), ([1], "job"), ({INVOICES[0]: "7"}, "job")])
async def test_offsets_of_a_wrong_type_keep_the_branches_from_being_committed(offsets, group, world, runtime):
    cluster = AsyncCluster(runtime)
    async with await cluster.begin("job-7", tag="batch-12") as transaction:
        sealed = await attempt(cluster, transaction.branch(), b"gone")
        committing = transaction.commit([sealed], offsets=offsets, group=group)
        assert isinstance(await outcome(committing), InvalidArgument)
        await transaction.abort()
    assert [request.commit for request in world.asked(EndBranched)] == [False]


async def test_aborting_ends_every_branch(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    await attempt(cluster, transaction.branch(), b"gone")
    await transaction.abort()
    await transaction.abort()
    assert isinstance(await outcome(transaction.commit()), InvalidTransactionState)
    await settled()
    assert world.committed("orders") == []
    described = await cluster.admin.describe_topic("orders")
    assert described.partitions[0].undecided == 0


async def leave_block(cluster: AsyncCluster, tag: str = "batch-12") -> None:
    async with await cluster.begin("job-7", tag=tag) as transaction:
        if not transaction.already_committed:
            await attempt(cluster, transaction.branch(), b"gone")


async def test_block_without_commit_or_abort_aborts_and_says_what_to_call(world, runtime):
    cluster = AsyncCluster(runtime)
    with pytest.raises(NotEnded, match=r"'batch-12'.*commit\(\).*abort\(\)"):
        await leave_block(cluster)
    assert [request.commit for request in world.asked(EndBranched)] == [False]
    await settled()
    assert world.committed("orders") == []


async def test_block_of_a_tag_that_was_committed_passes(runtime):
    cluster = AsyncCluster(runtime)
    await (await cluster.begin("job-7", tag="batch-12")).commit()
    await leave_block(cluster)


async def test_the_context_aborts_where_its_block_raises(world, runtime):
    cluster = AsyncCluster(runtime)
    with pytest.raises(ZeroDivisionError):
        await write_and_fail(cluster)
    assert [request.commit for request in world.asked(EndBranched)] == [False]
    assert not (await cluster.begin("job-7", tag="batch-12")).already_committed


async def test_a_newer_driver_fences_the_older_and_its_workers(world, runtime):
    cluster = AsyncCluster(runtime)
    old = await cluster.begin("job-7", tag="batch-12")
    token = old.branch()
    sealed = await attempt(cluster, token, b"old")
    new = await cluster.begin("job-7", tag="batch-12")
    assert isinstance(await outcome(old.commit([sealed])), FatalError)
    assert isinstance(await outcome(cluster.join(token)), FatalError)
    await new.commit([await attempt(cluster, new.branch(), b"new")])
    await settled()
    assert world.committed("orders") == [b"new"]


async def test_an_attempt_with_a_record_that_failed_cannot_be_sealed(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    writer = await cluster.join(transaction.branch(), delivery_timeout_ms=500)
    await writer.send("orders", b"lost", partition=0)
    assert isinstance(await outcome(writer.seal()), DeliveryTimeout)
    assert isinstance(await outcome(writer.seal()), DeliveryTimeout)
    assert isinstance(await outcome(writer.send("orders", b"more")), DeliveryTimeout)
    world.start(leader)
    await writer.close()
    await transaction.abort()


async def test_nothing_can_be_sent_into_a_sealed_branch(runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    writer = await transaction.branch().open(cluster)
    first = await writer.seal()
    assert isinstance(await outcome(writer.send("orders", b"late")), InvalidTransactionState)
    assert await writer.seal() == first
    await writer.close()
    await transaction.commit([first])


async def test_branch_that_is_being_sealed_takes_no_more_records(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    writer = await cluster.join(transaction.branch())
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    await writer.send("orders", b"one", partition=0)
    sealing = asyncio.ensure_future(writer.seal())
    await asyncio.sleep(0)
    assert isinstance(await outcome(writer.send("orders", b"late", partition=0)), InvalidTransactionState)
    world.start(leader)
    sealed = await sealing
    assert writer.sender.unresolved == 0
    await writer.close()
    await transaction.commit([sealed])
    await settled()
    assert world.committed("orders") == [b"one"]


async def test_record_that_fails_while_its_branch_is_being_sealed_fails_every_seal(runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    writer = await cluster.join(transaction.branch(), max_block_ms=500)
    await writer.send("nothing", b"lost")
    seals = [outcome(writer.seal()), outcome(writer.seal())]
    assert [type(error) for error in await asyncio.gather(*seals)] == [TopicNotFound, TopicNotFound]
    assert isinstance(await outcome(writer.seal()), TopicNotFound)
    assert isinstance(await outcome(writer.send("orders", b"more")), TopicNotFound)
    await writer.close()
    await transaction.abort()


async def test_seal_that_was_given_up_may_be_called_again(world, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    writer = await cluster.join(transaction.branch())
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    await writer.send("orders", b"one", partition=0)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(writer.seal(), 1)
    assert isinstance(await outcome(writer.send("orders", b"late", partition=0)), InvalidTransactionState)
    world.start(leader)
    await transaction.commit([await writer.seal()])
    await writer.close()
    await settled()
    assert world.committed("orders") == [b"one"]


async def test_branch_writer_that_is_closed_cannot_be_sealed(runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    writer = await cluster.join(transaction.branch())
    await writer.send("orders", b"gone", partition=0)
    await writer.close()
    assert isinstance(await outcome(writer.seal()), ClientClosed)
    await transaction.abort()


async def test_branches_and_offsets_of_another_transaction_are_refused(runtime):
    cluster = AsyncCluster(runtime)
    one = await cluster.begin("job-7", tag="a")
    other = await cluster.begin("job-8", tag="a")
    sealed = await attempt(cluster, other.branch(), b"x")
    assert isinstance(await outcome(one.commit([sealed])), RefusedError)
    assert isinstance(await outcome(one.commit([], offsets={TopicPartition("orders", 0): 1})), RefusedError)
    token = one.branch()
    stray = type(token)("elsewhere", token.transactional_id, token.owner, token.branch)
    assert isinstance(await outcome(cluster.join(stray)), RefusedError)
    await one.abort()
    await other.abort()


# What is refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("", "t", 60_000), "the transactional id is ''"),
        (("checkout.__slot-3", "t", 60_000), "expected a name without '.__slot-' and a number at its end"),
        (("ü" * 16_384, "t", 60_000), "expected a text of at most 32767 bytes in UTF-8; it has 32768"),
        (("job-7", "", 60_000), "the tag is ''"),
        (("job-7", "t", 0), "timeout_ms is 0"),
        (("job-7", "t", True), "timeout_ms is True"),
    ],
    ids=["no id", "slot", "too long", "no tag", "no time", "bool"],
)
async def test_beginning_with_a_wrong_argument_says_which(arguments, said, runtime):
    transactional_id, tag, timeout_ms = arguments
    for opens_branch in (False, True):
        with pytest.raises(InvalidArgument, match=re.escape(said)):
            await ask_to_begin(
                runtime, transactional_id, tag, timeout_ms, shared=opens_branch, opens_branch=opens_branch
            )


async def test_timeout_beyond_that_of_the_cluster_is_refused_by_its_setting(runtime):
    with pytest.raises(RefusedError, match=r"timeout_ms is above transaction\.max\.timeout\.ms"):
        await AsyncCluster(runtime).begin("job-7", tag="t", timeout_ms=2**31 - 1)


async def test_name_of_a_pool_is_refused_with_what_to_do(world, runtime):
    cluster = AsyncCluster(runtime)
    async with cluster.transactions("checkout") as pool:
        async with pool.begin() as txn:
            await txn.send("orders", b"of the pool")
        for beginning in (
            cluster.begin("checkout", tag="batch-12"),
            cluster.take_part("checkout", tag="batch-12", branch=0),
        ):
            with pytest.raises(RefusedError, match="that of a pool of transactions") as raised:
                await beginning
            assert raised.value.error_code is ErrorCode.INVALID_REQUEST
            assert "Choose another transactional id" in str(raised.value)
        async with pool.begin() as txn:
            await txn.send("orders", b"goes on")
    await settled()
    assert sorted(world.committed("orders")) == [b"goes on", b"of the pool"]
