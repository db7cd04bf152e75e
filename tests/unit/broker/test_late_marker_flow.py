"""Marker calls of version 1 that come late, or twice: through a coordinator, its markers and partition leaders."""

import asyncio

import pytest

from eagleray.broker.partitions.events import WriteMarkers
from eagleray.broker.transactions.events import LastDecision
from eagleray.protocol.errors import ErrorCode
from tests.support.cluster_in_memory import CONTROLLER, entered
from tests.support.lanes_in_memory import Fate
from tests.unit.broker.test_transaction_flow import ORDERS, PAYMENTS, Broker, write_both

REFUSED = {ErrorCode.INVALID_PRODUCER_EPOCH}
LATE = REFUSED | {ErrorCode.TRANSACTION_COORDINATOR_FENCED}


class LateCalls(Broker):
    """Has the calls come again that a manager has made."""

    async def repeat_marker_calls(self):
        """Say what is answered to all of them; nothing waits for these answers any more."""
        answered = set()
        for call in self.world.asked(WriteMarkers):
            leader = self.world.image.leader_of(call.markers[0].partitions[0])
            reply = await self.world.peers.call(leader, WriteMarkers, call.markers)
            answered |= {*reply.error_codes} or {ErrorCode.NONE}
        return answered

    async def restart_leaders(self):
        for leader in {self.world.image.leader_of(partition) for partition in (ORDERS, PAYMENTS)}:
            await self.world.restart_node(leader)


@pytest.fixture
def broker(virtual_time, runner):
    with runner.entered(entered(topics={"orders": 1, "payments": 1})) as world:
        yield LateCalls(world)


async def paid_once(broker):
    """Commit a transaction; the next one is open by the end."""
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    await broker.end("tx", producer, commit=True)
    assert await broker.committed(ORDERS) == [b"paid"]
    await write_both(broker, producer, b"taken back", 1)
    return producer


async def assert_aborted(broker, producer):
    """The next transaction is as it was, and its producer aborts it."""
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"paid"]
    assert (await broker.end("tx", producer, commit=False)).error_code is ErrorCode.NONE
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"paid"]


async def test_late_marker_call_does_not_end_the_next_transaction(broker):
    """KIP-890 names it: a delayed marker completes the next transaction of the same epoch, here one that is aborted."""
    producer = await paid_once(broker)
    assert await broker.repeat_marker_calls() == REFUSED
    await assert_aborted(broker, producer)
    assert broker.world.asked(LastDecision) == []


async def test_a_late_marker_call_does_not_end_the_next_transaction_at_leaders_that_were_restarted(broker):
    producer = await paid_once(broker)
    await broker.restart_leaders()
    assert await broker.repeat_marker_calls() == {ErrorCode.CONCURRENT_TRANSACTIONS}
    await asyncio.sleep(0.05)
    assert await broker.repeat_marker_calls() == REFUSED
    await assert_aborted(broker, producer)


async def test_a_call_whose_answer_was_lost_is_too_late_when_it_comes_again(broker):
    """KAFKA-10080 is near: there two answers completed a transaction twice, when the next one may have begun."""
    broker.world.network.plan(WriteMarkers, Fate.REPLY_LOST, times=2)
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    await broker.end("tx", producer, commit=True)
    await write_both(broker, producer, b"taken back", 1)
    assert await broker.repeat_marker_calls() == REFUSED
    await assert_aborted(broker, producer)


async def test_a_coordinator_that_comes_with_markers_under_way_has_them_written_and_late_ones_refused(broker):
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    broker.lose_marker_calls()
    await broker.end("tx", producer, commit=True)
    assert await broker.committed(ORDERS) == []
    await broker.restart_coordinator()
    await asyncio.sleep(3)
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"paid"]
    await write_both(broker, producer, b"taken back", 1)
    assert await broker.repeat_marker_calls() <= LATE
    await assert_aborted(broker, producer)


async def test_a_marker_manager_that_begins_anew_repeats_what_is_under_way_and_ends_it_once(broker):
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    broker.lose_marker_calls()
    await broker.end("tx", producer, commit=True)
    await broker.world.restart_node(CONTROLLER)
    await asyncio.sleep(3)
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"paid"]
    await write_both(broker, producer, b"taken back", 1)
    assert await broker.repeat_marker_calls() == REFUSED
    await assert_aborted(broker, producer)


async def test_leaders_that_were_restarted_write_the_marker_that_is_due_when_the_coordinator_has_answered(broker):
    producer = await broker.init("tx")
    await write_both(broker, producer, b"paid")
    await broker.restart_leaders()
    broker.world.network.plan(LastDecision, Fate.REQUEST_LOST, times=2)
    await broker.end("tx", producer, commit=True)
    assert await broker.committed(ORDERS) == []
    await asyncio.sleep(3)
    assert await broker.committed(ORDERS) == await broker.committed(PAYMENTS) == [b"paid"]
