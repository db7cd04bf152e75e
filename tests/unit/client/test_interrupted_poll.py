"""A poll or a close that is interrupted or cancelled: no record and no rebalance is lost, no member stays behind."""

import asyncio
import concurrent.futures
import threading
from contextlib import contextmanager

import pytest

from eagleray.broker.groups.consumer.events import ConsumerHeartbeat
from eagleray.broker.groups.events import CommitOffsets
from eagleray.client.cluster import AsyncCluster
from eagleray.client.consumer.membership import MemberState
from eagleray.client.consumer.sync_consumer import Consumer
from tests.support.background import Background
from tests.support.client_helpers import ORDERS, a_producer
from tests.support.lanes_in_memory import Fate


class Interrupt:
    """A KeyboardInterrupt in the thread that waits for a call, when the loop has answered that already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def next_call(self, act, *fields, passing=0):
        """Interrupt the call behind so many others that an act waits for."""
        waits, real = [], concurrent.futures.Future.result

        def result(future):
            answer = real(future)
            waits.append(future)
            if len(waits) == passing + 1:
                raise KeyboardInterrupt
            return answer

        with self.of_waits(result), pytest.raises(KeyboardInterrupt):
            act(*fields)
        assert len(waits) > passing

    @contextmanager
    def of_waits(self, result):
        """Have the test's own thread wait like this; the nodes' loop waits for threads by futures too."""
        real = concurrent.futures.Future.result

        def result_in_any_thread(future, timeout=None):
            if threading.current_thread() is threading.main_thread():
                return result(future)
            return real(future, timeout)

        with self._monkeypatch.context() as patched:
            patched.setattr(concurrent.futures.Future, "result", result_in_any_thread)
            yield


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    return Interrupt(monkeypatch)


class Told:
    """What the callbacks of a subscription were told, in order."""

    def __init__(self) -> None:
        self.events = []

    def callbacks(self):
        names = ("on_assigned", "on_revoked", "on_lost")
        return {name: lambda partitions, name=name: self.events.append((name, {*partitions})) for name in names}

    def names(self):
        return [name for name, _ in self.events]


def fill(background: Background, count: int) -> None:
    with background.cluster.producer() as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=0)


def offsets(records):
    return [record.offset for record in records]


def settle(consumer: Consumer) -> None:
    """Poll until the group has nothing more to say."""
    for _ in range(100):
        consumer.poll(20)
        if state_of(consumer) is MemberState.STABLE:
            return
    raise AssertionError(state_of(consumer))


def state_of(consumer: Consumer) -> MemberState:
    return consumer._consumer._group._member.membership.state


def test_interrupted_poll_keeps_its_records_for_the_next(background: Background, interrupt: Interrupt):
    fill(background, 10)
    with background.cluster.consumer("orders", group="readers") as consumer:
        interrupt.next_call(consumer.poll, 10_000)
        consumer.commit()
        committed = consumer.committed(ORDERS[0])
        assert ORDERS[0] not in committed or committed[ORDERS[0]].offset == 0, "nothing was returned"
        assert offsets(consumer.poll(10_000)) == list(range(10))
        consumer.commit()
        assert consumer.committed(ORDERS[0])[ORDERS[0]].offset == 10


def test_interrupted_poll_keeps_its_records_in_order_and_the_next_its_limit(
    background: Background, interrupt: Interrupt
):
    fill(background, 10)
    with background.cluster.consumer("orders") as consumer:
        assert offsets(consumer.poll(10_000, 1)) == [0]
        interrupt.next_call(consumer.poll, 10_000, 6)
        assert consumer.position(ORDERS[0]) == 1
        assert offsets(consumer.poll(0, 4)) == [1, 2, 3, 4]
        assert offsets(consumer.poll(0, 4)) == [5, 6]
        assert offsets(consumer.poll(10_000)) == [7, 8, 9]


@pytest.mark.parametrize("reads", ["poll", "iteration"])
def test_interrupted_read_tells_of_its_rebalance_the_next_time(
    background: Background, interrupt: Interrupt, reads: str
):
    fill(background, 10)
    told = Told()
    with background.cluster.consumer(group="readers") as consumer:
        consumer.subscribe("orders", **told.callbacks())
        if reads == "poll":
            interrupt.next_call(consumer.poll, 10_000)
        else:
            interrupt.next_call(next, iter(consumer))
        assert (told.events, state_of(consumer)) == ([], MemberState.RECONCILING)
        assert offsets(consumer.poll(10_000)) == list(range(10))
        settle(consumer)
        assert told.events == [("on_assigned", {*ORDERS})]


def test_rebalance_that_was_told_counts_although_the_poll_was_interrupted(background: Background, interrupt: Interrupt):
    told = Told()
    with background.cluster.consumer(group="readers") as consumer:
        consumer.subscribe("orders", **told.callbacks())
        background.thread.run, run = interrupted_before(background, 1), background.thread.run
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(10_000)
        background.thread.run = run
        assert told.events == [("on_assigned", {*ORDERS})]
        assert state_of(consumer) is MemberState.RECONCILING, "the loop has not heard of it"
        settle(consumer)
        assert told.events == [("on_assigned", {*ORDERS})]
        assert consumer.assignment() == {*ORDERS}


def interrupted_before(background: Background, number: int):
    """Run as many calls as this, and interrupt the next one before the loop has begun it."""
    real, calls = background.thread.run, []

    def run(work, *fields):
        calls.append(work)
        if len(calls) > number:
            work.close()
            raise KeyboardInterrupt
        return real(work, *fields)

    return run


def test_callback_that_polls_is_not_told_again(background: Background):
    fill(background, 10)
    told, found = Told(), []

    with background.cluster.consumer(group="readers") as consumer:

        def on_assigned(partitions):
            told.events.append(("on_assigned", {*partitions}))
            found.extend(consumer.poll(10_000))

        consumer.subscribe("orders", on_assigned=on_assigned)
        consumer.poll(1000)
        assert (told.events, offsets(found)) == ([("on_assigned", {*ORDERS})], list(range(10)))
        settle(consumer)


def test_unsubscribing_forgets_a_rebalance_that_was_not_told(background: Background, interrupt: Interrupt):
    told = Told()
    with background.cluster.consumer(group="readers") as consumer:
        consumer.subscribe("orders", **told.callbacks())
        interrupt.next_call(consumer.poll, 10_000)
        consumer.unsubscribe()
        consumer.subscribe("invoices")
        settle(consumer)
        assert told.events == []
        assert {partition.topic for partition in consumer.assignment()} == {"invoices"}


# The commit before a revocation

AUTOMATIC = {"group": "readers", "enable_auto_commit": True, "auto_commit_interval_ms": 10**6}


async def test_cancelled_commit_before_a_revocation_gives_no_partition_up(world, runtime):
    told = Told()

    async with a_producer(runtime) as producer:
        await producer.send("orders", b"one", partition=0)
    cluster = AsyncCluster(runtime)
    first = cluster.consumer(**AUTOMATIC)
    await first.subscribe("orders", **told.callbacks())
    while not await first.poll(1000):
        pass
    second = await cluster.consumer("orders", group="readers").__aenter__()
    world.network.plan(CommitOffsets, Fate.REQUEST_LOST)
    polling = asyncio.create_task(first.poll(10_000))
    while not world.asked(CommitOffsets):
        await asyncio.sleep(0.01)
    polling.cancel()
    await asyncio.wait({polling})
    assert polling.cancelled()
    assert (told.names(), first.assignment()) == (["on_assigned"], {*ORDERS})
    while first.assignment() == {*ORDERS}:
        await first.poll(50)
    assert told.events[1:] == [("on_revoked", {*ORDERS} - first.assignment())]
    assert (await first.committed(ORDERS[0]))[ORDERS[0]].offset == 1
    for consumer in (second, first):
        await consumer.close()


def test_interrupted_commit_before_a_revocation_gives_no_partition_up(background: Background, interrupt: Interrupt):
    fill(background, 1)
    told, world = Told(), background.world
    with background.cluster.consumer(**AUTOMATIC) as first:
        first.subscribe("orders", **told.callbacks())
        while not first.poll(1000):
            pass
        with background.cluster.consumer("orders", group="readers"):
            background.on_loop(world.network.plan, CommitOffsets, Fate.REQUEST_LOST)

            def result(future):
                while not world.asked(CommitOffsets):
                    assert not future.done(), "the commit is still to come"
                raise KeyboardInterrupt

            with interrupt.of_waits(result), pytest.raises(KeyboardInterrupt):
                first.poll(60_000)
            assert (told.names(), first.assignment()) == (["on_assigned"], {*ORDERS})
            while first.assignment() == {*ORDERS}:
                first.poll(50)
            assert told.events[1:] == [("on_revoked", {*ORDERS} - first.assignment())]


# Closing


def members(world) -> list[str]:
    """The members that the group has, by its coordinator."""
    asked = world.asked(ConsumerHeartbeat)
    return sorted({each.member_id for each in asked} - {each.member_id for each in asked if each.member_epoch < 0})


async def test_consumer_whose_close_was_cancelled_has_left_its_group(world, runtime):
    consumer = await AsyncCluster(runtime).consumer("orders", **AUTOMATIC).__aenter__()
    await consumer.position(ORDERS[0])
    assert len(members(world)) == 1
    world.network.plan(CommitOffsets, Fate.REQUEST_LOST)
    closing = asyncio.create_task(consumer.close())
    while not world.asked(CommitOffsets):
        await asyncio.sleep(0.01)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    assert members(world) == []


def test_consumer_whose_close_was_interrupted_has_left_its_group(background: Background, interrupt: Interrupt):
    consumer = background.cluster.consumer("orders", **AUTOMATIC)
    assert len(members(background.world)) == 1
    interrupt.next_call(consumer.close)
    assert members(background.world) == []
