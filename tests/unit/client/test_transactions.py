"""Transactions of a producer: all or nothing, whatever is lost, restarted, fenced or timed out."""

import asyncio
from collections.abc import Awaitable

import pytest

from eagleray.broker.groups.events import CommitTransactionOffsets, OffsetsCommitted
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.partitions.events import Produce
from eagleray.broker.transactions.events import EndTransaction, ForgetTransactionalId, InitProducerId, Reply
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.errors import (
    AbortableError,
    ClientClosed,
    CoordinatorUnavailable,
    DeliveryTimeout,
    FatalError,
    InvalidArgument,
    InvalidTransactionState,
    MessageTooLarge,
    NotConnected,
    ProducerFenced,
    TransactionAborted,
    TransactionTimedOut,
)
from eagleray.client.lookups import fetch_offsets
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.transaction_states import State
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from eagleray.protocol.errors import ErrorCode
from tests.support.client_helpers import (
    INVOICES,
    ORDERS,
    a_producer,
    a_transactional,
    commit_records,
    outcome,
    settled,
)
from tests.support.cluster_in_memory import COORDINATOR, GROUPS, LEADER_A, LEADER_B
from tests.support.lanes_in_memory import Fate


async def test_a_committed_transaction_is_visible_in_every_partition(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    for number in range(3):
        await producer.send("orders", str(number), partition=number)
    await producer.send("invoices", b"bill", partition=0)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"0", b"1", b"2"]
    assert world.committed("invoices") == [b"bill"]
    await producer.close()


async def test_an_aborted_transaction_is_visible_nowhere(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    delivery = await producer.send("orders", b"gone", partition=0)
    await delivery
    await producer.abort()
    await commit_records(producer, b"kept")
    await settled()
    assert world.committed("orders") == [b"kept"]
    await producer.close()


async def test_an_abort_does_not_wait_for_records_and_says_so_to_their_deliveries(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    world.kill(world.image.leader_of(ORDERS[0]))
    delivery = await producer.send("orders", b"gone", partition=0)
    await asyncio.sleep(0.01)
    await producer.abort()
    assert world.seconds < 0.1
    assert isinstance(delivery.exception(), TransactionAborted)
    await producer.close()


@pytest.mark.parametrize("commit", [True, False])
async def test_an_empty_transaction_needs_no_request(commit: bool, world, runtime):
    producer = await a_transactional(runtime)
    before = len(world.requests)
    producer.begin()
    await (producer.commit() if commit else producer.abort())
    assert len(world.requests) == before
    await commit_records(producer, b"one")
    await producer.close()


async def test_every_transaction_has_an_epoch_of_its_own_and_begins_at_sequence_zero(world, runtime):
    producer = await a_transactional(runtime)
    for _ in range(3):
        await commit_records(producer, b"one")
    identities = [request.producer for request in world.asked(EndTransaction)]
    assert [identity.epoch for identity in identities] == [0, 1, 2]
    assert all(request.client_version == 2 for request in world.asked(EndTransaction))
    assert all(request.transaction_version == 2 for request in world.asked(Produce))
    await producer.close()


@pytest.mark.parametrize("kind", [Produce, EndTransaction, InitProducerId])
@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
async def test_transactions_hold_when_requests_and_answers_are_lost(kind: type, fate: Fate, world, runtime):
    world.network.plan(kind, fate, times=2 if kind is not InitProducerId else 1)
    producer = await a_transactional(runtime)
    await commit_records(producer, b"one")
    await commit_records(producer, b"two")
    await settled()
    assert world.committed("orders") == [b"one", b"two"]
    await producer.close()


@pytest.mark.parametrize("node_id", [COORDINATOR, LEADER_A, LEADER_B])
async def test_a_commit_survives_the_restart_of_any_node(node_id: int, world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    for partition in range(3):
        await producer.send("orders", str(partition), partition=partition)
    world.kill(node_id)
    world.loop.call_later(1, world.start, node_id)
    await producer.commit()
    await commit_records(producer, b"next")
    await settled()
    assert sorted(world.committed("orders")) == [b"0", b"1", b"2", b"next"]
    await producer.close()


async def test_a_commit_without_an_answer_is_repeated_until_there_is_one(world, runtime):
    producer = await a_transactional(runtime)
    world.network.plan(EndTransaction, Fate.REPLY_LOST, times=20)
    await commit_records(producer, b"one")
    assert len(world.asked(EndTransaction)) == 21
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


async def test_an_end_that_the_lane_forgets_is_repeated_after_the_request_timeout(world, runtime):
    producer = await a_transactional(runtime, request_timeout_ms=400)
    world.network.plan(EndTransaction, Fate.FORGOTTEN)
    await commit_records(producer, b"one")
    assert 0.4 <= world.seconds < 0.6
    await producer.close()


async def test_a_late_answer_to_an_earlier_commit_is_not_taken_for_the_next_one(world, runtime):
    producer = await a_transactional(runtime, request_timeout_ms=400)
    real, kept = runtime.ask, []

    def ask(node_id, on_reply, kind, *fields):
        if kind is EndTransaction and not kept:
            kept.append(on_reply)
        elif kind is EndTransaction and len(kept) == 2:
            kept[0](kept[1])
            real(node_id, on_reply, kind, *fields)
        else:
            real(node_id, on_reply, kind, *fields)

    runtime.ask = ask
    await commit_records(producer, b"one")
    kept.append(Reply(0, ErrorCode.NONE, ProducerIdentity(999, 7)))
    await commit_records(producer, b"two")
    await commit_records(producer, b"three")
    await settled()
    assert world.committed("orders") == [b"one", b"two", b"three"]
    await producer.close()


async def test_caller_that_gives_up_waiting_for_a_commit_may_ask_again(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await (await producer.send("orders", b"one", partition=0))
    world.kill(COORDINATOR)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(producer.commit(), 0.5)
    assert isinstance(await outcome(producer.abort()), InvalidTransactionState)
    world.start(COORDINATOR)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


# Offsets


async def offsets_of(runtime, group: str):
    return await fetch_offsets(runtime, group, None, RetryPolicy())


@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_are_committed_with_the_transaction_or_not_at_all(commit: bool, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send("orders", b"one", partition=0)
    await producer.send_offsets({INVOICES[0]: 7, INVOICES[1]: OffsetAndMetadata(9, "note")}, "readers")
    await (producer.commit() if commit else producer.abort())
    await settled()
    found = await offsets_of(runtime, "readers")
    expected = {INVOICES[0]: (7, ""), INVOICES[1]: (9, "note")} if commit else {}
    assert {name: (offset.offset, offset.metadata) for name, offset in found.items()} == expected
    await producer.close()


async def test_a_transaction_of_offsets_alone_is_committed(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send_offsets({INVOICES[0]: 7}, "readers")
    await producer.commit()
    await settled()
    assert (await offsets_of(runtime, "readers"))[INVOICES[0]].offset == 7
    assert world.asked(CommitTransactionOffsets)[0].transaction_version == 2
    await producer.close()


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
async def test_offsets_get_there_when_requests_and_answers_are_lost(fate: Fate, world, runtime):
    producer = await a_transactional(runtime)
    world.network.plan(CommitTransactionOffsets, fate)
    producer.begin()
    await producer.send_offsets({INVOICES[0]: 7}, "readers")
    world.kill(GROUPS)
    world.loop.call_later(0.5, world.start, GROUPS)
    await producer.send_offsets({INVOICES[1]: 8}, "readers")
    await producer.commit()
    await settled()
    found = await offsets_of(runtime, "readers")
    assert {name: offset.offset for name, offset in found.items()} == {INVOICES[0]: 7, INVOICES[1]: 8}
    await producer.close()


async def test_a_commit_waits_for_offsets_that_are_on_their_way(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    world.network.plan(CommitTransactionOffsets, Fate.REQUEST_LOST)
    await producer.send("orders", b"one", partition=0)
    sending = asyncio.ensure_future(producer.send_offsets({INVOICES[0]: 7}, "readers"))
    await asyncio.sleep(0)
    await producer.commit()
    assert sending.done()
    await settled()
    assert (await offsets_of(runtime, "readers"))[INVOICES[0]].offset == 7
    await producer.close()


async def test_offsets_that_a_group_refuses_fail_the_transaction_and_the_producer_goes_on(runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    huge = OffsetAndMetadata(1, "x" * 10_000)
    assert isinstance(await outcome(producer.send_offsets({INVOICES[0]: huge}, "readers")), AbortableError)
    assert isinstance(await outcome(producer.commit()), AbortableError)
    await producer.abort()
    await commit_records(producer, b"one")
    await producer.close()


WRONG_OFFSETS = [
    ({INVOICES[0]: 7}, None),
    ({INVOICES[0]: 7}, 7),
    ({INVOICES[0]: 7}, ""),
    ({INVOICES[0]: 7}, ConsumerGroupMetadata("readers", "3")),
    ({INVOICES[0]: 7}, ConsumerGroupMetadata("readers", 3, 4)),
    ({INVOICES[0]: 7}, ConsumerGroupMetadata("readers", 3, "member", 7)),
    ([1], "readers"),
    (None, "readers"),
    ({"invoices": 7}, "readers"),
    ({INVOICES[0]: "7"}, "readers"),
    ({INVOICES[0]: -1}, "readers"),
]


@pytest.mark.parametrize(("offsets", "group"), WRONG_OFFSETS)
async def test_offsets_of_a_wrong_type_fail_the_transaction_and_no_other(offsets, group, world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send("orders", b"alone", partition=0)
    error = await outcome(producer.send_offsets(offsets, group))
    assert isinstance(error, InvalidArgument)
    assert await outcome(producer.commit()) is error
    await asyncio.wait_for(commit_records(producer, b"next"), 60)
    await settled()
    assert world.committed("orders") == [b"next"]
    await producer.close()


async def test_offsets_of_a_wrong_type_outside_of_a_transaction_are_harmless(runtime):
    producer = await a_transactional(runtime)
    assert isinstance(await outcome(producer.send_offsets({INVOICES[0]: 7}, None)), InvalidArgument)
    await commit_records(producer, b"one")
    await producer.close()


async def test_no_offsets_are_nothing_to_send(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send_offsets({}, "readers")
    await producer.commit()
    assert not world.asked(CommitTransactionOffsets)
    await producer.close()


async def test_offsets_of_an_aborted_transaction_do_not_concern_the_next_one(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    world.kill(GROUPS)
    sending = asyncio.ensure_future(outcome(producer.send_offsets({INVOICES[0]: 7}, "readers")))
    await asyncio.sleep(1)
    await producer.abort()
    producer.begin()
    await producer.send("orders", b"next", partition=0)
    world.start(GROUPS)
    assert isinstance(await sending, TransactionAborted)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"next"]
    assert await offsets_of(runtime, "readers") == {}
    await producer.close()


@pytest.mark.parametrize("error_code", [ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.NOT_COORDINATOR])
async def test_late_answer_to_offsets_of_an_aborted_transaction_does_not_concern_the_next_one(
    error_code: ErrorCode, world, runtime
):
    producer = await a_transactional(runtime)
    real, kept = runtime.ask, []

    def ask(node_id, on_reply, kind, *fields):
        if kind is CommitTransactionOffsets and not kept:
            kept.append(on_reply)
        else:
            real(node_id, on_reply, kind, *fields)

    runtime.ask = ask
    producer.begin()
    old = asyncio.ensure_future(outcome(producer.send_offsets({INVOICES[0]: 7}, "readers")))
    await asyncio.sleep(0)
    await producer.abort()
    producer.begin()
    world.network.plan(CommitTransactionOffsets, Fate.REQUEST_LOST)
    new = asyncio.ensure_future(outcome(producer.send_offsets({INVOICES[1]: 8}, "readers")))
    await asyncio.sleep(0)
    kept[0](OffsetsCommitted(0, error_code, (error_code,)))
    await producer.commit()
    assert isinstance(await old, TransactionAborted)
    assert await new is None
    await settled()
    assert {name: offset.offset for name, offset in (await offsets_of(runtime, "readers")).items()} == {INVOICES[1]: 8}
    await producer.close()


# Fencing and time limits


async def test_a_newer_producer_fences_the_older_at_its_commit(world, runtime):
    old = await a_transactional(runtime)
    old.begin()
    delivery = await old.send("orders", b"old", partition=0)
    await delivery
    new = await a_transactional(runtime)
    assert isinstance(await outcome(old.commit()), ProducerFenced)
    for call in (old.abort(), old.commit(), old.send("orders", b"more"), old.init()):
        assert isinstance(await outcome(call), ProducerFenced)
    with pytest.raises(ProducerFenced):
        old.begin()
    await commit_records(new, b"new")
    await settled()
    assert world.committed("orders") == [b"new"]
    await old.close()
    await new.close()


async def test_a_newer_producer_fences_the_older_at_its_next_record(runtime):
    old = await a_transactional(runtime)
    new = await a_transactional(runtime)
    old.begin()
    delivery = await old.send("orders", b"old", partition=0)
    assert isinstance(await outcome(delivery), ProducerFenced)
    assert isinstance(await outcome(old.commit()), ProducerFenced)
    await old.close()
    await new.close()


async def test_a_newer_producer_fences_the_older_at_its_offsets(runtime):
    old = await a_transactional(runtime)
    new = await a_transactional(runtime)
    old.begin()
    assert isinstance(await outcome(old.send_offsets({INVOICES[0]: 7}, "readers")), ProducerFenced)
    assert isinstance(await outcome(old.commit()), ProducerFenced)
    await old.close()
    await new.close()


@pytest.mark.parametrize("step", ["send", "send_offsets"])
async def test_fenced_producer_does_not_come_back_when_its_id_is_forgotten(step: str, world, runtime):
    """KAFKA-18019: it takes up what its successor has done already, and does that once more."""
    old = await a_transactional(runtime)
    await commit_records(old, b"by the old")
    new = await a_transactional(runtime)
    await commit_records(new, b"by the new")
    await new.close()
    await settled()
    await forget(runtime, "billing", new)
    old.begin()
    if step == "send":
        delivery = await old.send("invoices", b"once more", partition=0)
        assert isinstance(await outcome(delivery), ProducerFenced)
    else:
        assert isinstance(await outcome(old.send_offsets({INVOICES[0]: 7}, "readers")), ProducerFenced)
    assert "'billing'" in str(await outcome(old.commit()))
    assert isinstance(await outcome(old.init()), ProducerFenced)
    assert world.committed("invoices") == []
    await old.close()


async def forget(runtime, transactional_id: str, holder: AsyncProducer):
    """Have the coordinator forget a transactional id, as it does with those that are not used for long."""
    assert holder._transactions is not None
    await call_with_retries(
        runtime,
        lambda: runtime.view.transaction_coordinator(transactional_id),
        "forgetting",
        Question(ForgetTransactionalId, transactional_id, holder._transactions.identity),
        retry_policy=RetryPolicy(),
    )


@pytest.mark.parametrize("step", ["commit", "send", "abort", "send_offsets"])
async def test_a_transaction_that_timed_out_is_told_from_a_fenced_producer(step: str, world, runtime):
    producer = await a_transactional(runtime, transaction_timeout_ms=500)
    producer.begin()
    await (await producer.send("orders", b"late", partition=0))
    await settled(3000)
    if step == "send":
        assert isinstance(await outcome(await producer.send("orders", b"later", partition=0)), TransactionTimedOut)
    elif step == "send_offsets":
        assert isinstance(await outcome(producer.send_offsets({INVOICES[0]: 7}, "readers")), TransactionTimedOut)
    elif step == "commit":
        assert isinstance(await outcome(producer.commit()), TransactionTimedOut)
    await producer.abort()
    await commit_records(producer, b"next")
    await settled()
    assert world.committed("orders") == [b"next"]
    await producer.close()


@pytest.mark.parametrize("then", ["abort", "begin"])
async def test_failed_commit_has_aborted_and_can_be_aborted_once_more(then: str, world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send("orders", b"alone", partition=0)
    refused = await outcome(producer.send("orders", bytes(2_000_000)))
    assert isinstance(refused, MessageTooLarge)
    assert await outcome(producer.commit()) is refused
    assert await outcome(producer.commit()) is refused
    if then == "abort":
        await producer.abort()
    await commit_records(producer, b"next")
    await settled()
    assert world.committed("orders") == [b"next"]
    assert isinstance(await outcome(producer.abort()), InvalidTransactionState)
    await producer.close()


async def test_records_that_time_out_fail_the_transaction(world, runtime):
    producer = await a_transactional(runtime, delivery_timeout_ms=500)
    producer.begin()
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    delivery = await producer.send("orders", b"lost", partition=0)
    assert isinstance(await outcome(producer.commit()), DeliveryTimeout)
    assert isinstance(delivery.exception(), DeliveryTimeout)
    assert isinstance(await outcome(producer.send("orders", b"more")), InvalidTransactionState)
    world.start(leader)
    await commit_records(producer, b"next")
    await settled()
    assert world.committed("orders") == [b"next"]
    await producer.close()


async def test_init_aborts_what_a_predecessor_left_open(world, runtime):
    first = await a_transactional(runtime)
    first.begin()
    await (await first.send("orders", b"left", partition=0))
    second = await a_transactional(runtime)
    await commit_records(second, b"kept")
    await settled()
    assert world.committed("orders") == [b"kept"]
    await first.close()
    await second.close()


async def test_init_says_when_no_coordinator_answers_in_time_and_can_be_tried_again(world, runtime):
    world.kill(COORDINATOR)
    producer = a_producer(runtime, transactional_id="billing", max_block_ms=500)
    error = await outcome(producer.init())
    assert isinstance(error, CoordinatorUnavailable | NotConnected)
    assert "'billing'" in str(error)
    world.start(COORDINATOR)
    await producer.init()
    await commit_records(producer, b"one")
    await producer.close()


async def test_a_timeout_above_the_clusters_limit_is_fatal(runtime):
    producer = a_producer(runtime, transactional_id="billing", transaction_timeout_ms=10**9)
    assert isinstance(await outcome(producer.init()), FatalError)
    await producer.close()


# Misuse


async def test_calls_out_of_order_are_refused_and_harmless(world, runtime):
    producer = a_producer(runtime, transactional_id="billing")
    with pytest.raises(InvalidTransactionState, match="init"):
        producer.begin()
    await producer.init()
    for call in (producer.send("orders", b"x"), producer.commit(), producer.abort()):
        assert isinstance(await outcome(call), InvalidTransactionState)
    assert isinstance(await outcome(producer.send_offsets({INVOICES[0]: 1}, "g")), InvalidTransactionState)
    producer.begin()
    with pytest.raises(InvalidTransactionState):
        producer.begin()
    await producer.send("orders", b"one", partition=0)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


# The context


async def send_in_transaction(producer: AsyncProducer) -> None:
    async with producer.transaction():
        await producer.send("orders", b"lost", partition=0)


async def send_and_fail(producer: AsyncProducer, meanwhile: Awaitable | None = None) -> None:
    async with producer.transaction():
        await (await producer.send("orders", b"gone", partition=0))
        if meanwhile is not None:
            await meanwhile
        raise ZeroDivisionError


async def test_the_context_commits_at_its_end_and_initializes_where_needed(world, runtime):
    producer = a_producer(runtime, transactional_id="billing")
    async with producer.transaction() as same:
        assert same is producer
        await producer.send("orders", b"one", partition=0)
    await settled()
    assert world.committed("orders") == [b"one"]
    await producer.close()


async def test_the_context_aborts_where_its_block_raises_and_lets_that_through(world, runtime):
    async with a_producer(runtime, transactional_id="billing") as producer:
        with pytest.raises(ZeroDivisionError):
            await send_and_fail(producer)
        async with producer.transaction():
            await producer.send("orders", b"kept", partition=0)
    await settled()
    assert world.committed("orders") == [b"kept"]


async def test_the_context_aborts_after_a_commit_that_failed_and_the_next_one_works(world, runtime):
    async with a_producer(runtime, transactional_id="billing", delivery_timeout_ms=500) as producer:
        leader = world.image.leader_of(ORDERS[0])
        world.kill(leader)
        with pytest.raises(DeliveryTimeout):
            await send_in_transaction(producer)
        world.start(leader)
        async with producer.transaction():
            await producer.send("orders", b"kept", partition=0)
    await settled()
    assert world.committed("orders") == [b"kept"]


async def test_a_fenced_producer_lets_what_the_block_raised_through(runtime):
    async with a_producer(runtime, transactional_id="billing") as producer:
        with pytest.raises(ZeroDivisionError):
            await send_and_fail(producer, meanwhile=a_transactional(runtime))


async def test_close_aborts_what_is_open(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await (await producer.send("orders", b"gone", partition=0))
    await producer.close()
    assert [request.commit for request in world.asked(EndTransaction)] == [False]
    assert isinstance(await outcome(producer.init()), ClientClosed)
    assert producer.state is State.DEAD


async def test_close_does_not_wait_for_ever_for_a_coordinator_that_is_gone(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await (await producer.send("orders", b"gone", partition=0))
    world.kill(COORDINATOR)
    await producer.close(timeout_ms=500)
    assert world.seconds < 1


async def test_a_transaction_over_many_partitions_keeps_no_memory_of_them(world, runtime):
    world.create("wide", 40)
    producer = await a_transactional(runtime)
    for partition in range(40):
        await commit_records(producer, b"one", partition=partition, topic="wide")
    assert len(producer._sender._queues) <= 9
    await producer.close()


async def test_markers_that_are_under_way_only_delay_the_next_transaction(world, runtime):
    producer = await a_transactional(runtime)
    await commit_records(producer, b"one")
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    other = next(name for name in ORDERS if world.image.leader_of(name) != leader)
    world.loop.call_later(2, world.start, leader)
    producer.begin()
    await producer.send("orders", b"two", partition=other.partition)
    await producer.commit()
    await commit_records(producer, b"three", partition=other.partition)
    await settled()
    assert world.committed("orders", other.partition) == [b"two", b"three"]
    assert world.committed("orders", 0) == [b"one"]
    await producer.close()


async def test_the_view_knows_who_coordinates_a_transactional_id(runtime):
    names = {runtime.view.transaction_partition(f"id-{number}") for number in range(50)}
    assert names == {TopicPartition("__transaction_state", number) for number in range(3)}
    assert runtime.view.transaction_coordinator("a") == COORDINATOR
    assert runtime.view.group_coordinator("a") == GROUPS
