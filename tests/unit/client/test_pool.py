"""Pools of transactions: open side by side under one name, from one object."""

import asyncio

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.events import EndTransaction, InitProducerId, PrepareTransaction, TakePoolOver
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import (
    ClientClosed,
    CompletedOtherwise,
    InvalidArgument,
    InvalidConfig,
    InvalidTransactionState,
    MessageTooLarge,
    NotCompleted,
    OffsetsInUse,
    PoolBusy,
    PoolFenced,
    ProducerFenced,
    RefusedError,
    TransactionAborted,
    TransactionTimedOut,
)
from eagleray.client.lookups import fetch_offsets
from eagleray.client.producer.pool import AsyncTransactionPool
from eagleray.client.producer.resolver import Resolver
from eagleray.client.retry_policy import RetryPolicy
from tests.support.client_helpers import ORDERS, a_transactional, outcome, settled
from tests.support.lanes_in_memory import Fate

LOSSES = [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED]


@pytest.fixture
def cluster(runtime):
    return AsyncCluster(runtime)


async def a_pool(cluster: AsyncCluster, name: str = "checkout", **options) -> AsyncTransactionPool:
    pool = cluster.transactions(name, **options)
    await pool.take_over()
    return pool


async def begun(pool: AsyncTransactionPool, *values: bytes):
    txn = await pool.begin().__aenter__()
    for value in values:
        await txn.send("orders", value, partition=0)
    return txn


async def in_a_block(
    pool: AsyncTransactionPool, value: bytes, *, raises: type[Exception] | None = None, prepares=False
):
    async with pool.begin() as txn:
        await (await txn.send("orders", value, partition=0))
        if prepares:
            await txn.prepare()
        if raises is not None:
            raise raises


# Blocks


async def test_transactions_are_open_side_by_side_and_decide_on_their_own(world, cluster):
    async with cluster.transactions("checkout", concurrency=3) as pool:
        first, second, third = [await begun(pool, value) for value in (b"one", b"two", b"three")]
        await third.commit()
        await second.abort()
        await settled()
        assert world.committed("orders") == []
        await first.commit()
        await settled()
    assert world.committed("orders") == [b"one", b"three"]


async def test_end_of_a_block_commits_and_an_exception_aborts(world, cluster):
    async with cluster.transactions("checkout") as pool:
        await in_a_block(pool, b"kept")
        with pytest.raises(ZeroDivisionError):
            await in_a_block(pool, b"gone", raises=ZeroDivisionError)
        await in_a_block(pool, b"kept too")
    await settled()
    assert world.committed("orders") == [b"kept", b"kept too"]


async def test_exception_after_prepare_leaves_it_prepared_for_its_token(world, cluster):
    async with cluster.transactions("checkout", concurrency=1) as pool:
        with pytest.raises(ZeroDivisionError):
            await in_a_block(pool, b"prepared", prepares=True, raises=ZeroDivisionError)
        await in_a_block(pool, b"next")
    async with cluster.transactions("checkout") as pool:
        [left] = pool.recovered
        await cluster.complete(left, commit=True)
    await settled()
    assert world.committed("orders") == [b"prepared", b"next"]


async def test_block_may_end_its_transaction_itself(world, cluster):
    async with cluster.transactions("checkout", concurrency=1) as pool, pool.begin() as txn:
        await txn.send("orders", b"kept", partition=0)
        await txn.commit()
        with pytest.raises(InvalidTransactionState, match="was committed"):
            await txn.send("orders", b"late", partition=0)
        async with pool.begin() as other:
            await other.send("orders", b"gone", partition=0)
            await other.abort()
    await settled()
    assert world.committed("orders") == [b"kept"]


async def test_prepared_transaction_is_committed_at_the_end_of_its_block(world, cluster):
    async with cluster.transactions("checkout") as pool:
        await in_a_block(pool, b"one", prepares=True)
        async with pool.begin() as txn:
            await txn.send("orders", b"gone", partition=0)
            token = await txn.prepare(context=b"42")
            await txn.abort()
    await settled()
    assert world.committed("orders") == [b"one"]
    assert isinstance(await outcome(cluster.complete(token, commit=True)), CompletedOtherwise)


async def test_transaction_has_one_block(cluster):
    async with cluster.transactions("checkout") as pool:
        txn = pool.begin()
        with pytest.raises(InvalidTransactionState, match="enter its block first"):
            await txn.send("orders", b"early")
        async with txn:
            with pytest.raises(InvalidTransactionState, match="one block"):
                await txn.__aenter__()
        with pytest.raises(InvalidTransactionState, match="one block"):
            await txn.__aenter__()


async def test_failed_send_aborts_the_one_transaction(world, cluster):
    async with cluster.transactions("checkout", concurrency=2, max_request_size=100) as pool:
        other = await begun(pool, b"kept")
        failed = await begun(pool, b"gone")
        with pytest.raises(MessageTooLarge):
            await failed.send("orders", bytes(200), partition=0)
        with pytest.raises(MessageTooLarge):
            await failed.commit()
        await other.commit()
    await settled()
    assert world.committed("orders") == [b"kept"]


async def test_commit_of_a_block_whose_send_failed_raises_that(world, cluster):
    async with cluster.transactions("checkout", concurrency=1, max_request_size=100) as pool:

        async def swallow():
            async with pool.begin() as txn:
                await outcome(txn.send("orders", bytes(200), partition=0))

        assert "max.request.size" in str(await outcome(swallow()))
        await in_a_block(pool, b"kept")
    await settled()
    assert world.committed("orders") == [b"kept"]


# Room


async def test_slots_are_used_again(world, cluster):
    async with cluster.transactions("checkout", concurrency=2) as pool:
        for number in range(10):
            await in_a_block(pool, b"%d" % number)
    await settled()
    assert len(world.committed("orders")) == 10
    assert {request.transactional_id for request in world.asked(InitProducerId)} == {"checkout.__slot-0"}


async def test_entering_waits_for_a_slot(world, cluster):
    async with cluster.transactions("checkout", concurrency=1, max_block_ms=5000) as pool:
        txn = await begun(pool, b"one")
        waiting = asyncio.ensure_future(in_a_block(pool, b"two"))
        await settled(1000)
        assert not waiting.done()
        await txn.commit()
        await waiting
    await settled()
    assert world.committed("orders") == [b"one", b"two"]


@pytest.mark.parametrize("max_block_ms", [0, 500])
async def test_pool_is_busy_after_max_block_ms(world, cluster, max_block_ms):
    async with cluster.transactions("checkout", concurrency=2) as pool:
        pool.config = type(pool.config).make(max_block_ms=max_block_ms)
        open_ones = [await begun(pool, value) for value in (b"one", b"two")]
        with pytest.raises(PoolBusy, match="2 transactions"):
            await in_a_block(pool, b"three")
        await open_ones[0].commit()
        await in_a_block(pool, b"four")
        await open_ones[1].abort()
    await settled()
    assert world.committed("orders") == [b"one", b"four"]


async def test_program_that_gives_up_a_block_leaves_its_slot_to_the_next(world, cluster):
    async with cluster.transactions("checkout", concurrency=1) as pool:
        waiting = asyncio.ensure_future(asyncio.sleep(60))

        async def block():
            async with pool.begin() as txn:
                await txn.send("orders", b"gone", partition=0)
                await waiting

        task = asyncio.ensure_future(block())
        await settled(100)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await in_a_block(pool, b"kept")
    await settled()
    assert world.committed("orders") == [b"kept"]


async def test_commit_that_its_program_gives_up_comes_to_its_end(world, cluster):
    async with cluster.transactions("checkout", concurrency=1) as pool:
        world.network.plan(EndTransaction, Fate.REQUEST_LOST, times=2)
        task = asyncio.ensure_future(in_a_block(pool, b"one"))
        await settled(500)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await in_a_block(pool, b"two")
    await settled()
    assert world.committed("orders") == [b"one", b"two"]


# Takeovers


async def test_takeover_fences_every_slot_of_the_old_owner(world, cluster):
    old = await a_pool(cluster, concurrency=64)
    open_ones = [await begun(old, b"%d" % number) for number in range(64)]
    async with cluster.transactions("checkout", concurrency=2) as new:
        assert new.recovered == ()
        for txn in open_ones:
            with pytest.raises(PoolFenced, match="newer owner"):
                await txn.commit()
        with pytest.raises(PoolFenced):
            await in_a_block(old, b"late")
        await in_a_block(new, b"new")
    await settled()
    assert world.committed("orders") == [b"new"]
    await old.close()


async def test_slot_that_the_new_owner_does_not_use_is_fenced_too(world, cluster):
    old = await a_pool(cluster, concurrency=3)
    first, second, last = [await begun(old, value) for value in (b"a", b"b", b"c")]
    await a_pool(cluster, concurrency=1)
    with pytest.raises(PoolFenced):
        await last.prepare()
    for txn in (first, second):
        with pytest.raises(PoolFenced):
            await txn.send("orders", b"more", partition=0)
    await settled()
    assert world.committed("orders") == []
    await old.close()


async def test_what_is_left_prepared_is_recovered_and_the_rest_aborted(world, cluster):
    old = await a_pool(cluster)
    txn, open_one = await begun(old, b"prepared"), await begun(old, b"open")
    token = await txn.prepare(context=b"42")
    async with cluster.transactions("checkout", concurrency=2) as pool:
        assert pool.recovered == (token,)
        with pytest.raises(PoolFenced):
            await txn.commit()
        both = [await begun(pool, b"beside"), await begun(pool, b"it")]
        for each in both:
            await each.commit()
        assert (await cluster.admin.describe_transaction(token.transactional_id)).context == b"42"
        await cluster.complete(token, commit=True)
    with pytest.raises(PoolFenced):
        await open_one.commit()
    await settled()
    assert world.committed("orders") == [b"prepared", b"beside", b"it"]
    async with cluster.transactions("checkout") as pool:
        assert pool.recovered == ()


async def test_slot_of_what_was_completed_is_used_again(world, cluster):
    async with cluster.transactions("checkout", concurrency=1) as pool:
        for number in range(4):
            txn = await begun(pool, b"%d" % number)
            token = await txn.prepare()
            await txn.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
            if number:
                await cluster.complete(token, commit=True)
    await settled()
    # Readers wait behind the first one, which has kept its slot.
    assert world.committed("orders") == []
    slots = {request.transactional_id for request in world.asked(InitProducerId)}
    assert slots == {"checkout.__slot-0", "checkout.__slot-1"}


async def test_pool_that_has_lost_its_name_is_told_as_a_whole(world, cluster):
    old = await a_pool(cluster, concurrency=3, max_block_ms=60_000)
    open_ones = [await begun(old, b"x") for _ in range(3)]
    waiting = asyncio.ensure_future(outcome(in_a_block(old, b"late")))
    await settled(100)
    async with cluster.transactions("checkout"):
        with pytest.raises(PoolFenced):
            await open_ones[0].commit()
        for txn in open_ones[1:]:
            with pytest.raises(PoolFenced):
                await txn.send("orders", b"more", partition=0)
            assert await txn.__aexit__(PoolFenced, PoolFenced(), None) is None
        assert isinstance(await waiting, PoolFenced)
    await old.close()


async def test_producer_of_the_same_name_takes_it_over(world, cluster, runtime):
    old = await a_pool(cluster)
    txn = await begun(old, b"gone")
    producer = await a_transactional(runtime, "checkout")
    with pytest.raises(PoolFenced):
        await txn.commit()
    await producer.close()
    await old.close()
    await settled()
    assert world.committed("orders") == []


async def test_pool_does_not_abort_what_a_producer_has_prepared(world, cluster, runtime):
    producer = await a_transactional(runtime, "checkout", transaction_two_phase_commit_enable=True)
    producer.begin()
    await producer.send("orders", b"kept", partition=0)
    token = await producer.prepare()
    producer.abandon()
    with pytest.raises(NotCompleted, match="under this name"):
        await a_pool(cluster)
    await cluster.complete(token, commit=True)
    await (await a_pool(cluster)).close()
    await settled()
    assert world.committed("orders") == [b"kept"]


@pytest.mark.parametrize("fate", LOSSES)
@pytest.mark.parametrize("kind", [TakePoolOver, InitProducerId, EndTransaction, PrepareTransaction])
async def test_pool_goes_on_when_requests_and_answers_are_lost(kind, fate, world, cluster):
    world.network.plan(kind, fate)
    async with cluster.transactions("checkout", concurrency=2) as pool:
        txn = await begun(pool, b"one")
        await in_a_block(pool, b"two", prepares=True)
        await txn.commit()
    await settled()
    assert sorted(world.committed("orders")) == [b"one", b"two"]


# Ends of transactions by others


async def test_transaction_that_times_out_is_lost_alone(world, cluster):
    async with cluster.transactions("checkout", concurrency=2, transaction_timeout_ms=5000) as pool:
        txn = await begun(pool, b"late")
        await settled(10_000)
        with pytest.raises(TransactionTimedOut):
            await txn.commit()
        await in_a_block(pool, b"kept")
    await settled()
    assert world.committed("orders") == [b"kept"]


async def test_operator_ends_one_transaction_and_the_pool_goes_on(world, cluster):
    async with cluster.transactions("checkout", concurrency=2) as pool:
        ended, other = await begun(pool, b"gone"), await begun(pool, b"kept")
        await settled(100)
        await cluster.admin.abort_transaction("checkout.__slot-0")
        error = await outcome(ended.commit())
        assert isinstance(error, ProducerFenced | TransactionAborted)
        assert not isinstance(error, PoolFenced)
        await other.commit()
        await in_a_block(pool, b"kept too")
        await in_a_block(pool, b"and this")
    await settled()
    assert world.committed("orders") == [b"kept", b"kept too", b"and this"]


async def test_operator_ends_the_whole_pool_by_its_name(world, cluster):
    pool = await a_pool(cluster)
    txn = await begun(pool, b"gone")
    await settled(100)
    await cluster.admin.abort_transaction("checkout")
    with pytest.raises(PoolFenced):
        await txn.commit()
    await settled()
    assert world.committed("orders") == []
    await pool.close()


async def test_resolver_of_the_pool_goes_with_each_preparation(world, cluster, monkeypatch):
    async with cluster.transactions("checkout", resolver=Resolver.topic("questions")) as pool:
        assert isinstance(pool.resolver, ResolverName)
        await in_a_block(pool, b"one", prepares=True)
    [asked] = world.asked(PrepareTransaction)
    assert asked.resolver == pool.resolver


# Closing


async def test_close_aborts_what_is_open_and_leaves_what_is_prepared(world, cluster):
    pool = await a_pool(cluster)
    open_one, prepared_one = await begun(pool, b"gone"), await begun(pool, b"kept")
    token = await prepared_one.prepare()
    await pool.close()
    await pool.close()
    for txn in (open_one, prepared_one):
        with pytest.raises(ClientClosed, match="the pool 'checkout' was closed"):
            await txn.commit()
    with pytest.raises(ClientClosed, match="the pool 'checkout' was closed"):
        await in_a_block(pool, b"late")
    with pytest.raises(ClientClosed):
        await open_one.send("orders", b"late", partition=0)
    await cluster.complete(token, commit=True)
    await settled()
    assert world.committed("orders") == [b"kept"]


async def test_exception_in_the_block_of_the_pool_closes_it(world, cluster):
    async def block():
        async with cluster.transactions("checkout") as pool:
            await begun(pool, b"gone")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    await settled()
    assert world.committed("orders") == []


async def test_pool_is_entered_once_and_before_it_begins_anything(cluster):
    pool = cluster.transactions("checkout")
    with pytest.raises(InvalidTransactionState, match="enter it first"):
        await in_a_block(pool, b"early")
    async with pool:
        with pytest.raises(InvalidTransactionState, match="entered before"):
            await pool.take_over()


# Offsets


async def test_offsets_of_one_partition_in_two_open_transactions_are_refused(world, cluster, runtime):
    async with cluster.transactions("checkout") as pool:
        first, second = await begun(pool, b"one"), await begun(pool, b"two")
        await first.send_offsets({ORDERS[0]: 5}, "audit")
        await first.send_offsets({ORDERS[0]: 6}, "audit")
        await second.send_offsets({ORDERS[1]: 3}, "audit")
        await second.send_offsets({ORDERS[0]: 3}, "billing")
        with pytest.raises(OffsetsInUse, match="group 'audit' for orders-0"):
            await second.send_offsets({ORDERS[0]: 9}, "audit")
        with pytest.raises(OffsetsInUse):
            await second.commit()
        await first.commit()
        third = await begun(pool)
        await third.send_offsets({ORDERS[0]: 7}, "audit")
        await third.commit()
    found = await fetch_offsets(runtime, "audit", ORDERS[:2], retry_policy=RetryPolicy())
    assert {place: offset.offset for place, offset in found.items()} == {ORDERS[0]: 7}
    await settled()
    assert world.committed("orders") == [b"one"]


async def test_offsets_of_a_commit_that_its_program_gives_up_are_held_until_it_is_over(world, cluster, runtime):
    async with cluster.transactions("checkout") as pool:
        txn = await begun(pool)
        await txn.send_offsets({ORDERS[0]: 5}, "audit")
        world.network.plan(EndTransaction, Fate.REQUEST_LOST, times=2)
        task = asyncio.ensure_future(txn.__aexit__(None, None, None))
        await settled(100)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        refused = await begun(pool)
        with pytest.raises(OffsetsInUse, match="another open transaction"):
            await refused.send_offsets({ORDERS[0]: 6}, "audit")
        await refused.abort()
        await settled(60_000)
        async with pool.begin() as next_one:
            await next_one.send_offsets({ORDERS[0]: 6}, "audit")
    found = await fetch_offsets(runtime, "audit", ORDERS[:1], retry_policy=RetryPolicy())
    assert found[ORDERS[0]].offset == 6


async def test_offsets_of_what_is_left_prepared_are_refused_until_it_is_completed(cluster):
    async with cluster.transactions("checkout") as pool:
        txn = await begun(pool)
        await txn.send_offsets({ORDERS[0]: 5}, "audit")
        token = await txn.prepare()
        await txn.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
        for _ in range(2):
            refused = await begun(pool)
            with pytest.raises(OffsetsInUse, match="is prepared and has not ended"):
                await refused.send_offsets({ORDERS[0]: 6}, "audit")
            await refused.abort()
        await cluster.complete(token, commit=True)
        async with pool.begin() as next_one:
            await next_one.send_offsets({ORDERS[0]: 6}, "audit")


async def test_offsets_of_what_was_recovered_are_refused_until_it_is_completed(cluster):
    old = await a_pool(cluster)
    txn = await begun(old)
    await txn.send_offsets({ORDERS[0]: 5}, "audit")
    token = await txn.prepare()
    async with cluster.transactions("checkout") as pool:
        refused = await begun(pool)
        with pytest.raises(OffsetsInUse, match="is prepared and has not ended"):
            await refused.send_offsets({ORDERS[0]: 6}, "audit")
        await refused.abort()
        await cluster.complete(token, commit=False)
        async with pool.begin() as next_one:
            await next_one.send_offsets({ORDERS[0]: 6}, "audit")
    await old.close()


# What is refused


@pytest.mark.parametrize(
    "name",
    ["", "checkout.__slot-3", 7, None, "p" * 32_754, "ü" * 16_377],
    ids=["empty", "slot", "number", "none", "too many letters", "too many bytes"],
)
def test_name_that_no_pool_has(cluster, name):
    with pytest.raises(InvalidArgument, match="the name of the pool"):
        cluster.transactions(name)


@pytest.mark.parametrize("concurrency", [0, -1, 10_001, 1.5, True, "4"])
def test_concurrency_that_no_pool_has(cluster, concurrency):
    with pytest.raises(InvalidArgument, match="concurrency"):
        cluster.transactions("checkout", concurrency=concurrency)


def test_settings_that_no_pool_has(cluster):
    with pytest.raises(InvalidConfig, match="is not a setting of a pool"):
        cluster.transactions("checkout", transactional_id="x")
    with pytest.raises(InvalidConfig, match="is not a setting of a pool"):
        cluster.transactions("checkout", config={"transactional.id": "x"})
    with pytest.raises(InvalidConfig, match=r"enable\.idempotence"):
        cluster.transactions("checkout", enable_idempotence=False)


@pytest.mark.parametrize("transactional_id", ["t" * 32_768, "ü" * 16_384], ids=["letters", "bytes"])
def test_producer_does_not_have_a_name_that_the_log_has_no_room_for(cluster, transactional_id):
    with pytest.raises(InvalidConfig, match=r"transactional\.id has 32768 bytes in UTF-8; expected at most 32767"):
        cluster.producer(transactional_id=transactional_id)


def test_producer_does_not_have_the_name_of_a_slot(cluster):
    with pytest.raises(InvalidConfig, match="the name of a slot"):
        cluster.producer(transactional_id="checkout.__slot-0")


async def test_wrong_offsets_are_refused(cluster):
    async with cluster.transactions("checkout") as pool:
        txn = await begun(pool)
        with pytest.raises(RefusedError):
            await txn.send_offsets({TopicPartition("orders", 0): "five"}, "audit")
        with pytest.raises(RefusedError):
            await txn.commit()
