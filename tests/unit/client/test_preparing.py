"""Prepared transactions of a producer: whole before they are prepared, and ended by those alone who hold the token."""

import asyncio

import pytest

from eagleray.broker.groups.events import CommitTransactionOffsets
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.partitions.events import Produce
from eagleray.broker.transactions.descriptions import DescribeTransaction
from eagleray.broker.transactions.events import (
    CompleteTransaction,
    EndTransaction,
    InitProducerId,
    PrepareTransaction,
)
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import (
    AbortableError,
    ClientClosed,
    CompletedOtherwise,
    DeliveryTimeout,
    InvalidArgument,
    InvalidConfig,
    InvalidTransactionState,
    NotCompleted,
    ProducerFenced,
    TransactionAborted,
    TransactionNotFound,
)
from eagleray.client.lookups import fetch_offsets
from eagleray.client.producer import completing
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.transaction_states import State
from eagleray.client.retry_policy import RetryPolicy
from tests.support.client_helpers import INVOICES, ORDERS, a_producer, a_transactional, outcome, settled
from tests.support.cluster_in_memory import COORDINATOR, LEADER_A
from tests.support.lanes_in_memory import Fate

TWO_PHASES = {"transaction_two_phase_commit_enable": True}
LOSSES = [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED]


@pytest.fixture
def cluster(runtime):
    return AsyncCluster(runtime)


async def a_two_phase(runtime, name: str = "billing", **settings: object):
    return await a_transactional(runtime, name, **TWO_PHASES, **settings)


async def prepared(producer, *values: bytes, context: bytes = b""):
    producer.begin()
    for value in values:
        await producer.send("orders", value, partition=0)
    return await producer.prepare(context=context)


async def left_prepared(runtime, *values: bytes):
    """What a producer has left prepared that is no more."""
    producer = await a_two_phase(runtime)
    token = await prepared(producer, *values)
    producer.abandon()
    return token


async def left_open(runtime, **settings: object):
    """A producer that is no more has left something open, of which only it knows whether it is whole."""
    producer = await a_transactional(runtime, **settings)
    producer.begin()
    await (await producer.send("orders", b"perhaps not all", partition=0))
    producer.abandon()


async def prepare_in_a_block(producer, value: bytes, *, raises: type[Exception] | None = None, **options: bytes):
    async with producer.transaction():
        await producer.send("orders", value, partition=0)
        await producer.prepare(**options)
        if raises is not None:
            raise raises


async def send_and_fail(producer):
    async with producer.transaction():
        await producer.send("orders", b"gone", partition=0)
        raise ZeroDivisionError


# Preparing


async def test_prepared_transaction_is_committed_by_its_own_producer(world, runtime):
    producer = await a_two_phase(runtime)
    token = await prepared(producer, b"one", b"two")
    assert world.committed("orders") == []
    assert producer.prepared == token
    assert token.transactional_id == "billing"
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"one", b"two"]
    assert producer.prepared is None
    await producer.close()


async def test_prepared_transaction_is_aborted_by_its_own_producer(world, runtime):
    producer = await a_two_phase(runtime)
    await prepared(producer, b"gone")
    await producer.abort()
    assert producer.prepared is None
    await prepared(producer, b"kept")
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"kept"]
    await producer.close()


async def test_each_preparation_has_a_token_of_its_own(runtime):
    producer = await a_two_phase(runtime)
    tokens = []
    for commit in (True, False, True):
        tokens.append(await prepared(producer, b"one"))
        await (producer.commit() if commit else producer.abort())
    assert len(set(tokens)) == 3
    await producer.close()


async def test_preparation_is_one_request_after_every_record_is_acknowledged(world, runtime):
    producer = await a_two_phase(runtime)
    world.network.plan(Produce, Fate.REQUEST_LOST, times=3)
    await prepared(producer, b"one", context=b"42")
    kinds = [type(message) for message in world.requests]
    assert kinds.count(PrepareTransaction) == 1
    assert kinds.index(PrepareTransaction) > max(place for place, kind in enumerate(kinds) if kind is Produce)
    assert world.asked(PrepareTransaction)[0].context == b"42"
    await producer.commit()
    await producer.close()


async def test_preparation_waits_for_offsets_that_are_on_their_way(world, runtime):
    producer = await a_two_phase(runtime)
    producer.begin()
    world.network.plan(CommitTransactionOffsets, Fate.REQUEST_LOST, times=2)
    sending = asyncio.ensure_future(producer.send_offsets({INVOICES[0]: 7}, "readers"))
    await asyncio.sleep(0)
    await producer.prepare()
    assert sending.done()
    await producer.commit()
    await settled()
    assert (await fetch_offsets(runtime, "readers", None, RetryPolicy()))[INVOICES[0]].offset == 7
    await producer.close()


async def test_transaction_without_records_can_be_prepared_too(runtime, cluster):
    producer = await a_two_phase(runtime)
    token = await prepared(producer)
    producer.abandon()
    again = await a_two_phase(runtime)
    assert again.prepared == token
    assert await again.complete(token)
    await again.close()


@pytest.mark.parametrize("kind", [PrepareTransaction, EndTransaction, InitProducerId])
@pytest.mark.parametrize("fate", LOSSES)
async def test_preparation_holds_when_requests_and_answers_are_lost(kind, fate, world, runtime):
    world.network.plan(kind, fate, times=2 if kind is not InitProducerId else 1)
    producer = await a_two_phase(runtime)
    for value in (b"one", b"two"):
        await prepared(producer, value)
        await producer.commit()
    await settled()
    assert world.committed("orders") == [b"one", b"two"]
    await producer.close()


async def test_preparation_without_an_answer_is_repeated_until_there_is_one(world, runtime):
    producer = await a_two_phase(runtime)
    world.network.plan(PrepareTransaction, Fate.REPLY_LOST, times=20)
    await prepared(producer, b"one")
    assert len(world.asked(PrepareTransaction)) == 21
    await producer.commit()
    await producer.close()


async def test_preparation_survives_the_restart_of_the_coordinator(world, runtime):
    producer = await a_two_phase(runtime)
    producer.begin()
    await (await producer.send("orders", b"one", partition=0))
    world.kill(COORDINATOR)
    world.loop.call_later(1, world.start, COORDINATOR)
    token = await producer.prepare()
    await world.restart_node(COORDINATOR)
    assert await producer.complete(token)
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


async def test_preparation_may_be_asked_for_again(world, runtime):
    producer = await a_two_phase(runtime)
    producer.begin()
    first, second = await asyncio.gather(producer.prepare(), producer.prepare())
    assert first == second == await producer.prepare()
    assert len(world.asked(PrepareTransaction)) == 1
    assert isinstance(await outcome(producer.prepare(context=b"another")), InvalidTransactionState)
    await producer.abort()
    await producer.close()


async def test_records_and_offsets_are_refused_after_the_preparation(world, runtime):
    producer = await a_two_phase(runtime)
    await prepared(producer, b"one")
    with pytest.raises(InvalidTransactionState, match="is prepared"):
        await producer.send("orders", b"two", partition=0)
    assert isinstance(await outcome(producer.send_offsets({INVOICES[0]: 7}, "readers")), InvalidTransactionState)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


async def test_transaction_with_a_record_that_was_lost_cannot_be_prepared(world, runtime):
    producer = await a_two_phase(runtime, delivery_timeout_ms=500)
    producer.begin()
    world.kill(world.image.leader_of(ORDERS[0]))
    await producer.send("orders", b"one", partition=0)
    with pytest.raises(DeliveryTimeout):
        await producer.prepare()
    assert producer.state is State.FAILED
    assert world.asked(PrepareTransaction) == []
    assert isinstance(await outcome(producer.prepare()), DeliveryTimeout)
    await producer.abort()
    assert producer.state is State.READY
    await producer.close()


async def test_transaction_with_a_send_that_was_refused_cannot_be_prepared(world, runtime):
    producer = await a_two_phase(runtime)
    producer.begin()
    with pytest.raises(TypeError):
        await producer.send("orders", 7)
    with pytest.raises(TypeError):
        await producer.prepare()
    assert world.asked(PrepareTransaction) == []
    await producer.abort()
    await producer.close()


async def test_context_that_is_too_long_is_refused_and_the_transaction_aborted(world, runtime):
    producer = await a_two_phase(runtime)
    error = await outcome(prepare_in_a_block(producer, b"gone", context=bytes(5000)))
    assert isinstance(error, InvalidArgument)
    assert "a context of 5000 bytes was refused: max.prepared.context.bytes" in str(error)
    assert producer.state is State.READY
    await producer.close()


async def test_transaction_that_has_timed_out_cannot_be_prepared(world, runtime):
    producer = await a_two_phase(runtime, transaction_timeout_ms=1000)
    producer.begin()
    await (await producer.send("orders", b"gone", partition=0))
    await asyncio.sleep(3)
    assert isinstance(await outcome(producer.prepare()), TransactionAborted)
    await producer.abort()
    await prepared(producer, b"kept")
    await asyncio.sleep(3)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"kept"]
    await producer.close()


async def test_abort_while_preparing_wins(world, runtime):
    producer = await a_two_phase(runtime)
    producer.begin()
    await producer.send("orders", b"gone", partition=0)
    world.network.plan(PrepareTransaction, Fate.REPLY_LOST)
    preparing = asyncio.ensure_future(outcome(producer.prepare()))
    await asyncio.sleep(0.05)
    assert producer.state is State.PREPARING
    await producer.abort()
    assert isinstance(await preparing, TransactionAborted)
    assert (producer.state, producer.prepared) == (State.READY, None)
    await settled()
    assert world.committed("orders") == []
    await producer.close()


@pytest.mark.parametrize("settings", [{"transactional_id": "billing"}, {}])
async def test_producer_without_the_setting_prepares_nothing(settings, runtime):
    producer = a_producer(runtime, **settings)
    assert isinstance(await outcome(producer.prepare()), InvalidTransactionState)
    assert isinstance(await outcome(producer.complete(None)), InvalidTransactionState)
    assert producer.prepared is None
    await producer.close()


def test_setting_needs_a_transactional_id():
    with pytest.raises(InvalidConfig, match=r"no transactional\.id"):
        a_producer(None, **TWO_PHASES)


# The block


async def test_end_of_a_block_commits_what_is_prepared(world, runtime):
    producer = await a_two_phase(runtime)
    async with producer.transaction():
        await producer.send("orders", b"one", partition=0)
        await producer.prepare()
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


async def test_exception_before_the_preparation_aborts(world, runtime):
    producer = await a_two_phase(runtime)
    with pytest.raises(ZeroDivisionError):
        await send_and_fail(producer)
    assert producer.state is State.READY
    await producer.close()


async def test_exception_after_the_preparation_leaves_it_prepared(world, runtime):
    producer = await a_two_phase(runtime)
    with pytest.raises(ZeroDivisionError):
        await prepare_in_a_block(producer, b"one", raises=ZeroDivisionError)
    assert producer.state is State.PREPARED
    assert isinstance(await outcome(prepare_in_a_block(producer, b"two")), NotCompleted)
    assert await producer.complete(producer.prepared)
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


async def test_cancelled_preparation_aborts(world, runtime):
    producer = await a_two_phase(runtime)
    world.kill(COORDINATOR)
    world.loop.call_later(1, world.start, COORDINATOR)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(prepare_in_a_block(producer, b"gone"), 0.5)
    assert (producer.state, producer.prepared) == (State.READY, None)
    await producer.close()


# What a crash leaves


@pytest.mark.parametrize("leave", ["close", "abandon"])
async def test_next_producer_finds_what_was_left_prepared(leave, world, runtime):
    producer = await a_two_phase(runtime)
    token = await prepared(producer, b"one")
    if leave == "close":
        await producer.close()
    else:
        producer.abandon()
    again = await a_two_phase(runtime)
    assert (again.state, again.prepared) == (State.PREPARED, token)
    with pytest.raises(NotCompleted, match=r"prepared-v1\.billing\.0\.0.*Call complete\(\)"):
        again.begin()
    assert await again.complete(PreparedTransaction.parse(str(token)))
    await prepared(again, b"two")
    await again.commit()
    await settled()
    assert world.committed("orders") == [b"one", b"two"]
    await again.close()


@pytest.mark.parametrize("stored", [None, PreparedTransaction("billing", ProducerIdentity(0, 12))])
async def test_what_was_left_is_aborted_where_another_token_is_stored_or_none(stored, world, runtime):
    await left_prepared(runtime, b"gone")
    again = await a_two_phase(runtime)
    assert not await again.complete(stored)
    assert again.prepared is None
    await settled()
    assert world.committed("orders") == []
    await again.close()


@pytest.mark.parametrize("fate", LOSSES)
@pytest.mark.parametrize("kind", [InitProducerId, DescribeTransaction, EndTransaction])
async def test_what_was_left_is_completed_when_requests_and_answers_are_lost(kind, fate, world, runtime):
    token = await left_prepared(runtime, b"one")
    world.network.plan(kind, fate)
    again = await a_two_phase(runtime)
    assert await again.complete(token)
    await settled()
    assert world.committed("orders") == [b"one"]
    await again.close()


async def test_what_was_left_stays_for_ever_and_for_every_producer(world, runtime):
    token = await left_prepared(runtime, b"one")
    for _ in range(3):
        await asyncio.sleep(1000)
        await world.restart_node(COORDINATOR)
        again = await a_two_phase(runtime)
        assert again.prepared == token
        again.abandon()
    again = await a_two_phase(runtime)
    assert await again.complete(token)
    await settled()
    assert world.committed("orders") == [b"one"]
    await again.close()


async def test_what_was_left_may_be_committed_and_aborted_without_a_token(world, runtime):
    for commit in (True, False):
        await left_prepared(runtime, str(commit))
        again = await a_two_phase(runtime)
        await (again.commit() if commit else again.abort())
        await again.close()
    await settled()
    assert world.committed("orders") == [b"True"]


async def test_what_was_left_open_and_not_prepared_is_aborted(world, runtime):
    await left_open(runtime, **TWO_PHASES)
    again = await a_two_phase(runtime)
    assert (again.state, again.prepared) == (State.READY, None)
    await settled()
    assert world.committed("orders") == []
    assert isinstance(await outcome(again.complete(None)), InvalidTransactionState)
    await again.close()


async def test_what_a_client_of_kafka_left_counts_as_prepared(world, runtime):
    """Its flush is its preparation, and its transactions have no timeout."""
    producer = await a_transactional(runtime)
    identity = await ask_as_kafka_does(runtime)
    producer._transactions.identity = identity
    producer.begin()
    await (await producer.send("orders", b"flushed", partition=0))
    producer.abandon()
    again = await a_two_phase(runtime)
    assert again.prepared == PreparedTransaction("billing", identity)
    assert await again.complete(PreparedTransaction("billing", identity))
    await settled()
    assert world.committed("orders") == [b"flushed"]
    await again.close()


async def ask_as_kafka_does(runtime):
    answered = runtime.loop.create_future()
    runtime.ask(COORDINATOR, answered.set_result, InitProducerId, "billing", 60_000, None, None, True)
    return (await answered).producer


async def test_token_of_another_transactional_id_is_refused_and_nothing_is_aborted(runtime):
    token = await left_prepared(runtime, b"one")
    again = await a_two_phase(runtime)
    another = PreparedTransaction("billing-2", token.producer)
    assert isinstance(await outcome(again.complete(another)), InvalidArgument)
    assert again.prepared == token
    assert await again.complete(token)
    await again.close()


async def test_nothing_is_completed_where_nothing_is_left(runtime):
    token = await left_prepared(runtime, b"one")
    again = await a_two_phase(runtime)
    assert await again.complete(token)
    error = await outcome(again.complete(token))
    assert isinstance(error, InvalidTransactionState)
    assert "look at `producer.prepared` first" in str(error)
    await again.close()


async def test_older_producer_cannot_end_what_a_newer_one_has_found(world, runtime):
    older = await a_two_phase(runtime)
    token = await prepared(older, b"one")
    newer = await a_two_phase(runtime)
    assert isinstance(await outcome(older.abort()), ProducerFenced)
    assert older.state is State.DEAD
    assert await newer.complete(token)
    await settled()
    assert world.committed("orders") == [b"one"]
    await newer.close()


async def test_producer_that_was_closed_says_so(runtime):
    producer = await a_two_phase(runtime)
    await prepared(producer, b"one")
    await producer.close()
    assert isinstance(await outcome(producer.commit()), ClientClosed)


# By the token


@pytest.mark.parametrize("commit", [True, False])
async def test_token_ends_the_transaction_from_anywhere_and_more_than_once(commit, world, runtime, cluster):
    token = await left_prepared(runtime, b"one")
    world.network.plan(CompleteTransaction, Fate.REPLY_LOST)
    for _ in range(2):
        await cluster.complete(token, commit=commit)
    await settled()
    assert world.committed("orders") == ([b"one"] if commit else [])
    error = await outcome(cluster.complete(token, commit=not commit))
    assert isinstance(error, CompletedOtherwise)
    assert f"it was {'committed' if commit else 'aborted'} before" in str(error)


@pytest.mark.parametrize("has_crashed", [False, True])
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("commit", [True, False])
async def test_producer_learns_how_its_transaction_was_completed(commit, wanted, has_crashed, world, runtime, cluster):
    producer = await a_two_phase(runtime)
    token = await prepared(producer, b"one")
    if has_crashed:
        producer.abandon()
        producer = await a_two_phase(runtime)
    await cluster.complete(token, commit=commit)
    error = await outcome(producer.commit() if wanted else producer.abort())
    assert isinstance(error, type(None) if wanted is commit else CompletedOtherwise)
    assert (producer.state, producer.prepared) == (State.READY, None)
    await prepared(producer, b"next")
    await producer.commit()
    await settled()
    assert world.committed("orders") == ([b"one"] if commit else []) + [b"next"]
    await producer.close()


async def test_token_of_an_open_transaction_ends_it_only_where_that_is_asked_for(world, runtime, cluster):
    await left_open(runtime)
    token = PreparedTransaction("billing", ProducerIdentity(0, 0))
    error = await outcome(cluster.complete(token, commit=True))
    assert isinstance(error, InvalidTransactionState)
    assert "it is open and not prepared" in str(error)
    await completing.complete(runtime, token, commit=True, is_unprepared=True)
    await settled()
    assert world.committed("orders") == [b"perhaps not all"]


async def test_token_of_a_transaction_that_has_not_begun_ends_nothing(runtime, cluster):
    producer = await a_two_phase(runtime)
    token = PreparedTransaction("billing", ProducerIdentity(0, 0))
    error = await outcome(cluster.complete(token, commit=True))
    assert isinstance(error, InvalidTransactionState)
    assert "has not begun it" in str(error)
    await producer.close()


async def test_token_that_the_coordinator_does_not_know_is_not_found(runtime, cluster):
    producer = await a_two_phase(runtime)
    for name, epoch in (("billing", 9), ("never", 0)):
        token = PreparedTransaction(name, ProducerIdentity(0, epoch))
        error = await outcome(cluster.complete(token, commit=True))
        assert isinstance(error, TransactionNotFound)
    await producer.close()


async def test_text_in_the_place_of_a_token_is_refused(runtime, cluster):
    assert isinstance(await outcome(cluster.complete("prepared-v1.billing.0.0", commit=True)), InvalidArgument)


# With many writers


async def write(cluster, token, value: bytes):
    async with await cluster.join(token) as writer:
        await writer.send("orders", value, partition=0)
        return await writer.seal()


@pytest.mark.parametrize("ending", ["end of the block", "commit", "commit with the same", "complete"])
async def test_transaction_with_many_writers_is_prepared_with_the_branches_that_count(ending, world, runtime, cluster):
    async with await cluster.begin("job-7", tag="batch-12") as transaction:
        first = await write(cluster, transaction.branch(), b"first")
        await write(cluster, transaction.branch(), b"second")
        world.network.plan(PrepareTransaction, Fate.REPLY_LOST)
        token = await transaction.prepare([first], offsets={INVOICES[0]: 7}, group="readers", context=b"12")
        assert token == await transaction.prepare([first], context=b"12")
        assert isinstance(await outcome(cluster.join(transaction.branch())), AbortableError)
        if ending == "commit":
            await transaction.commit()
        elif ending == "commit with the same":
            await transaction.commit([first])
        elif ending == "complete":
            await cluster.complete(token, commit=True)
    await settled()
    assert world.committed("orders") == [b"first"]
    assert (await fetch_offsets(runtime, "readers", None, RetryPolicy()))[INVOICES[0]].offset == 7
    assert (await cluster.begin("job-7", tag="batch-12")).already_committed


async def test_exception_leaves_a_transaction_with_many_writers_prepared(world, runtime, cluster):
    tokens = []
    with pytest.raises(ZeroDivisionError):
        await prepare_and_fail(cluster, tokens)
    await asyncio.sleep(1000)
    await world.restart_node(LEADER_A)
    await cluster.complete(*tokens, commit=True)
    await settled()
    assert world.committed("orders") == [b"one"]


async def prepare_and_fail(cluster, tokens: list[PreparedTransaction]):
    async with await cluster.begin("job-7", tag="batch-12") as transaction:
        tokens.append(await transaction.prepare([await write(cluster, transaction.branch(), b"one")]))
        raise ZeroDivisionError


async def test_prepared_transaction_with_many_writers_is_not_committed_with_others(runtime, cluster):
    transaction = await cluster.begin("job-7", tag="batch-12")
    first, second = [await write(cluster, transaction.branch(), value) for value in (b"first", b"second")]
    await transaction.prepare([first])
    for refused in (transaction.commit([first, second]), transaction.commit([first], offsets={INVOICES[0]: 7})):
        assert "is prepared with other branches" in str(await outcome(refused))
    await transaction.abort()
    assert isinstance(await outcome(transaction.prepare()), InvalidTransactionState)
