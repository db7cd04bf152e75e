"""What holds for a record from `send` to its batch, in threads and on loops: parking, room, failures, deliveries."""

import asyncio
import concurrent.futures
import os
import threading
from contextlib import suppress
from itertools import takewhile
from types import SimpleNamespace

import pytest

from eagleray.broker.controller.events import GetMetadata
from eagleray.broker.partitions.events import Produce
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import (
    AbortableError,
    BufferFull,
    ClientClosed,
    ForkedClient,
    InvalidArgument,
    InvalidTransactionState,
    TopicNotFound,
    TransactionAborted,
)
from eagleray.client.producer.accumulator import Accumulator
from eagleray.client.producer.transaction_states import State
from eagleray.protocol.records import BatchBuilder
from tests.support.background import Background
from tests.support.client_helpers import ORDERS, a_producer, a_transactional, outcome, settled
from tests.unit.client.test_sync import WAIT_SECONDS

# Topics and partitions that are not known


async def test_record_of_an_unknown_topic_keeps_no_other_waiting(world, runtime):
    producer = a_producer(runtime, max_block_ms=60_000)
    lost = await producer.send("nothing", b"lost")
    assert (await producer.send_and_wait("orders", b"good", partition=0)).offset == 0
    assert world.loop.time() < 1
    assert not lost.done()
    assert isinstance(await outcome(lost), TopicNotFound)
    assert 60 <= world.loop.time() < 61
    await producer.close()


@pytest.mark.parametrize("topic", ["a b", "", "..", "t" * 250, "\udcff"])
async def test_name_that_no_topic_can_have_is_refused_at_once(topic, world, runtime):
    async with a_producer(runtime, max_block_ms=60_000) as producer:
        assert isinstance(await outcome(producer.send(topic, b"lost")), InvalidArgument)
        assert world.loop.time() < 1


def warnings_of(caplog):
    """What the producer has warned of, without the advice behind it."""
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("eagleray.client.producer.")]
    return [message.partition(" Create the topic")[0] for message in messages]


async def test_topic_that_never_came_is_warned_of_once_where_no_delivery_is_looked_at(caplog, runtime):
    async with a_producer(runtime, max_block_ms=1000) as producer:
        for number in range(3):
            await producer.send("nothing", str(number))
        await producer.send("other", b"alone")
        (await producer.send("nothing", b"seen")).add_done_callback(lambda _: None)
        await settled(2000)
    assert warnings_of(caplog) == [
        "3 records for nothing not delivered: there is no topic 'nothing' after 1000 ms.",
        "1 record for other not delivered: there is no topic 'other' after 1000 ms.",
    ]


async def test_failure_while_the_producer_closes_is_warned_of(caplog, runtime):
    async with a_producer(runtime, max_block_ms=1000) as producer:
        await producer.send("nothing", b"lost")
    assert warnings_of(caplog) == ["1 record for nothing not delivered: there is no topic 'nothing' after 1000 ms."]


async def test_partition_that_there_is_not_is_warned_of_once_where_no_delivery_is_looked_at(caplog, runtime):
    async with a_producer(runtime) as producer:
        for number in range(3):
            await producer.send("orders", str(number), partition=7)
        await producer.flush()
    assert warnings_of(caplog) == ["3 records for orders-7 not delivered: topic 'orders' has no partition 7; it has 3."]


async def test_records_of_a_topic_that_comes_later_keep_their_order(world, runtime):
    producer = a_producer(runtime)
    deliveries = [await producer.send("later", str(number), partition=0) for number in range(3)]
    world.create("later", 1)
    deliveries += [await producer.send("later", str(number), key=b"k") for number in range(3, 6)]
    runtime.view.update(world.image)
    deliveries += [await producer.send("later", str(number)) for number in range(6, 9)]
    assert [(await delivery).offset for delivery in deliveries] == list(range(9))
    assert world.committed("later") == [b"%d" % number for number in range(9)]
    assert not producer.sender.parking
    assert producer.sender.buffered_bytes == producer.sender.unresolved == 0
    await producer.close()


async def test_unknown_partition_fails_after_one_look_at_the_metadata(world, runtime):
    producer = a_producer(runtime, max_block_ms=60_000)
    lost = await producer.send("orders", b"lost", partition=3)
    assert "'orders' has no partition 3; it has 3" in str(await outcome(lost))
    assert world.loop.time() < 1
    assert len(world.asked(GetMetadata)) == 1
    await producer.close()


async def test_partition_that_the_client_has_not_heard_of_is_found(world, runtime):
    producer = a_producer(runtime)
    await world.create_topics({"later": 5})
    runtime.view.partitions["later"] = tuple(ORDERS)[:1]
    assert (await producer.send_and_wait("later", b"x", partition=4)).partition == 4
    await producer.close()


async def test_parked_records_count_against_the_buffer(world, runtime):
    producer = a_producer(runtime, buffer_memory=1000, max_block_ms=5000)
    parked = [await producer.send("later", bytes(200)) for _ in range(3)]
    sending = asyncio.ensure_future(producer.send("orders", bytes(400), partition=0))
    await settled(1000)
    assert not sending.done()
    world.create("later", 1)
    assert (await (await sending)).offset == 0
    assert [delivery.result().offset for delivery in parked] == [0, 1, 2]
    await producer.close()


async def test_delivery_that_is_kept_does_not_keep_the_records(runtime):
    producer = a_producer(runtime)
    delivery = await producer.send("orders", bytes(1000), partition=0)
    await delivery
    assert (len(delivery.ending.records), delivery.ending.encoded) == (0, None)
    await producer.close()


async def test_flush_waits_for_what_is_parked(world, runtime):
    producer = a_producer(runtime, linger_ms=5000)
    delivery = await producer.send("later", b"x")
    world.loop.call_later(1, world.create, "later", 1)
    await producer.flush()
    assert delivery.result().offset == 0
    assert 1 <= world.loop.time() < 2
    await producer.close()


async def test_commit_waits_for_what_is_parked(world, runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send("later", b"x")
    world.loop.call_later(1, world.create, "later", 1)
    await producer.commit()
    await settled()
    assert world.committed("later") == [b"x"]
    await producer.close()


async def test_commit_raises_that_a_topic_never_came(world, runtime):
    producer = await a_transactional(runtime, max_block_ms=500)
    producer.begin()
    good = await producer.send("orders", b"good", partition=0)
    lost = await producer.send("nothing", b"x")
    error = await outcome(producer.commit())
    assert isinstance(error, TopicNotFound)
    assert await outcome(lost) is error
    assert (await good).offset == 0
    assert producer.state is State.READY
    await settled()
    assert world.committed("orders") == []
    await producer.close()


async def test_abort_fails_what_is_parked(runtime):
    producer = await a_transactional(runtime)
    producer.begin()
    lost = await producer.send("nothing", b"x")
    await producer.abort()
    assert isinstance(await outcome(lost), TransactionAborted)
    assert producer.sender.buffered_bytes == 0
    await producer.close()


async def test_partitioner_that_raises_for_a_parked_record_fails_its_delivery(world, runtime):
    def divide(*fields):
        raise ZeroDivisionError

    producer = a_producer(runtime, partitioner=divide)
    lost = await producer.send("later", b"x")
    world.create("later", 1)
    with pytest.raises(ZeroDivisionError):
        await lost
    await producer.close()


# Sends that fail


async def test_cancelled_send_fails_the_transaction(world, runtime):
    producer = await a_transactional(runtime, buffer_memory=1000)
    producer.begin()
    world.kill(world.image.leader_of(ORDERS[0]))
    await producer.send("orders", bytes(900), partition=0)
    with suppress(TimeoutError):
        await asyncio.wait_for(producer.send("orders", bytes(900), partition=0), 1)
    error = await outcome(producer.commit())
    assert isinstance(error, AbortableError)
    assert "interrupted" in str(error)
    await producer.close()


async def test_full_buffer_fails_the_transaction(world, runtime):
    producer = await a_transactional(runtime, buffer_memory=1000, max_block_ms=100)
    producer.begin()
    world.kill(world.image.leader_of(ORDERS[0]))
    await producer.send("orders", bytes(900), partition=0)
    assert isinstance(await outcome(producer.send("orders", bytes(900), partition=0)), BufferFull)
    assert isinstance(await outcome(producer.send_offsets({ORDERS[0]: 1}, "g")), BufferFull)
    assert isinstance(await outcome(producer.commit()), BufferFull)
    await producer.close()


def test_interrupt_of_a_thread_that_waits_for_room_fails_the_transaction(background: Background, monkeypatch):
    world = background.world

    def interrupt(event, timeout=None):
        raise KeyboardInterrupt

    with background.cluster.producer(transactional_id="billing", buffer_memory=1000) as producer:
        producer.begin()
        leader = world.image.leader_of(ORDERS[0])
        background.on_loop(world.kill, leader)
        producer.send("orders", bytes(900), partition=0)
        with monkeypatch.context() as patched:
            patched.setattr("eagleray.client.producer.blocking_send.threading.Event.wait", interrupt)
            with pytest.raises(KeyboardInterrupt):
                producer.send("orders", bytes(900), partition=0)
        with pytest.raises(AbortableError, match="interrupted"):
            producer.commit()
        background.on_loop(world.start, leader)
        producer.abort()


@pytest.mark.parametrize("is_taken", [False, True])
def test_interrupt_on_the_way_to_waiting_for_room_fails_the_transaction(background: Background, is_taken: bool):
    world = background.world
    leader = world.image.leader_of(ORDERS[0])
    with background.cluster.producer(transactional_id="billing", buffer_memory=1000) as producer:
        producer.begin()
        background.on_loop(world.kill, leader)
        first = producer.send("orders", bytes(900), partition=0)
        real = producer._take

        def interrupt(*fields):
            if is_taken:
                real(*fields)
            raise KeyboardInterrupt

        producer._take = interrupt
        with pytest.raises(KeyboardInterrupt):
            producer.send("orders", bytes(800), partition=0)
        producer._take = real
        background.on_loop(world.start, leader)
        with pytest.raises(AbortableError, match="interrupted"):
            producer.commit()
        assert isinstance(first.exception(WAIT_SECONDS), AbortableError)
        with producer.transaction():
            producer.send("orders", b"next", partition=0)
    assert background.on_loop(world.committed, "orders") == [b"next"]


def test_send_that_is_interrupted_between_its_parts_leaves_the_wait_to_the_commit(background: Background, monkeypatch):
    world = background.world
    leader = world.image.leader_of(ORDERS[0])

    def interrupt(*fields):
        raise KeyboardInterrupt

    with background.cluster.producer(transactional_id="billing", buffer_memory=1000) as producer:
        producer.begin()
        background.on_loop(world.kill, leader)
        producer.send("orders", bytes(900), partition=0)
        with monkeypatch.context() as patched:
            patched.setattr(producer, "_when_room", interrupt)
            with pytest.raises(KeyboardInterrupt):
                producer.send("orders", bytes(800), partition=0)
        background.on_loop(world.start, leader)
        with pytest.raises(AbortableError, match="waiting for room"):
            producer.commit()
        with producer.transaction():
            producer.send("orders", b"next", partition=0)
    assert background.on_loop(world.committed, "orders") == [b"next"]


def test_interrupt_before_the_loop_is_woken_keeps_no_record_waiting(background: Background, monkeypatch):
    real, interrupted = Accumulator._wake, []

    def interrupt_first(sender):
        if not interrupted:
            interrupted.append(sender)
            raise KeyboardInterrupt
        real(sender)

    monkeypatch.setattr(Accumulator, "_wake", interrupt_first)
    with background.cluster.producer() as producer:
        with pytest.raises(KeyboardInterrupt):
            producer.send("orders", b"first", partition=0)
        assert producer.send("orders", b"second", partition=0).result(WAIT_SECONDS).offset == 1


def test_interrupt_while_offsets_are_sent_fails_the_transaction(background: Background, monkeypatch):
    def interrupt(work):
        work.close()
        raise KeyboardInterrupt

    with background.cluster.producer(transactional_id="billing") as producer:
        producer.begin()
        producer.send("orders", b"alone", partition=0)
        with monkeypatch.context() as patched:
            patched.setattr(producer, "_run", interrupt)
            with pytest.raises(KeyboardInterrupt):
                producer.send_offsets({ORDERS[0]: 1}, "readers")
        with pytest.raises(AbortableError, match="interrupted"):
            producer.commit()
    assert background.on_loop(background.world.committed, "orders") == []


def test_offsets_of_a_wrong_type_fail_the_transaction_of_a_blocking_producer(background: Background):
    with background.cluster.producer(transactional_id="billing") as producer:
        producer.begin()
        producer.send("orders", b"alone", partition=0)
        with pytest.raises(InvalidArgument, match="the group is None"):
            producer.send_offsets({ORDERS[0]: 1}, None)
        with pytest.raises(InvalidArgument, match="the group is None"):
            producer.commit()
        with producer.transaction():
            producer.send("orders", b"next", partition=0)
    assert background.on_loop(background.world.committed, "orders") == [b"next"]


def test_failed_send_of_a_plain_producer_fails_nothing_else(background: Background):
    with background.cluster.producer() as producer:
        with pytest.raises(TypeError):
            producer.send("orders", 7)
        assert producer.send("orders", b"fine").result(WAIT_SECONDS).offset == 0


def test_thread_that_waits_for_room_is_told_when_the_loop_is_closed(background: Background):
    world = background.world
    producer = background.cluster.producer(buffer_memory=1000)
    background.on_loop(world.kill, world.image.leader_of(ORDERS[0]))
    producer.send("orders", bytes(900), partition=0)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(producer.send, "orders", bytes(900), partition=0)
        while not producer._sender.room_waiters:
            assert not waiting.done()
        background.on_loop(world.close)
        background.cluster.close()
        assert isinstance(waiting.exception(WAIT_SECONDS), ClientClosed)
    producer.close()


def a_prepared_batch(*values: bytes) -> BatchBuilder:
    builder = BatchBuilder()
    for value in values:
        builder.append(value, None, 77, ())
    return builder


def test_prepared_batches_wait_for_room_and_arrive_in_order(background: Background):
    cluster = background.cluster
    with cluster.begin("job", tag="one") as transaction:
        with cluster.join(transaction.branch(), buffer_memory=1000) as writer:
            writer.send("orders", b"first", partition=0)
            batches = [a_prepared_batch(b"%d" % number, bytes(300)) for number in range(10)]
            writer.send_prepared((ORDERS[0], batch) for batch in batches)
            writer.send("orders", b"last", partition=0)
            sealed = writer.seal()
        transaction.commit([sealed])
    with cluster.consumer("orders", isolation="read_committed") as consumer:
        values = list(takewhile(lambda value: value != b"last", (record.value for record in consumer)))
    assert values == [b"first", *(value for number in range(10) for value in (b"%d" % number, bytes(300)))]


def test_branch_whose_prepared_batches_failed_cannot_be_sealed(background: Background):
    def batches():
        yield ORDERS[0], a_prepared_batch(b"x")
        raise ZeroDivisionError

    cluster = background.cluster
    transaction = cluster.begin("job", tag="one")
    with cluster.join(transaction.branch()) as writer:
        for act in (lambda: writer.send_prepared(batches()), writer.seal):
            with pytest.raises(ZeroDivisionError):
                act()
    transaction.abort()


def test_branch_that_is_being_sealed_takes_no_more_records_of_other_threads(background: Background):
    world, cluster = background.world, background.cluster
    transaction = cluster.begin("job", tag="one")
    leader = world.image.leader_of(ORDERS[0])
    with cluster.join(transaction.branch()) as writer, concurrent.futures.ThreadPoolExecutor(1) as pool:
        background.on_loop(world.kill, leader)
        first = writer.send("orders", b"one", partition=0)
        sealing = pool.submit(writer.seal)
        while not first.ending.callbacks:
            assert not sealing.done()
        with pytest.raises(InvalidTransactionState, match="being sealed"):
            writer.send("orders", b"late", partition=0)
        background.on_loop(world.start, leader)
        transaction.commit([sealing.result(WAIT_SECONDS)])
    assert first.result(0).offset == 0


async def test_commit_fails_where_a_send_still_waits_for_room(world, runtime):
    producer = await a_transactional(runtime, buffer_memory=1000)
    producer.begin()
    await producer.send("orders", bytes(900), partition=0)
    late = asyncio.ensure_future(producer.send("orders", bytes(800), partition=0))
    await asyncio.sleep(0)
    error = await outcome(producer.commit())
    assert isinstance(error, AbortableError)
    assert "waiting for room" in str(error)
    assert await outcome(late) is error
    await producer.abort()
    producer.begin()
    await producer.send("orders", b"next", partition=0)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"next"]
    await producer.close()


async def test_send_that_waited_for_room_neither_joins_nor_fails_the_next_transaction(world, runtime):
    producer = await a_transactional(runtime, buffer_memory=1000)
    producer.begin()
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    await producer.send("orders", bytes(900), partition=0)
    sender = producer.sender
    waiting = sender.send("orders", bytes(800), None, 0, None, (), None)
    await producer.abort()
    world.start(leader)
    producer.begin()
    with pytest.raises(AbortableError, match="still waiting") as late:
        sender.send_again(waiting)
    sender.give_up(waiting, late.value)
    await producer.send("orders", b"next", partition=0)
    await producer.commit()
    await settled()
    assert world.committed("orders") == [b"next"]
    await producer.close()


@pytest.mark.parametrize("is_prepared", [False, True])
async def test_branch_cannot_be_sealed_where_a_send_still_waits_for_room(is_prepared: bool, runtime):
    cluster = AsyncCluster(runtime)
    transaction = await cluster.begin("job-7", tag="batch-12")
    writer = await cluster.join(transaction.branch(), buffer_memory=1000)
    await writer.send("orders", bytes(900), partition=0)
    send = writer.send_prepared(ORDERS[0], a_prepared_batch(bytes(800))) if is_prepared else None
    late = asyncio.ensure_future(send or writer.send("orders", bytes(800), partition=0))
    await asyncio.sleep(0)
    error = await outcome(writer.seal())
    assert isinstance(error, AbortableError)
    assert "waiting for room" in str(error)
    assert await outcome(late) is error
    assert await outcome(writer.seal()) is error
    await writer.close()
    await transaction.abort()


def wait_for_room(producer, waiting: concurrent.futures.Future) -> None:
    while not producer._sender.room_waiters:
        assert not waiting.done()


def test_commit_fails_where_a_thread_still_waits_for_room(background: Background):
    world = background.world
    leader = world.image.leader_of(ORDERS[0])
    settings = {"transactional_id": "billing", "buffer_memory": 1000}
    with background.cluster.producer(**settings) as producer, concurrent.futures.ThreadPoolExecutor(1) as pool:
        producer.begin()
        background.on_loop(world.kill, leader)
        producer.send("orders", bytes(900), partition=0)
        late = pool.submit(producer.send, "orders", bytes(800), partition=0)
        wait_for_room(producer, late)
        with pytest.raises(AbortableError, match="waiting for room"):
            producer.commit()
        assert "waiting for room" in str(late.exception(WAIT_SECONDS))
        background.on_loop(world.start, leader)
        with producer.transaction():
            next_one = producer.send("orders", b"next", partition=0)
        assert next_one.result(0).offset == 0


def test_thread_that_wakes_in_the_next_transaction_sends_nothing_into_it(background: Background, monkeypatch):
    world = background.world
    leader = world.image.leader_of(ORDERS[0])
    has_begun = threading.Event()

    class Oversleeping(threading.Event):
        def wait(self, timeout=None):
            return super().wait(timeout) and has_begun.wait(WAIT_SECONDS)

    settings = {"transactional_id": "billing", "buffer_memory": 1000}
    with background.cluster.producer(**settings) as producer, concurrent.futures.ThreadPoolExecutor(1) as pool:
        producer.begin()
        background.on_loop(world.kill, leader)
        producer.send("orders", bytes(900), partition=0)
        with monkeypatch.context() as patched:
            # In this module alone: the pool's thread would oversleep its own start.
            patched.setattr("eagleray.client.producer.blocking_send.threading", SimpleNamespace(Event=Oversleeping))
            late = pool.submit(producer.send, "orders", bytes(800), partition=0)
            wait_for_room(producer, late)
        producer.abort()
        background.on_loop(world.start, leader)
        producer.begin()
        has_begun.set()
        assert "waiting for room" in str(late.exception(WAIT_SECONDS))
        next_one = producer.send("orders", b"next", partition=0)
        producer.commit()
    assert next_one.result(0).offset == 0
    assert background.on_loop(world.committed, "orders") == [b"next"]


def test_branch_cannot_be_sealed_where_a_thread_still_waits_for_room(background: Background):
    world, cluster = background.world, background.cluster
    leader = world.image.leader_of(ORDERS[0])
    transaction = cluster.begin("job", tag="one")
    with (
        cluster.join(transaction.branch(), buffer_memory=1000) as writer,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        background.on_loop(world.kill, leader)
        writer.send("orders", bytes(900), partition=0)
        late = pool.submit(writer.send_prepared, [(ORDERS[0], a_prepared_batch(bytes(800)))])
        wait_for_room(writer, late)
        sealing = pool.submit(writer.seal)
        while writer._sender.refusal is None:
            assert not sealing.done()
        background.on_loop(world.start, leader)
        for waiting in (sealing, late):
            assert "waiting for room" in str(waiting.exception(WAIT_SECONDS))
    transaction.abort()


# Threads and the loop


def test_threads_that_send_and_flush_leave_nothing_behind(background: Background):
    def work(name: int) -> None:
        for number in range(300):
            producer.send("orders", bytes(name * 10), partition=number % 3)
            if number % 100 == 50:
                producer.flush()

    with background.cluster.producer(batch_size=500, buffer_memory=5000) as producer:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work, name) for name in range(4)]:
                done.result(WAIT_SECONDS)
        producer.flush()
        assert (producer._sender.buffered_bytes, producer._sender.unresolved) == (0, 0)
    assert len(background.on_loop(background.world.committed, "orders")) == 1200


def test_loop_is_woken_once_for_many_records(background: Background, monkeypatch):
    loop, woken = background.thread.loop, []

    class CountingLoop:
        def __getattr__(self, name):
            if name == "call_soon_threadsafe":
                woken.append(name)
            return getattr(loop, name)

    producer = background.cluster.producer(linger_ms=50)
    producer.send("orders", b"x", partition=0).result(WAIT_SECONDS)
    with monkeypatch.context() as patched:
        patched.setattr(background.cluster._cluster.runtime, "loop", CountingLoop())
        gate = threading.Event()
        # Not by `on_loop`, whose own answer would come behind the gate.
        loop.call_soon_threadsafe(gate.wait, WAIT_SECONDS)
        for _ in range(1000):
            producer.send("orders", b"x", partition=0)
        gate.set()
    assert len(woken) == 1
    producer.close()
    assert len(background.world.asked(Produce)) < 10


def test_callback_may_send_again(background: Background):
    told: concurrent.futures.Future = concurrent.futures.Future()

    def send_again(metadata, error) -> None:
        producer.send("orders", b"second", partition=0, on_delivery=lambda *news: told.set_result(news))

    with background.cluster.producer() as producer:
        producer.send("orders", b"first", partition=0, on_delivery=send_again)
        metadata, error = told.result(WAIT_SECONDS)
    assert (metadata.offset, error) == (1, None)


def test_delivery_waits_no_longer_than_it_is_told(background: Background):
    world = background.world
    leader = world.image.leader_of(ORDERS[0])
    background.on_loop(world.kill, leader)
    with background.cluster.producer() as producer:
        delivery = producer.send("orders", b"x", partition=0)
        for wait in (delivery.result, delivery.exception):
            with pytest.raises(TimeoutError):
                wait(0.01)
        assert not delivery.done()
        background.on_loop(world.start, leader)
        assert delivery.exception(WAIT_SECONDS) is None
        assert delivery.result().offset == 0


def test_delivery_of_a_parked_record_can_be_waited_for_in_a_thread(background: Background):
    with background.cluster.producer() as producer, concurrent.futures.ThreadPoolExecutor(2) as pool:
        delivery = producer.send("later", b"x")
        waiting = [pool.submit(delivery.result, WAIT_SECONDS) for _ in range(2)]
        background.on_loop(background.world.create, "later", 1)
        assert [each.result(WAIT_SECONDS).offset for each in waiting] == [0, 0]


def test_delivery_of_a_blocking_producer_can_be_awaited_on_another_loop(background: Background):
    async def main(delivery):
        return (await delivery).offset

    with background.cluster.producer(linger_ms=20) as producer:
        assert asyncio.run(main(producer.send("orders", b"x", partition=0))) == 0


async def test_delivery_on_the_loop_does_not_block_it(runtime):
    producer = a_producer(runtime)
    delivery = await producer.send("orders", b"x", partition=0)
    assert delivery.exception() is None
    with pytest.raises(asyncio.InvalidStateError):
        delivery.result()
    assert (await delivery).offset == 0
    await producer.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_process_cannot_send_or_wait(background: Background):
    world = background.world
    background.on_loop(world.kill, world.image.leader_of(ORDERS[0]))
    producer = background.cluster.producer()
    delivery = producer.send("orders", b"x", partition=0)
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            for act in (lambda: producer.send("orders", b"x"), delivery.result, producer.flush):
                try:
                    act()
                except ForkedClient:
                    continue
                os._exit(2)
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    background.on_loop(world.start, world.image.leader_of(ORDERS[0]))
    producer.close()
