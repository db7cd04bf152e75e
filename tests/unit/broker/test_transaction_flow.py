"""Whole transactions through a coordinator, its markers and partition leaders, question by question."""

import asyncio
from functools import partial

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.partitions.events import Produce, WriteMarkers
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    EndBranched,
    EndTransaction,
    InitProducerId,
    OpenBranch,
)
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import data_batch
from tests.support.cluster_in_memory import COORDINATOR, ClusterInMemory, entered
from tests.support.lanes_in_memory import Fate

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)


class Broker:
    """Asks the coordinator and the leaders of a cluster."""

    def __init__(self, world: ClusterInMemory) -> None:
        self.world = world
        self.ask = partial(world.peers.call, COORDINATOR)

    async def init(self, transactional_id, *, timeout_ms=60_000):
        reply = await self.ask(InitProducerId, transactional_id, timeout_ms)
        assert reply.error_code is ErrorCode.NONE
        return reply.producer

    async def add(self, transactional_id, producer, *partitions):
        return (await self.ask(AddPartitions, transactional_id, producer, partitions)).error_code

    async def end(self, transactional_id, producer, *, commit, version=1):
        return await self.ask(EndTransaction, transactional_id, producer, commit, version)

    async def begin_branched(self, transactional_id, tag, *, timeout_ms=60_000):
        return await self.ask(BeginBranched, transactional_id, tag, timeout_ms)

    async def open_branch(self, transactional_id, owner):
        reply = await self.ask(OpenBranch, transactional_id, owner)
        assert reply.error_code is ErrorCode.NONE
        return reply.producer

    async def end_branched(self, transactional_id, owner, *branches):
        return await self.ask(EndBranched, transactional_id, owner, True, branches)

    async def produce(self, transactional_id, producer, partition, value, sequence=0, *, version=1):
        identity = {"producer_id": producer.producer_id, "epoch": producer.epoch}
        batch = bytes(data_batch(**identity, sequence=sequence, transactional=True, value=value).view)
        leader = self.world.image.leader_of(partition)
        reply = await self.world.peers.call(leader, Produce, partition, batch, -1, transactional_id, version)
        return reply.error_code

    def lose_marker_calls(self):
        """Lose some calls, of which the first are on their way when the coordinator dies."""
        self.world.network.plan(WriteMarkers, Fate.REQUEST_LOST, times=6)

    async def restart_coordinator(self):
        await self.world.restart_node(COORDINATOR)

    async def committed(self, partition):
        """What readers see once the markers have come that are on their way."""
        await asyncio.sleep(0.05)
        return self.world.committed(partition.topic)


@pytest.fixture
def broker(virtual_time, runner):
    with runner.entered(entered(topics={"orders": 1, "payments": 1})) as world:
        yield Broker(world)


async def write_both(broker, producer, value, sequence=0):
    assert await broker.add("tx", producer, ORDERS, PAYMENTS) is ErrorCode.NONE
    for partition in (ORDERS, PAYMENTS):
        assert await broker.produce("tx", producer, partition, value, sequence) is ErrorCode.NONE


async def test_a_commit_shows_all_partitions_at_once_and_an_abort_shows_none(broker):
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == []
    assert (await broker.end("tx", producer, commit=True)).error_code is ErrorCode.NONE
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"paid"]
    await write_both(broker, producer, b"taken back", 1)
    assert (await broker.end("tx", producer, commit=False)).error_code is ErrorCode.NONE
    await write_both(broker, producer, b"paid again", 2)
    await broker.end("tx", producer, commit=True)
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"paid", b"paid again"]


async def test_in_version_2_partitions_are_added_by_their_leaders_and_each_transaction_has_its_epoch(broker):
    producer = await broker.init("tx")
    for value in (b"one", b"two", b"three"):
        assert await broker.produce("tx", producer, ORDERS, value, version=2) is ErrorCode.NONE
        reply = await broker.end("tx", producer, commit=value != b"two", version=2)
        assert reply.error_code is ErrorCode.NONE
        assert reply.producer == ProducerIdentity(producer.producer_id, producer.epoch + 1)
        producer = reply.producer
    assert await broker.committed(ORDERS) == [b"one", b"three"]


async def test_a_partition_that_was_not_added_takes_nothing(broker):
    producer = await broker.init("tx")
    await broker.add("tx", producer, ORDERS)
    assert await broker.produce("tx", producer, PAYMENTS, b"stray") is ErrorCode.TRANSACTION_ABORTABLE
    assert await broker.produce("tx", producer, ORDERS, b"fine") is ErrorCode.NONE


async def test_batch_that_comes_after_the_end_opens_nothing(broker):
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    await broker.end("tx", producer, commit=True)
    assert await broker.committed(ORDERS) == [b"paid"]
    assert await broker.produce("tx", producer, ORDERS, b"late", 1) is ErrorCode.TRANSACTION_ABORTABLE
    assert await broker.committed(ORDERS) == [b"paid"]


async def test_a_new_producer_aborts_what_its_predecessor_left_and_fences_it(broker):
    zombie = await broker.init("tx")
    await write_both(broker, zombie, b"left open")
    successor = await broker.init("tx")
    assert successor.producer_id == zombie.producer_id
    assert successor.epoch > zombie.epoch
    assert await broker.produce("tx", zombie, ORDERS, b"zombie", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await broker.end("tx", zombie, commit=True)).error_code is ErrorCode.PRODUCER_FENCED
    await write_both(broker, successor, b"paid")
    await broker.end("tx", successor, commit=True)
    assert await broker.committed(ORDERS) == [b"paid"]


async def test_a_transaction_that_times_out_is_aborted_and_lets_readers_go_on(broker):
    slow, other = await broker.init("tx", timeout_ms=1000), await broker.init("other")
    await write_both(broker, slow, b"never ended")
    await broker.add("other", other, ORDERS)
    await broker.produce("other", other, ORDERS, b"behind it")
    await broker.end("other", other, commit=True)
    assert await broker.committed(ORDERS) == []
    await asyncio.sleep(3)
    assert await broker.committed(ORDERS) == [b"behind it"]
    assert (await broker.end("tx", slow, commit=True)).error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
async def test_a_decision_outlives_the_coordinator_that_made_it(broker, commit):
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    broker.lose_marker_calls()
    assert (await broker.end("tx", producer, commit=commit)).error_code is ErrorCode.NONE
    assert await broker.committed(ORDERS) == []
    await broker.restart_coordinator()
    await asyncio.sleep(3)
    expected = [b"paid"] if commit else []
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == expected
    assert (await broker.end("tx", producer, commit=commit)).error_code is ErrorCode.NONE
    assert (await broker.end("tx", producer, commit=not commit)).error_code is ErrorCode.INVALID_TXN_STATE


async def test_an_open_transaction_outlives_the_coordinator(broker):
    producer = await broker.init("tx")
    await write_both(broker, producer, b"before")
    await broker.restart_coordinator()
    assert await broker.produce("tx", producer, ORDERS, b"after", 1) is ErrorCode.NONE
    assert (await broker.end("tx", producer, commit=True)).error_code is ErrorCode.NONE
    assert await broker.committed(ORDERS) == [b"before", b"after"]
    assert await broker.committed(PAYMENTS) == [b"before"]


# Transactions with many writers


OVER = (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""What a writer in a branch is told once that is over, as long as the coordinator remembers it, and later."""


async def begun(broker, tag="batch-1"):
    reply = await broker.begin_branched("job", tag)
    assert (reply.error_code, reply.tag_is_committed) == (ErrorCode.NONE, False)
    return reply.producer


async def attempt(broker, owner, value, *partitions):
    """One attempt of one worker: a branch of its own, written to straight at the leaders."""
    branch = await broker.open_branch("job", owner)
    for partition in partitions or (ORDERS, PAYMENTS):
        assert await broker.produce("job", branch, partition, value, version=2) is ErrorCode.NONE
    return branch


async def test_of_two_attempts_only_the_one_that_is_named_is_seen(broker):
    owner = await begun(broker)
    await attempt(broker, owner, b"task 1, failed", ORDERS)
    first = await attempt(broker, owner, b"task 1")
    second = await attempt(broker, owner, b"task 2", PAYMENTS)
    assert await broker.produce("job", first, ORDERS, b"task 1, more", 1, version=2) is ErrorCode.NONE
    await attempt(broker, owner, b"task 2, speculated")
    assert await broker.produce("job", owner, ORDERS, b"driver", version=2) is ErrorCode.NONE
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == []

    assert (await broker.end_branched("job", owner, first, second)).error_code is ErrorCode.NONE
    assert await broker.committed(ORDERS) == [b"task 1", b"task 1, more", b"driver"]
    assert await broker.committed(PAYMENTS) == [b"task 1", b"task 2"]


async def test_an_attempt_that_comes_too_late_opens_nothing(broker):
    owner = await begun(broker)
    named, other = await attempt(broker, owner, b"named", ORDERS), await attempt(broker, owner, b"other", ORDERS)
    await broker.end_branched("job", owner, named)
    assert await broker.committed(ORDERS) == [b"named"]
    for branch in (named, other):
        for partition, sequence in ((ORDERS, 1), (ORDERS, 0), (PAYMENTS, 0)):
            assert await broker.produce("job", branch, partition, b"late", sequence, version=2) in OVER
    assert await broker.committed(ORDERS) == [b"named"]
    # Nothing is left open that readers would have to wait for.
    producer = await broker.init("tx")
    await write_both(broker, producer, b"after")
    await broker.end("tx", producer, commit=True)
    assert await broker.committed(ORDERS) == [b"named", b"after"]
    assert await broker.committed(PAYMENTS) == [b"after"]


@pytest.mark.parametrize("commits", [True, False])
async def test_a_batch_that_is_run_again_is_seen_once(broker, commits):
    owner = await begun(broker)
    branch = await attempt(broker, owner, b"row")
    broker.lose_marker_calls()
    if commits:
        assert (await broker.end_branched("job", owner, branch)).error_code is ErrorCode.NONE
    await broker.restart_coordinator()
    await asyncio.sleep(3)

    reply = await broker.begin_branched("job", "batch-1")
    assert reply.error_code is ErrorCode.NONE
    assert reply.tag_is_committed is commits
    if not commits:
        assert await broker.produce("job", branch, ORDERS, b"zombie", 1, version=2) in OVER
        again = await attempt(broker, reply.producer, b"row")
        assert (await broker.end_branched("job", reply.producer, again)).error_code is ErrorCode.NONE
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"row"]


async def test_one_batch_after_the_other(broker):
    expected = []
    for batch in range(3):
        owner = await begun(broker, f"batch-{batch}")
        branch = await attempt(broker, owner, b"%d" % batch)
        await attempt(broker, owner, b"unwanted")
        await broker.end_branched("job", owner, branch)
        expected.append(b"%d" % batch)
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == expected
    assert (await broker.begin_branched("job", "batch-2")).tag_is_committed


async def test_a_job_that_times_out_lets_readers_go_on(broker):
    owner = (await broker.begin_branched("job", "batch-1", timeout_ms=1000)).producer
    branch = await attempt(broker, owner, b"never ended")
    await asyncio.sleep(3)
    producer = await broker.init("tx")
    await write_both(broker, producer, b"after")
    await broker.end("tx", producer, commit=True)
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"after"]
    assert (await broker.end_branched("job", owner, branch)).error_code is ErrorCode.PRODUCER_FENCED
