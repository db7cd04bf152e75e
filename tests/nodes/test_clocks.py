"""Nodes whose wall clock jumps: nothing expires by it, and no transaction ends by it."""

import asyncio
import logging

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.client.cluster import AsyncCluster
from tests.support.client_clock import run_in_virtual_time
from tests.support.cluster_in_memory import LAYOUT, ClusterInMemory

MINUTE_S = 60
DAY_MS = 24 * 60 * 60 * 1000
JUMP_MS = 8 * DAY_MS
ACCEPT_AFTER_S = 600
ORDERS = TopicPartition("orders", 0)
SETTINGS = {
    "clock.accept.after.ms": str(ACCEPT_AFTER_S * 1000),
    "offsets.retention.check.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "retention.ms": str(DAY_MS),
    "max.transaction.timeout.ms": "3600000",
}
SOON = {
    "retention.ms": str(5 * MINUTE_S * 1000),
    "transactional.id.expiration.ms": str(5 * MINUTE_S * 1000),
    "offsets.retention.minutes": "5",
}
JUMPS = pytest.mark.parametrize("by_ms", [JUMP_MS, -JUMP_MS], ids=["forward", "backward"])


class World:
    """A cluster in virtual time with records, offsets, an id that is not used, and an open transaction."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.cluster = AsyncCluster(nodes.runtime())

    async def begin(self):
        self.producer = self.cluster.producer(transactional_id="open", transaction_timeout_ms=30 * MINUTE_S * 1000)
        async with self.cluster.producer(transactional_id="idle") as producer, producer.transaction():
            await producer.send("orders", b"kept", partition=0)
            await producer.send_offsets({ORDERS: 1}, group="idle")
        await self.producer.init()
        self.producer.begin()
        await self.producer.send("invoices", b"late", partition=0)
        await self.producer.flush()

    def jump(self, by_ms):
        for node_id in self.nodes.nodes:
            self.nodes.wall_ahead_ms[node_id] = self.nodes.wall_ahead_ms.get(node_id, 0) + by_ms

    def doubts(self):
        return {node_id for node_id, node in self.nodes.nodes.items() if not node.clock.may_expire}

    async def restart(self):
        for node_id in LAYOUT:
            self.nodes.kill(node_id)
        for node_id in LAYOUT:
            self.nodes.start(node_id)
        await self.nodes.until(lambda: len(self.nodes.nodes) == len(LAYOUT) and self.all_registered())

    def all_registered(self):
        return all(node.is_registered for node in self.nodes.nodes.values())

    async def kept(self):
        """What is there of all that may expire."""
        admin = self.cluster.admin
        ids = {each.transactional_id for each in await admin.list_transactions()}
        log = self.nodes.nodes[self.nodes.image.leader_of(ORDERS)].replica_manager.logs[ORDERS]
        found = {"records": log.log_start_offset == 0, "offsets": "idle" in await admin.list_groups()}
        return {name for name, is_there in (found | {"id": "idle" in ids}).items() if is_there}

    async def state(self):
        return (await self.cluster.admin.describe_transaction("open")).state


def in_world(test, **settings):
    async def run():
        async with ClusterInMemory(settings=SETTINGS | settings) as nodes:
            world = World(nodes)
            await world.begin()
            await test(world)
            world.producer.abandon()
            await world.cluster.close()

    run_in_virtual_time(run)


ALL = {"records", "offsets", "id"}


@JUMPS
def test_jump_expires_nothing_and_ends_no_transaction(by_ms, caplog):
    async def test(world):
        world.jump(by_ms)
        await asyncio.sleep(5 * MINUTE_S)
        assert world.doubts() == set(LAYOUT)
        assert await world.kept() == ALL
        assert await world.state() == "Ongoing"
        await world.producer.commit()
        await world.nodes.until(lambda: world.nodes.committed("invoices") == [b"late"])

    with caplog.at_level(logging.CRITICAL):
        in_world(test)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(LAYOUT), "each node says it once"
    assert all(f"eagleray node accept-clock {node_id}" in " ".join(said) for node_id in LAYOUT)


@JUMPS
def test_transaction_times_out_when_it_is_due_although_the_clock_has_jumped(by_ms):
    async def test(world):
        await asyncio.sleep(10 * MINUTE_S)
        world.jump(by_ms)
        await asyncio.sleep(19 * MINUTE_S)
        assert await world.state() == "Ongoing"
        await asyncio.sleep(2 * MINUTE_S)
        assert await world.state() == "CompleteAbort"

    in_world(test)


@JUMPS
def test_nodes_that_are_started_again_know_of_the_jump(by_ms):
    async def test(world):
        world.jump(by_ms)
        await world.restart()
        assert world.doubts() == set(LAYOUT)
        await asyncio.sleep(5 * MINUTE_S)
        assert await world.kept() == ALL
        assert await world.state() == "Ongoing"

    in_world(test)


def test_clock_that_is_accepted_expires_records_but_ends_no_transaction():
    async def test(world):
        world.jump(JUMP_MS)
        await asyncio.sleep(MINUTE_S)
        for node_id in LAYOUT:
            assert await world.cluster.admin.accept_clock(node_id) == {node_id: JUMP_MS}
        assert not world.doubts()
        await asyncio.sleep(2 * MINUTE_S)
        # What the coordinators have seen themselves is not older than it is.
        assert await world.kept() == {"offsets", "id"}
        assert await world.state() == "Ongoing"
        async with world.cluster.producer(transactional_id="fresh") as producer, producer.transaction():
            await producer.send("invoices", b"new", partition=1)
            await producer.send_offsets({ORDERS: 1}, group="fresh")
        await world.restart()
        assert not world.doubts()
        assert await world.state() == "Ongoing"
        await asyncio.sleep(10)
        assert await world.kept() == set()
        # What was written since then is as old as it is.
        assert "fresh" in {each.transactional_id for each in await world.cluster.admin.list_transactions()}
        assert await world.cluster.admin.list_groups() == ["fresh"]

    in_world(test)


@JUMPS
def test_clock_that_stays_where_it_is_is_accepted_after_a_while(by_ms):
    async def test(world):
        world.jump(by_ms)
        await asyncio.sleep(ACCEPT_AFTER_S - MINUTE_S)
        assert world.doubts() == set(LAYOUT)
        await asyncio.sleep(2 * MINUTE_S)
        assert not world.doubts()
        assert {node.now_ms() - world.nodes.now_ms for node in world.nodes.nodes.values()} == {by_ms}
        assert await world.state() == "Ongoing"

    in_world(test)


@JUMPS
def test_what_becomes_old_while_the_clock_is_in_doubt_stays_until_it_is_over(by_ms):
    async def test(world):
        world.jump(by_ms)
        await asyncio.sleep(8 * MINUTE_S)
        assert await world.kept() == ALL
        world.jump(-by_ms)
        await asyncio.sleep(2 * MINUTE_S)
        assert await world.kept() == set()

    in_world(test, **SOON)


def test_clock_that_comes_back_leaves_nothing_behind():
    async def test(world):
        world.jump(-JUMP_MS)
        await asyncio.sleep(MINUTE_S)
        async with world.cluster.producer(transactional_id="idle") as producer, producer.transaction():
            await producer.send("orders", b"new", partition=0)
            await producer.send_offsets({ORDERS: 2}, group="idle")
        world.jump(JUMP_MS)
        await asyncio.sleep(5 * MINUTE_S)
        assert not world.doubts()
        await world.restart()
        await asyncio.sleep(5 * MINUTE_S)
        assert await world.kept() == ALL
        assert await world.state() == "Ongoing"

    in_world(test)
