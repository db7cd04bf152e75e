"""Transactions with many writers: exactly what the driver names is committed, once for each tag."""

import asyncio
import pickle

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
from tests.support.client_helpers import INVOICES, ORDERS, outcome, settled
from tests.support.client_world import COORDINATOR, Fate, in_world


async def attempt(cluster: AsyncCluster, token, *values: bytes, partition: int = 0):
    async with await cluster.join(pickle.loads(pickle.dumps(token))) as writer:
        for value in values:
            await writer.send("orders", value, partition=partition)
        return pickle.loads(pickle.dumps(await writer.seal()))


async def write_and_fail(cluster: AsyncCluster) -> None:
    async with await cluster.begin("job-7", tag="batch-12") as transaction:
        await attempt(cluster, transaction.branch(), b"gone")
        raise ZeroDivisionError


def test_the_branches_that_the_driver_names_are_committed_and_no_others():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        transaction = await cluster.begin("job-7", tag="batch-12")
        assert not transaction.already_committed
        tokens = [transaction.branch() for _ in range(3)]
        sealed = [await attempt(cluster, token, str(number).encode()) for number, token in enumerate(tokens)]
        await transaction.commit([sealed[0], sealed[2]])
        await settled()
        assert world.committed("orders") == [b"0", b"2"]

    in_world(main)


def test_of_two_attempts_at_a_branch_the_first_that_is_given_wins():
    async def main(world, runtime):
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

    in_world(main)


def test_a_tag_that_was_committed_is_not_done_again():
    async def main(world, runtime):
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

    in_world(main)


@pytest.mark.parametrize("kind", [BeginBranched, OpenBranch, EndBranched])
@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
def test_branches_hold_when_requests_and_answers_are_lost(kind: type, fate: Fate):
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        world.network.plan(kind, fate)
        transaction = await cluster.begin("job-7", tag="batch-12")
        sealed = [await attempt(cluster, transaction.branch(), str(number).encode()) for number in range(3)]
        await transaction.commit(sealed)
        await settled()
        assert world.committed("orders") == [b"0", b"1", b"2"]
        assert (await cluster.begin("job-7", tag="batch-12")).already_committed

    in_world(main)


def test_a_commit_survives_the_restart_of_the_coordinator():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        transaction = await cluster.begin("job-7", tag="batch-12")
        sealed = await attempt(cluster, transaction.branch(), b"one")
        world.kill(COORDINATOR)
        world.loop.call_later(1, world.start, COORDINATOR)
        await transaction.commit([sealed])
        await settled()
        assert world.committed("orders") == [b"one"]

    in_world(main)


def test_offsets_are_committed_with_the_branches():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        transaction = await cluster.begin("job-7", tag="batch-12")
        sealed = await attempt(cluster, transaction.branch(), b"one")
        await transaction.commit([sealed], offsets={INVOICES[0]: 9}, group="job")
        await settled()
        (found,) = await cluster.admin.describe_group("job")
        assert (found.partition, found.offset) == (INVOICES[0], 9)
        assert world.committed("orders") == [b"one"]

    in_world(main)


@pytest.mark.parametrize(("offsets", "group"), [({INVOICES[0]: 7}, 7), ([1], "job"), ({INVOICES[0]: "7"}, "job")])
def test_offsets_of_a_wrong_type_keep_the_branches_from_being_committed(offsets, group):
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        async with await cluster.begin("job-7", tag="batch-12") as transaction:
            sealed = await attempt(cluster, transaction.branch(), b"gone")
            committing = transaction.commit([sealed], offsets=offsets, group=group)
            assert isinstance(await outcome(committing), InvalidArgument)
            await transaction.abort()
        assert [request.commit for request in world.asked(EndBranched)] == [False]

    in_world(main)


def test_aborting_ends_every_branch():
    async def main(world, runtime):
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

    in_world(main)


async def leave_block(cluster: AsyncCluster, tag: str = "batch-12") -> None:
    async with await cluster.begin("job-7", tag=tag) as transaction:
        if not transaction.already_committed:
            await attempt(cluster, transaction.branch(), b"gone")


def test_block_without_commit_or_abort_aborts_and_says_what_to_call():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        with pytest.raises(NotEnded, match=r"'batch-12'.*commit\(\).*abort\(\)"):
            await leave_block(cluster)
        assert [request.commit for request in world.asked(EndBranched)] == [False]
        await settled()
        assert world.committed("orders") == []

    in_world(main)


def test_block_of_a_tag_that_was_committed_passes():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        await (await cluster.begin("job-7", tag="batch-12")).commit()
        await leave_block(cluster)

    in_world(main)


def test_the_context_aborts_where_its_block_raises():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        with pytest.raises(ZeroDivisionError):
            await write_and_fail(cluster)
        assert [request.commit for request in world.asked(EndBranched)] == [False]
        assert not (await cluster.begin("job-7", tag="batch-12")).already_committed

    in_world(main)


def test_a_newer_driver_fences_the_older_and_its_workers():
    async def main(world, runtime):
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

    in_world(main)


def test_an_attempt_with_a_record_that_failed_cannot_be_sealed():
    async def main(world, runtime):
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

    in_world(main)


def test_nothing_can_be_sent_into_a_sealed_branch():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        transaction = await cluster.begin("job-7", tag="batch-12")
        writer = await transaction.branch().open(cluster)
        first = await writer.seal()
        assert isinstance(await outcome(writer.send("orders", b"late")), InvalidTransactionState)
        assert await writer.seal() == first
        await writer.close()
        await transaction.commit([first])

    in_world(main)


def test_branch_that_is_being_sealed_takes_no_more_records():
    async def main(world, runtime):
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

    in_world(main)


def test_record_that_fails_while_its_branch_is_being_sealed_fails_every_seal():
    async def main(world, runtime):
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

    in_world(main)


def test_seal_that_was_given_up_may_be_called_again():
    async def main(world, runtime):
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

    in_world(main)


def test_branch_writer_that_is_closed_cannot_be_sealed():
    async def main(world, runtime):
        cluster = AsyncCluster(runtime)
        transaction = await cluster.begin("job-7", tag="batch-12")
        writer = await cluster.join(transaction.branch())
        await writer.send("orders", b"gone", partition=0)
        await writer.close()
        assert isinstance(await outcome(writer.seal()), ClientClosed)
        await transaction.abort()

    in_world(main)


def test_what_does_not_belong_together_is_refused():
    async def main(world, runtime):
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

    in_world(main)
