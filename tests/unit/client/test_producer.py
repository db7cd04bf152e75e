"""Producers without transactions: batching, order, repetition, time limits, backpressure."""

import asyncio
import pickle

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import Produce, Produced
from eagleray.broker.transactions.events import InitProducerId
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.errors import (
    BufferFull,
    ClientClosed,
    DeliveryTimeout,
    InvalidTransactionState,
    MessageTooLarge,
    OutOfOrderSequence,
    RecordRefused,
    RefusedError,
    TopicNotFound,
)
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import CompressionType, split_batches
from tests.support.client_helpers import ORDERS, a_producer, outcome, settled
from tests.support.cluster_in_memory import LEADER_A, LEADER_B, ClusterInMemory
from tests.support.lanes_in_memory import Fate


def headers_of(world: ClusterInMemory, partition: TopicPartition | None = None) -> list:
    """The batches that clients have sent, as often as they were sent."""
    sent = [request for request in world.asked(Produce) if partition in (None, request.partition)]
    return [split_batches(request.records)[0].header for request in sent]


async def test_a_delivery_says_where_the_record_is(world, runtime):
    producer = a_producer(runtime)
    first = await producer.send("orders", b"one", key=b"k", partition=1, timestamp_ms=77, headers={"h": b"x"})
    second = await producer.send("orders", "two", partition=1)
    metadata = await first
    assert (metadata.topic, metadata.partition, metadata.offset, metadata.timestamp) == ("orders", 1, 0, 77)
    assert (await second).offset == 1
    (record, _) = world.committed_records(ORDERS[1])
    assert (record.key, record.value, record.timestamp, record.headers) == (b"k", b"one", 77, (("h", b"x"),))
    await producer.close()


async def test_records_of_one_turn_share_a_batch(world, runtime):
    producer = a_producer(runtime)
    for number in range(10):
        await producer.send("orders", str(number), partition=0)
    await producer.flush()
    assert len(world.asked(Produce)) == 1
    assert world.committed("orders") == [str(number).encode() for number in range(10)]
    await producer.close()


async def test_a_batch_lingers_for_more_records_and_then_goes(world, runtime):
    producer = a_producer(runtime, linger_ms=50)
    await producer.send("orders", b"one", partition=0)
    await asyncio.sleep(0.04)
    assert world.asked(Produce) == []
    delivery = await producer.send("orders", b"two", partition=0)
    await delivery
    assert 0.05 <= world.seconds < 0.08
    assert len(world.asked(Produce)) == 1
    await producer.close()


async def test_each_record_of_a_refused_batch_is_told_what_it_is_refused_for(world, runtime):
    await AsyncAdmin(runtime).create_topic("latest", partitions=1, configs={"cleanup.policy": "compact"})
    producer = a_producer(runtime, linger_ms=50)
    keys = (b"a", None, b"b", None)
    deliveries = [await producer.send("latest", b"value", key=key, partition=0) for key in keys]
    for number, delivery in enumerate(deliveries):
        with pytest.raises(RecordRefused) as refusal:
            await delivery
        assert refusal.value.error_code is ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in refusal.value.record_errors] == [1, 3]
        if number in {1, 3}:
            expected = f"record {number} of a batch for latest-0 is refused: it has no key, and the topic is compacted."
            assert refusal.value.message == expected
        else:
            assert "others of its batch are refused" in refusal.value.message
            assert "record 1: it has no key" in refusal.value.message
        copy = pickle.loads(pickle.dumps(refusal.value))
        assert (str(copy), copy.record_errors) == (str(refusal.value), refusal.value.record_errors)
    assert (await producer.send_and_wait("latest", b"value", key=b"key", partition=0)).offset == 0
    await producer.close()


async def test_flush_does_not_wait_for_the_linger(world, runtime):
    producer = a_producer(runtime, linger_ms=5000)
    delivery = await producer.send("orders", b"one", partition=0)
    await producer.flush()
    assert delivery.done()
    assert world.seconds < 1
    await producer.close()


async def test_a_full_batch_goes_at_once_and_the_next_one_begins(world, runtime):
    producer = a_producer(runtime, linger_ms=5000, batch_size=1000)
    for _ in range(25):
        await producer.send("orders", bytes(100), partition=0)
    await settled(100)
    assert len(world.asked(Produce)) == 3
    assert all(len(request.records) <= 1000 for request in world.asked(Produce))
    await producer.flush()
    assert len(world.committed("orders")) == 25
    await producer.close()


async def test_batches_are_compressed_as_configured(world, runtime):
    producer = a_producer(runtime, compression_type="zstd")
    await producer.send_and_wait("orders", bytes(10_000), partition=0)
    (header,) = headers_of(world)
    assert header.compression is CompressionType.ZSTD
    assert len(world.asked(Produce)[0].records) < 500
    assert world.committed("orders") == [bytes(10_000)]
    await producer.close()


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
async def test_an_idempotent_producer_writes_each_record_once_whatever_is_lost(fate: Fate, world, runtime):
    producer = a_producer(runtime)
    world.network.plan(Produce, fate, times=2)
    deliveries = []
    for number in range(4):
        deliveries.append(await producer.send("orders", str(number), partition=0))
        await asyncio.sleep(0.01)
    offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == [0, 1, 2, 3]
    await settled()
    assert world.committed("orders", 0) == [b"0", b"1", b"2", b"3"]
    await producer.close()


async def test_a_repetition_is_the_same_batch_byte_for_byte(world, runtime):
    producer = a_producer(runtime)
    world.network.plan(Produce, Fate.REPLY_LOST)
    await producer.send_and_wait("orders", b"one", partition=0)
    first, second = world.asked(Produce)
    assert first.records == second.records
    await producer.close()


async def test_batches_behind_a_lost_one_are_repeated_in_order(world, runtime):
    producer = a_producer(runtime, batch_size=100)
    await producer.send_and_wait("orders", bytes(60), partition=0)
    world.network.plan(Produce, Fate.REQUEST_LOST)
    deliveries = [await producer.send("orders", bytes([number]) * 60, partition=0) for number in range(1, 6)]
    assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3, 4, 5]
    assert [value[0] for value in world.committed("orders", 0)] == [0, 1, 2, 3, 4, 5]
    sequences = [header.base_sequence for header in headers_of(world)][1:]
    assert sequences[:5] == [1, 2, 3, 4, 5]
    assert len(sequences) > 6
    await producer.close()


async def test_until_a_partition_knows_the_producer_its_first_batch_travels_alone(world, runtime):
    producer = a_producer(runtime, batch_size=100)
    world.network.plan(Produce, Fate.REQUEST_LOST)
    deliveries = [await producer.send("orders", bytes([number]) * 60, partition=0) for number in range(3)]
    await asyncio.sleep(0.01)
    assert len(world.asked(Produce)) == 1
    assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2]
    await producer.close()


async def test_no_more_than_the_limit_of_a_partition_is_in_flight(world, runtime):
    producer = a_producer(runtime, batch_size=100, max_in_flight_requests_per_connection=2)
    await producer.send_and_wait("orders", bytes(60), partition=0)
    world.kill(world.image.leader_of(ORDERS[0]))
    deliveries = [await producer.send("orders", bytes(60), partition=0) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert len(world.asked(Produce)) == 1 + 2
    world.start(world.image.leader_of(ORDERS[0]))
    assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3, 4, 5]
    await producer.close()


@pytest.mark.parametrize("node_id", [LEADER_A, LEADER_B])
async def test_records_arrive_once_when_their_leader_restarts(node_id: int, world, runtime):
    producer = a_producer(runtime)
    values = [str(number).encode() for number in range(30)]
    deliveries = []
    for number, value in enumerate(values):
        deliveries.append(await producer.send("orders", value, partition=number % 3))
        if number == 15:
            world.kill(node_id)
            world.loop.call_later(0.5, world.start, node_id)
        await asyncio.sleep(0.01)
    for delivery in deliveries:
        await delivery
    assert sorted(world.committed("orders"), key=int) == values
    await producer.close()


async def test_a_leader_that_moved_is_found_by_fresh_metadata(world, runtime):
    producer = a_producer(runtime)
    runtime.view.leaders[ORDERS[0]] = LEADER_A + LEADER_B - world.image.leader_of(ORDERS[0])
    assert (await producer.send_and_wait("orders", b"one", partition=0)).offset == 0
    assert len(world.asked(Produce)) == 2
    assert world.seconds < 1
    await producer.close()


async def test_delivery_times_out_and_what_follows_goes_on_in_the_next_epoch(world, runtime):
    producer = a_producer(runtime, delivery_timeout_ms=1000, request_timeout_ms=200)
    await producer.send_and_wait("orders", b"before", partition=0)
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    lost = await producer.send("orders", b"lost", partition=0)
    error = await outcome(lost)
    assert isinstance(error, DeliveryTimeout)
    assert "orders-0" in str(error)
    world.start(leader)
    assert (await producer.send_and_wait("orders", b"after", partition=0)).offset == 1
    assert (headers_of(world)[-1].producer_epoch, headers_of(world)[-1].base_sequence) == (1, 0)
    assert world.committed("orders", 0) == [b"before", b"after"]
    await producer.close()


@pytest.mark.parametrize("longest_pause_ms", [1000, 200], ids=["not sent yet", "sent before"])
async def test_batches_behind_one_that_timed_out_arrive_once(longest_pause_ms, world, runtime):
    producer = a_producer(runtime, delivery_timeout_ms=1000, batch_size=100, retry_backoff_max_ms=longest_pause_ms)
    leader = world.image.leader_of(ORDERS[0])
    await producer.send_and_wait("orders", b"before", partition=0)
    world.kill(leader)
    lost = await producer.send("orders", b"l" * 60, partition=0)
    await asyncio.sleep(0.9)
    kept = [await producer.send("orders", bytes([number]) * 60, partition=0) for number in range(3)]
    assert isinstance(await outcome(lost), DeliveryTimeout)
    world.start(leader)
    for delivery in kept:
        await delivery
    assert [value[:1] for value in world.committed("orders", 0)] == [b"b", b"\0", b"\1", b"\2"]
    await producer.close()


async def test_a_lost_log_is_reported_and_the_producer_goes_on(runtime):
    producer = a_producer(runtime)
    await producer.send_and_wait("orders", b"one", partition=0)
    producer._sender._queues[ORDERS[0]].next_sequence = 7
    assert isinstance(await outcome(await producer.send("orders", b"two", partition=0)), OutOfOrderSequence)
    assert (await producer.send_and_wait("orders", b"three", partition=0)).offset == 1
    await producer.close()


async def test_a_batch_whose_duplicate_is_too_old_to_have_an_offset_counts_as_written(runtime):
    producer = a_producer(runtime)
    real = runtime.ask

    def ask(node_id, on_reply, kind, *fields):
        if kind is Produce:
            duplicate = Produced(0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            runtime.loop.call_soon(on_reply, duplicate)
        else:
            real(node_id, on_reply, kind, *fields)

    runtime.ask = ask
    assert (await producer.send_and_wait("orders", b"one", partition=0)).offset == -1
    await producer.close()


async def test_sequences_wrap_behind_the_largest(runtime):
    producer = a_producer(runtime)
    await producer.send_and_wait("orders", b"one", partition=0)
    queue = producer._sender._queues[ORDERS[0]]
    queue.next_sequence = 2**31 - 1
    assert queue.take_sequence(2) == 2**31 - 1
    assert queue.next_sequence == 1
    await producer.close()


async def test_without_idempotence_no_producer_id_is_asked_for(world, runtime):
    producer = a_producer(runtime, enable_idempotence=False, acks=1)
    assert (await producer.send_and_wait("orders", b"one", partition=0)).offset == 0
    assert world.asked(InitProducerId) == []
    assert (headers_of(world)[0].producer_id, headers_of(world)[0].base_sequence) == (-1, -1)
    assert world.asked(Produce)[0].acks == 1
    await producer.close()


async def test_without_acks_nobody_is_waited_for(world, runtime):
    producer = a_producer(runtime, enable_idempotence=False, acks=0)
    assert (await producer.send_and_wait("orders", b"one", partition=0)).offset == -1
    await settled()
    assert world.committed("orders", 0) == [b"one"]
    await producer.close()


async def test_getting_a_producer_id_is_tried_until_it_is_answered(world, runtime):
    producer = a_producer(runtime)
    world.network.plan(InitProducerId, Fate.REQUEST_LOST, times=3)
    assert (await producer.send_and_wait("orders", b"one", partition=0)).offset == 0
    assert len(world.asked(InitProducerId)) == 4
    await producer.close()


async def test_an_unknown_topic_is_waited_for_and_then_named(world, runtime):
    producer = a_producer(runtime, max_block_ms=500)
    error = await outcome(await producer.send("nothing", b"one"))
    assert isinstance(error, TopicNotFound)
    assert "'nothing'" in str(error)
    assert 0.5 <= world.seconds < 0.8
    await producer.close()


async def test_a_full_buffer_makes_send_wait_and_then_refuse(world, runtime):
    producer = a_producer(runtime, buffer_memory=1000, max_block_ms=300)
    leader = world.image.leader_of(ORDERS[0])
    world.kill(leader)
    for _ in range(5):
        await producer.send("orders", bytes(100), partition=0)
    assert isinstance(await outcome(producer.send("orders", bytes(100), partition=0)), BufferFull)
    waiting = asyncio.ensure_future(producer.send("orders", bytes(100), partition=0))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    world.start(leader)
    assert (await (await waiting)).offset == 5
    await producer.close()


async def test_a_record_that_is_too_large_is_refused_at_once(runtime):
    producer = a_producer(runtime, max_request_size=1000)
    error = await outcome(producer.send("orders", bytes(1000), partition=0))
    assert isinstance(error, MessageTooLarge)
    assert "max.request.size" in str(error)
    await producer.close()


async def test_producer_that_is_new_in_a_full_partition_is_told_so_and_disturbs_no_other(runtime):
    await AsyncAdmin(runtime).create_topic("few", partitions=1, configs={"max.producer.ids": "1"})
    first, second = a_producer(runtime, enable_idempotence=True), a_producer(runtime, enable_idempotence=True)
    await (await first.send("few", b"one"))
    error = await outcome(await second.send("few", b"two"))
    assert isinstance(error, RefusedError)
    assert error.error_code is ErrorCode.POLICY_VIOLATION
    assert "max.producer.ids" in str(error)
    assert (await (await first.send("few", b"three"))).offset == 1
    await first.close()
    await second.close()


async def test_a_record_that_the_topic_refuses_fails_alone(world, runtime):
    producer = a_producer(runtime, max_request_size=10_000_000, batch_size=100)
    deliveries = [
        await producer.send("orders", value, partition=0) for value in (b"a" * 60, bytes(2_000_000), b"b" * 60)
    ]
    await producer.flush()
    assert [type(delivery.exception()) for delivery in deliveries] == [type(None), MessageTooLarge, type(None)]
    assert [value[:1] for value in world.committed("orders", 0)] == [b"a", b"b"]
    await producer.close()


async def test_a_callback_that_fails_harms_nobody_else(caplog, runtime):
    producer = a_producer(runtime)

    def fail(*news):
        raise ZeroDivisionError

    first = await producer.send("orders", b"one", partition=0, on_delivery=fail)
    second = await producer.send("orders", b"two", partition=0)
    assert ((await first).offset, (await second).offset) == (0, 1)
    first.add_done_callback(fail)
    await producer.close()
    assert caplog.text.count("a callback for a delivery to orders-0 has failed") == 2


async def test_callbacks_are_told_of_success_and_of_failure(world, runtime):
    told = []
    producer = a_producer(runtime, delivery_timeout_ms=500)
    await producer.send("orders", b"one", partition=0, on_delivery=lambda *news: told.append(news))
    await producer.flush()
    world.kill(world.image.leader_of(ORDERS[0]))
    await producer.send("orders", b"two", partition=0, on_delivery=lambda *news: told.append(news))
    await producer.flush()
    (metadata, no_error), (no_metadata, error) = told
    assert (metadata.offset, no_error, no_metadata) == (0, None, None)
    assert isinstance(error, DeliveryTimeout)
    await producer.close()


async def test_a_partitioner_of_the_application_decides(runtime):
    producer = a_producer(runtime, partitioner=lambda topic, key, value, partitions: len(value) % partitions)
    assert (await producer.send_and_wait("orders", b"four")).partition == 1
    assert (await producer.send_and_wait("orders", b"fives")).partition == 2
    await producer.close()


async def test_a_request_without_any_answer_is_repeated_after_the_request_timeout(world, runtime):
    producer = a_producer(runtime, request_timeout_ms=400)
    world.network.plan(Produce, Fate.FORGOTTEN)
    assert (await producer.send_and_wait("orders", b"one", partition=0)).offset == 0
    assert 0.4 <= world.seconds < 0.6
    await producer.close()


async def test_a_late_refusal_of_an_earlier_attempt_does_not_count(world, runtime):
    producer = a_producer(runtime, request_timeout_ms=400)
    real, kept = runtime.ask, []

    def ask(node_id, on_reply, kind, *fields):
        if kind is Produce and not kept:
            kept.append(on_reply)
            return
        real(node_id, on_reply, kind, *fields)
        if kind is Produce:
            runtime.loop.call_soon(kept[0], Produced(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))

    runtime.ask = ask
    assert (await producer.send_and_wait("orders", b"one", partition=0)).offset == 0
    assert len(world.asked(Produce)) == 1
    await producer.close()


async def test_a_producer_without_a_transactional_id_has_no_transactions(runtime):
    producer = a_producer(runtime)
    with pytest.raises(InvalidTransactionState, match=r"transactional\.id"):
        producer.begin()
    assert isinstance(await outcome(producer.commit()), InvalidTransactionState)
    await producer.close()


async def test_close_waits_for_records_and_then_refuses_more(runtime):
    producer = a_producer(runtime, linger_ms=1000)
    delivery = await producer.send("orders", b"one", partition=0)
    await producer.close()
    await producer.close()
    assert delivery.done()
    assert (await delivery).offset == 0
    assert isinstance(await outcome(producer.send("orders", b"two")), ClientClosed)


async def test_close_gives_up_on_records_after_its_timeout(world, runtime):
    producer = a_producer(runtime)
    world.kill(world.image.leader_of(ORDERS[0]))
    delivery = await producer.send("orders", b"one", partition=0)
    await producer.close(timeout_ms=300)
    assert isinstance(delivery.exception(), ClientClosed)
    assert world.seconds < 1


async def test_an_idle_client_has_no_timer(runtime):
    producer = a_producer(runtime)
    await producer.send_and_wait("orders", b"one", partition=0)
    await settled(200)
    assert runtime._ticker is None
    assert not producer._sender.is_watched
    await producer.close()
