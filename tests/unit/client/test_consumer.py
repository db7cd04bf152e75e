"""Consumers: what they return, where they are, and what they do about trouble."""

import asyncio

import msgspec
import pytest

from eagleray.broker.groups.events import CommitOffsets, FetchOffsets
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import Fetch, Fetched, FetchedPartition, ListOffset
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.cluster import AsyncCluster
from eagleray.client.config import ConsumerConfig
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.consumer.fetched_batches import unpack
from eagleray.client.errors import (
    ClientClosed,
    CorruptRecords,
    InvalidArgument,
    InvalidConfig,
    NoOffset,
    OffsetOutOfRange,
    RefusedError,
    TopicNotFound,
)
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
from tests.support.cluster_in_memory import GROUPS, LEADER_A, LEADER_B
from tests.support.lanes_in_memory import Fate
from tests.unit.protocol.forge import forge_bytes


async def write(runtime, *values: bytes, partition: int = 0, **settings) -> None:
    producer = a_producer(runtime, **settings)
    for number, value in enumerate(values):
        await producer.send("orders", value, partition=partition, timestamp_ms=1000 + number)
    await producer.flush()
    await producer.close()


async def test_records_come_with_everything_they_were_written_with(runtime):
    producer = a_producer(runtime)
    await producer.send_and_wait("orders", b"v", key=b"k", partition=2, timestamp_ms=5, headers=[("h", b"x")])
    consumer = await a_consumer(runtime)
    (record,) = await consumer.poll(1000)
    assert (record.topic, record.partition, record.offset, record.timestamp) == ("orders", 2, 0, 5)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"x"),))
    assert record.topic_partition == ORDERS[2]
    await producer.close()
    await consumer.close()


async def test_subscribing_reads_all_partitions_of_the_topics(runtime):
    for partition in range(3):
        await write(runtime, str(partition).encode(), partition=partition)
    consumer = AsyncConsumer(runtime, ConsumerConfig.make(auto_offset_reset="earliest"))
    await consumer.subscribe("orders", "invoices")
    assert len(consumer.assignment()) == 5
    assert sorted(await poll_values(consumer, 3)) == [b"0", b"1", b"2"]
    await consumer.close()


async def test_a_consumer_subscribes_when_it_is_entered_or_first_polled(runtime):
    await write(runtime, b"one")
    cluster = AsyncCluster(runtime)
    async with cluster.consumer("orders", group="a", isolation="read_committed") as consumer:
        assert consumer.assignment() == set(ORDERS)
    polled = cluster.consumer("orders", auto_offset_reset="earliest")
    assert await poll_values(polled, 1) == [b"one"]
    await polled.close()


async def test_two_tasks_may_wait_on_one_consumer(runtime):
    consumer = await a_consumer(runtime)
    waiting = [asyncio.ensure_future(consumer.poll(5000)) for _ in range(2)]
    await settled(1000)
    for partition in (0, 1):
        await write(runtime, b"x", partition=partition)
        await settled(100)
    assert [len(records) for records in await asyncio.gather(*waiting)] == [1, 1]
    await consumer.close()


async def test_poll_waits_for_records_and_no_longer_than_it_may(world, runtime):
    consumer = await a_consumer(runtime)
    assert await consumer.poll(300) == []
    assert 0.3 <= world.seconds < 0.4
    polling = asyncio.ensure_future(consumer.poll(10_000))
    await asyncio.sleep(0.2)
    await write(runtime, b"one")
    assert [record.value for record in await polling] == [b"one"]
    assert world.seconds < 1.2
    await consumer.close()


async def test_poll_returns_no_more_than_its_limit_and_loses_nothing(runtime):
    values = [str(number).encode() for number in range(25)]
    await write(runtime, *values, batch_size=200)
    consumer = await a_consumer(runtime, max_poll_records=10)
    polls = [await consumer.poll(1000) for _ in range(3)]
    assert [len(records) for records in polls] == [10, 10, 5]
    assert [record.value for records in polls for record in records] == values
    await consumer.close()


async def test_every_partition_gets_its_turn(runtime):
    for partition in range(3):
        await write(runtime, *[b"x"] * 20, partition=partition)
    consumer = await a_consumer(runtime, max_poll_records=10)
    await settled(100)
    seen = {record.partition for _ in range(3) for record in await consumer.poll(1000)}
    assert seen == {0, 1, 2}
    await consumer.close()


# Transactions


async def test_read_committed_sees_no_record_of_an_open_or_aborted_transaction(runtime):
    producer = await a_transactional(runtime)
    await commit_records(producer, b"one")
    producer.begin()
    await (await producer.send("orders", b"aborted", partition=0))
    await producer.abort()
    await commit_records(producer, b"two")
    producer.begin()
    await (await producer.send("orders", b"open", partition=0))
    await settled()
    consumer = await a_consumer(runtime)
    assert await poll_values(consumer, 2) == [b"one", b"two"]
    assert await consumer.poll(1000) == []
    await producer.commit()
    assert await poll_values(consumer, 1) == [b"open"]
    await producer.close()
    await consumer.close()


async def test_read_uncommitted_sees_all_records_and_no_markers(runtime):
    producer = await a_transactional(runtime)
    await commit_records(producer, b"one")
    producer.begin()
    await (await producer.send("orders", b"aborted", partition=0))
    await producer.abort()
    producer.begin()
    await (await producer.send("orders", b"open", partition=0))
    await settled()
    consumer = await a_consumer(runtime, isolation_level="read_uncommitted")
    assert await poll_values(consumer, 3) == [b"one", b"aborted", b"open"]
    await producer.close()
    await consumer.close()


async def test_the_position_moves_over_markers_and_aborted_records(runtime):
    producer = await a_transactional(runtime)
    await commit_records(producer, b"one", b"two")
    producer.begin()
    await (await producer.send("orders", b"aborted", partition=0))
    await producer.abort()
    await settled()
    consumer = await a_consumer(runtime, ORDERS[0])
    assert await poll_values(consumer, 2) == [b"one", b"two"]
    await consumer.poll(700)
    end = (await consumer.end_offsets(ORDERS[0]))[ORDERS[0]]
    assert await consumer.position(ORDERS[0]) == end == 5
    await producer.close()
    await consumer.close()


# Positions


async def test_a_seek_into_a_batch_skips_the_records_before_it(runtime):
    await write(runtime, b"0", b"1", b"2", b"3")
    consumer = await a_consumer(runtime, ORDERS[0])
    consumer.seek(ORDERS[0], 2)
    assert await poll_values(consumer, 2) == [b"2", b"3"]
    consumer.seek(ORDERS[0], 1)
    assert await poll_values(consumer, 3) == [b"1", b"2", b"3"]
    await consumer.close()


async def test_a_seek_drops_what_was_fetched_before_it(runtime):
    await write(runtime, b"0", b"1", b"2", b"3")
    consumer = await a_consumer(runtime, ORDERS[0])
    await consumer.position(ORDERS[0])
    consumer.seek(ORDERS[0], 3)
    assert await poll_values(consumer, 1) == [b"3"]
    await consumer.close()


async def test_an_answer_to_a_fetch_from_before_a_seek_is_dropped(runtime):
    await write(runtime, b"0", b"1", b"2", b"3", batch_size=1)
    real, held = runtime.ask, []

    def ask(node_id, on_reply, kind, *fields):
        if kind is Fetch and not held:
            held.append(lambda: real(node_id, on_reply, kind, *fields))
        else:
            real(node_id, on_reply, kind, *fields)

    runtime.ask = ask
    consumer = AsyncConsumer(runtime)
    consumer._fetcher.assign((ORDERS[0],))
    consumer.seek(ORDERS[0], 2)
    consumer.seek(ORDERS[0], 0)
    held[0]()
    assert await poll_values(consumer, 4) == [b"0", b"1", b"2", b"3"]
    await consumer.close()


async def test_seeking_to_the_ends(runtime):
    await write(runtime, b"0", b"1")
    consumer = await a_consumer(runtime, ORDERS[0])
    consumer.seek_to_end()
    assert await consumer.position(ORDERS[0]) == 2
    await write(runtime, b"2")
    assert await poll_values(consumer, 1) == [b"2"]
    consumer.seek_to_beginning(ORDERS[0])
    assert await poll_values(consumer, 3) == [b"0", b"1", b"2"]
    await consumer.close()


async def test_offsets_of_logs_are_found_by_name_and_by_time(runtime):
    await write(runtime, b"0", b"1", b"2")
    consumer = await a_consumer(runtime, ORDERS[0])
    assert await consumer.beginning_offsets(ORDERS[0]) == {ORDERS[0]: 0}
    assert await consumer.end_offsets(ORDERS[0]) == {ORDERS[0]: 3}
    found = await consumer.offsets_for_times({ORDERS[0]: 1001})
    assert (found[ORDERS[0]].offset, found[ORDERS[0]].timestamp) == (1, 1001)
    assert await consumer.offsets_for_times({ORDERS[0]: 5000}) == {ORDERS[0]: None}
    await consumer.close()


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [b"0", b"1", b"new"]), ("latest", [b"new"])])
async def test_without_an_offset_the_reset_policy_says_where_to_begin(policy: str, expected: list[bytes], runtime):
    await write(runtime, b"0", b"1")
    consumer = await a_consumer(runtime, ORDERS[0], auto_offset_reset=policy)
    await consumer.position(ORDERS[0])
    await write(runtime, b"new")
    assert await poll_values(consumer, len(expected)) == expected
    await consumer.close()


async def test_without_an_offset_and_without_a_policy_the_application_has_to_decide(runtime):
    await write(runtime, b"0", b"1")
    consumer = await a_consumer(runtime, ORDERS[0], auto_offset_reset="none", group_id="readers")
    error = await outcome(consumer.poll(1000))
    assert isinstance(error, NoOffset)
    assert "orders-0" in str(error)
    consumer.seek(ORDERS[0], 1)
    assert await poll_values(consumer, 1) == [b"1"]
    await consumer.close()


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
async def test_an_offset_that_the_log_no_longer_holds_is_reset_by_the_policy(policy: str, runtime):
    await write(runtime, b"0", b"1", b"2", b"3")
    await AsyncAdmin(runtime).delete_records({ORDERS[0]: 2})
    consumer = await a_consumer(runtime, ORDERS[0], auto_offset_reset=policy)
    consumer.seek(ORDERS[0], 0)
    if policy == "none":
        error = await outcome(consumer.poll(1000))
        assert isinstance(error, OffsetOutOfRange)
        assert "orders-0" in str(error)
    elif policy == "earliest":
        assert await poll_values(consumer, 2) == [b"2", b"3"]
    else:
        assert await consumer.poll(500) == []
        assert await consumer.position(ORDERS[0]) == 4
    await consumer.close()


def test_by_default_a_consumer_sees_everything_that_was_committed_and_nothing_else():
    assert ConsumerConfig().isolation_level == "read_committed"
    assert ConsumerConfig().auto_offset_reset == "earliest"


async def test_a_paused_partition_gives_nothing_until_it_is_resumed(runtime):
    await write(runtime, b"0", partition=0)
    await write(runtime, b"1", partition=1)
    consumer = await a_consumer(runtime, ORDERS[0], ORDERS[1])
    consumer.pause(ORDERS[0])
    assert await poll_values(consumer, 1) == [b"1"]
    assert await consumer.poll(600) == []
    consumer.resume(ORDERS[0])
    assert await poll_values(consumer, 1) == [b"0"]
    await consumer.close()


# Groups


async def test_a_group_goes_on_where_it_has_committed(runtime):
    await write(runtime, b"0", b"1", b"2", b"3")
    first = await a_consumer(runtime, ORDERS[0], group_id="readers", max_poll_records=2)
    assert await poll_values(first, 2) == [b"0", b"1"]
    await first.commit()
    assert (await first.committed(ORDERS[0]))[ORDERS[0]].offset == 2
    await first.poll(100)
    await first.close()
    second = await a_consumer(runtime, ORDERS[0], group_id="readers")
    assert await poll_values(second, 2) == [b"2", b"3"]
    await second.close()


async def test_iterating_counts_exactly_what_was_yielded(runtime):
    await write(runtime, b"0", b"1", b"2", b"3")
    consumer = await a_consumer(runtime, ORDERS[0], group_id="readers")
    async for record in consumer:
        if record.value == b"1":
            await consumer.commit()
            break
    assert (await consumer.committed())[ORDERS[0]].offset == 2
    await consumer.close()


async def test_offsets_are_committed_by_themselves_when_configured(world, runtime):
    await write(runtime, b"0", b"1")
    settings = {"group_id": "readers", "enable_auto_commit": True, "auto_commit_interval_ms": 1000}
    consumer = await a_consumer(runtime, ORDERS[0], **settings)
    await poll_values(consumer, 2)
    assert world.asked(CommitOffsets) == []
    await asyncio.sleep(1)
    await consumer.poll(0)
    await settled(100)
    assert (await consumer.committed())[ORDERS[0]].offset == 2
    await write(runtime, b"2")
    await poll_values(consumer, 1)
    await consumer.close()
    assert world.asked(CommitOffsets)[-1].offsets[0].offset == 3


async def test_a_group_waits_for_offsets_of_a_transaction_that_is_still_open(world, runtime):
    await write(runtime, b"0", b"1", b"2")
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send_offsets({ORDERS[0]: 2}, "readers")
    consumer = await a_consumer(runtime, ORDERS[0], group_id="readers")
    assert await consumer.poll(1000) == []
    assert len(world.asked(FetchOffsets)) > 1
    await producer.commit()
    assert await poll_values(consumer, 1) == [b"2"]
    await producer.close()
    await consumer.close()


@pytest.mark.parametrize("kind", [Fetch, ListOffset, FetchOffsets, CommitOffsets])
@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.DUPLICATED])
async def test_reading_goes_on_when_requests_and_answers_are_lost(kind: type, fate: Fate, world, runtime):
    await write(runtime, b"0", b"1")
    world.network.plan(kind, fate)
    consumer = await a_consumer(runtime, ORDERS[0], group_id="readers")
    assert await poll_values(consumer, 2) == [b"0", b"1"]
    await consumer.commit()
    assert (await consumer.committed())[ORDERS[0]].offset == 2
    await consumer.close()


async def test_every_record_is_returned_once_when_leaders_and_the_group_restart(world, runtime):
    consumer = await a_consumer(runtime, group_id="readers")
    seen = []
    for round_number, node_id in enumerate((LEADER_A, LEADER_B, GROUPS)):
        for partition in range(3):
            await write(runtime, f"{round_number}-{partition}".encode(), partition=partition)
        world.kill(node_id)
        world.loop.call_later(0.5, world.start, node_id)
        seen += await poll_values(consumer, 3)
        await consumer.commit()
    assert sorted(seen) == sorted(f"{number}-{part}".encode() for number in range(3) for part in range(3))
    assert await consumer.poll(1000) == []
    await consumer.close()


async def test_one_fetch_is_under_way_to_each_leader_while_the_application_works(world, runtime):
    consumer = await a_consumer(runtime, fetch_max_wait_ms=500)
    await consumer.poll(100)
    assert len(world.asked(Fetch)) == len({world.image.leader_of(name) for name in ORDERS})
    await write(runtime, b"0")
    await settled(50)
    before = len(world.requests)
    assert [record.value for record in await consumer.poll(0)] == [b"0"]
    assert len([request for request in world.requests[before:] if type(request) is Fetch]) <= 1
    await consumer.close()


async def test_a_fetch_that_the_lane_forgets_is_repeated(world, runtime):
    await write(runtime, b"0")
    world.network.plan(Fetch, Fate.FORGOTTEN)
    consumer = await a_consumer(runtime, ORDERS[0], request_timeout_ms=300)
    assert await poll_values(consumer, 1) == [b"0"]
    await consumer.close()


# Damage


async def test_a_damaged_batch_is_named_once_what_came_before_it_is_taken(runtime):
    good = build_batch([NewRecord(b"good")], base_offset=0)
    bad = bytearray(build_batch([NewRecord(b"bad")], base_offset=1))
    bad[-1] ^= 0xFF
    real = runtime.ask

    def ask(node_id, on_reply, kind, *fields):
        if kind is Fetch and fields[0][0].offset == 0:
            found = FetchedPartition(ORDERS[0], ErrorCode.NONE, 2, 2, 0, (), good)
            runtime.loop.call_soon(on_reply, Fetched(0, (found,)))
        elif kind is Fetch:
            found = FetchedPartition(ORDERS[0], ErrorCode.NONE, 2, 2, 0, (), bytes(bad))
            runtime.loop.call_soon(on_reply, Fetched(0, (found,)))
        else:
            real(node_id, on_reply, kind, *fields)

    runtime.ask = ask
    consumer = await a_consumer(runtime, ORDERS[0])
    assert await poll_values(consumer, 1) == [b"good"]
    error = await outcome(consumer.poll(1000))
    assert isinstance(error, CorruptRecords)
    assert "offset 1 of orders-0" in str(error)
    await consumer.close()


def test_a_batch_that_is_cut_short_by_the_limit_is_no_damage():
    first = build_batch([NewRecord(b"a"), NewRecord(b"b")], base_offset=5)
    second = build_batch([NewRecord(b"c")], base_offset=7)
    found = FetchedPartition(ORDERS[0], ErrorCode.NONE, 8, 8, 0, (), first + second[:-3])

    fetched = unpack(found, 6, Isolation.READ_COMMITTED)

    assert len(fetched.batches) == 1
    assert fetched.next_offset == 7


async def test_records_that_cannot_be_unpacked_are_a_clear_error(runtime):
    batch = build_batch([NewRecord(b"fine")], base_offset=0)
    found = FetchedPartition(ORDERS[0], ErrorCode.NONE, 1, 1, 0, (), batch)
    consumer = await a_consumer(runtime, ORDERS[0])
    await consumer.position(ORDERS[0])
    state = consumer._fetcher.states[ORDERS[0]]
    fetched = unpack(found, 0, Isolation.READ_COMMITTED)
    view, header = fetched.batches[0].view, fetched.batches[0].header
    fetched.batches[0] = type(fetched.batches[0])(view, msgspec.structs.replace(header, record_count=3))
    state.add(fetched)
    error = await outcome(consumer.poll(0))
    assert isinstance(error, CorruptRecords)
    assert "offset 0 of orders-0" in str(error)
    await consumer.close()


@pytest.mark.parametrize("isolation", Isolation)
async def test_a_batch_that_claims_two_billion_records_is_named_and_can_be_left_out(runtime, isolation):
    """An older broker may have taken one: 69 bytes, and the offset behind it is that far away."""
    count = 2**31 - 1
    claim = forge_bytes(bytes(8), record_count=count, last_offset_delta=count - 1)
    good = build_batch([NewRecord(b"good")], base_offset=count)
    real = runtime.ask

    def ask(node_id, on_reply, kind, *fields):
        if kind is Fetch:
            records = claim + good if fields[0][0].offset < count else good
            found = FetchedPartition(ORDERS[0], ErrorCode.NONE, count + 1, count + 1, 0, (), records)
            runtime.loop.call_soon(on_reply, Fetched(0, (found,)))
        else:
            real(node_id, on_reply, kind, *fields)

    runtime.ask = ask
    consumer = await a_consumer(runtime, ORDERS[0], isolation_level=isolation.name.lower())
    for _ in range(2):
        error = await outcome(consumer.poll(1000))
        assert isinstance(error, CorruptRecords)
        assert f"the batch at offset 0 of orders-0 cannot be read: {count} records do not fit into 8 bytes" in str(
            error
        )
    consumer.seek(ORDERS[0], count)
    assert await poll_values(consumer, 1) == [b"good"]
    await consumer.close()


@pytest.mark.parametrize(("delta", "count"), [(-1, 0), (-5, 1), (0, 2)])
def test_counts_behind_which_no_fetch_could_go_on_are_damage(delta, count):
    batch = forge_bytes(bytes(8), record_count=count, last_offset_delta=delta)
    with pytest.raises(CorruptRecords, match=f"says that it has {count} records and last offset delta {delta}"):
        unpack(FetchedPartition(ORDERS[0], ErrorCode.NONE, 1, 1, 0, (), batch), 0, Isolation.READ_COMMITTED)


# Misuse


async def test_calls_that_make_no_sense_are_refused(runtime):
    consumer = await a_consumer(runtime, ORDERS[0])
    with pytest.raises(TopicNotFound, match="orders-1"):
        consumer.seek(ORDERS[1], 0)
    with pytest.raises(RefusedError, match="offset is -1; expected a whole number from 0"):
        consumer.seek(ORDERS[0], -1)
    assert isinstance(await outcome(consumer.commit()), InvalidConfig)
    assert isinstance(await outcome(consumer.committed()), InvalidConfig)
    await consumer.close()
    await consumer.close()
    assert isinstance(await outcome(consumer.poll(0)), ClientClosed)
    missing = AsyncConsumer(runtime, ConsumerConfig.make(default_api_timeout_ms=200))
    assert isinstance(await outcome(missing.subscribe("nothing")), TopicNotFound)


async def test_a_poll_that_waits_ends_when_the_consumer_is_closed(world, runtime):
    consumer = await a_consumer(runtime, ORDERS[0])
    polling = asyncio.ensure_future(outcome(consumer.poll(100_000)))
    await settled(100)
    await consumer.close()
    assert isinstance(await polling, ClientClosed)
    assert world.seconds < 1


async def test_the_group_of_a_consumer_goes_into_transactions(runtime):
    consumer = await a_consumer(runtime, ORDERS[0], group_id="readers")
    producer = await a_transactional(runtime)
    producer.begin()
    await producer.send_offsets({TopicPartition("orders", 0): 1}, consumer.group_metadata())
    await producer.commit()
    assert (await consumer.committed())[ORDERS[0]].offset == 1
    await producer.close()
    await consumer.close()


@pytest.mark.parametrize("partitions", ["orders", ["orders"], [("orders", 0)], [TopicPartition("orders", "0")], None])
async def test_assignment_of_what_is_no_partition_is_refused(partitions, runtime):
    consumer = await a_consumer(runtime)
    with pytest.raises(InvalidArgument):
        consumer.assign(partitions)
    for ask in (consumer.end_offsets, consumer.beginning_offsets, consumer.position):
        assert isinstance(await outcome(ask(("orders", 0))), InvalidArgument)
    assert isinstance(await outcome(consumer.offsets_for_times({("orders", 0): 5})), InvalidArgument)
    await consumer.close()
