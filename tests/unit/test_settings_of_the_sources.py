"""Every setting that Eagleray's source documents name exists, and has an effect that shows.

The documents are KIP-98 and four articles on Kafka's transactions. For each setting that they name there is a function
here that does the same with different values of it, and says what came out. Two names are refused instead, with what to
write: `bootstrap.servers`, which a client of a cluster's handle has no use for, and
`max.inflight.requests.per.connection`, a spelling that Kafka does not know either.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from eagleray.actors.common.settings import config_of
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.groups.events import CommitOffsets
from eagleray.broker.partitions.events import Produce
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import InitProducerId
from eagleray.broker.transactions.states import TransactionState
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.errors import DeliveryTimeout, InvalidConfig
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import split_batches
from tests.support.client_helpers import ORDERS, a_consumer, a_producer, a_transactional, outcome, poll_values, settled
from tests.support.cluster_in_memory import in_world
from tests.support.controllers import replicated_driver
from tests.support.coordinators import TRANSACTIONAL_ID, CoordinatorDriver, snapshot
from tests.support.lanes_in_memory import Fate

BROKER = (
    "transactional.id.timeout.ms",
    "max.transaction.timeout.ms",
    "transaction.state.log.replication.factor",
    "transaction.state.log.num.partitions",
    "transaction.state.log.min.isr",
    "transaction.state.log.segment.bytes",
)
PRODUCER = (
    "transactional.id",
    "enable.idempotence",
    "acks",
    "retries",
    "max.in.flight.requests.per.connection",
    "transaction.timeout.ms",
)
CONSUMER = ("group.id", "isolation.level", "enable.auto.commit", "auto.commit.interval.ms")

HOUR_MS = 3_600_000


class Effect(msgspec.Struct, frozen=True):
    """What is observed with each value of a setting."""

    observe: Callable[[Any], Any]
    expected: dict[Any, Any]


EFFECTS: dict[str, Effect] = {}


def effect(name: str, expected: dict[Any, Any]) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Note a function as the one that observes the effect of a setting."""

    def note(observe: Callable[[Any], Any]) -> Callable[[Any], Any]:
        EFFECTS[name] = Effect(observe, expected)
        return observe

    return note


# The broker


@effect("transactional.id.timeout.ms", {"604800000": "remembered", "5000": "forgotten"})
def observe_idle_transactional_id(value):
    loaded = {TRANSACTIONAL_ID: snapshot(TransactionState.EMPTY)}
    settings = {"transactional.id.timeout.ms": value, "transaction.state.log.num.partitions": "1"}
    driver = CoordinatorDriver(config_of(CoordinatorConfig, settings), loaded=loaded)
    driver.tick(HOUR_MS + 1)
    return "forgotten" if driver.appends and driver.append().snapshot is None else "remembered"


@effect("max.transaction.timeout.ms", {"900000": ErrorCode.NONE, "59999": ErrorCode.INVALID_TRANSACTION_TIMEOUT})
def observe_longest_timeout(value):
    settings = {"max.transaction.timeout.ms": value, "transaction.state.log.num.partitions": "1"}
    driver = CoordinatorDriver(config_of(CoordinatorConfig, settings))
    request = driver.init(timeout_ms=60_000)
    driver.settle()
    return driver.replies[request].error_code


def transaction_log(setting, value):
    """`__transaction_state` of a new cluster on three machines."""
    return replicated_driver(config_of(ControllerConfig, {setting: value})).image.topics["__transaction_state"]


@effect("transaction.state.log.replication.factor", {"3": 3, "2": 2})
def observe_replicas(value):
    return len(transaction_log("transaction.state.log.replication.factor", value).partitions[0].replicas)


@effect("transaction.state.log.num.partitions", {"50": 50, "7": 7})
def observe_partitions(value):
    return len(transaction_log("transaction.state.log.num.partitions", value).partitions)


@effect("transaction.state.log.min.isr", {"2": "2", "3": "3"})
def observe_least_in_sync(value):
    """What its leader needs; tests/nodes/test_replication.py sees that a coordinator with fewer decides nothing."""
    return transaction_log("transaction.state.log.min.isr", value).configs["min.insync.replicas"]


@effect("transaction.state.log.segment.bytes", {"104857600": "104857600", "2048": "2048"})
def observe_segments(value):
    """What its log is opened with; tests/nodes sees the files."""
    return transaction_log("transaction.state.log.segment.bytes", value).configs["segment.bytes"]


# Producers


def with_producer(use, **settings):
    """Do something with a producer in a world of its own; return what it returns."""

    async def main(world, runtime):
        producer = a_producer(runtime, **settings)
        observed = await use(world, producer)
        await producer.close()
        return observed

    return in_world(main)


@effect("transactional.id", {None: "InvalidTransactionState", "billing": "committed"})
def observe_transactions(value):
    async def use(world, producer):
        if value is not None:
            await producer.init()
        try:
            producer.begin()
        except Exception as error:  # noqa: BLE001 - its name is what is looked at
            return type(error).__name__
        await producer.send("orders", b"one", partition=0)
        await producer.commit()
        return "committed"

    return with_producer(use, transactional_id=value)


@effect("enable.idempotence", {True: [b"one"], False: [b"one", b"one"]})
def observe_repetition(value):
    """What is in the log when an acknowledgement was lost."""

    async def use(world, producer):
        world.network.plan(Produce, Fate.REPLY_LOST)
        await producer.send_and_wait("orders", b"one", partition=0)
        return world.committed("orders", 0)

    return with_producer(use, enable_idempotence=value)


@effect("acks", {"all": 0, 1: 0, 0: -1})
def observe_acknowledgement(value):
    """The offset that the producer is told; with none it is not told any."""

    async def use(world, producer):
        offset = (await producer.send_and_wait("orders", b"one", partition=0)).offset
        await settled()
        return offset

    return with_producer(use, acks=value, enable_idempotence=value == "all")


@effect("retries", {2**31 - 1: (4, "delivered"), 1: (2, DeliveryTimeout), 0: (1, DeliveryTimeout)})
def observe_retries(value):
    """How often a batch is sent whose first three requests are lost, and what its sender hears."""

    async def use(world, producer):
        world.network.plan(Produce, Fate.REQUEST_LOST, times=3)
        error = await outcome(producer.send_and_wait("orders", b"one", partition=0))
        sent = len(world.asked(Produce))
        world.network.unused.clear()
        return sent, "delivered" if error is None else type(error)

    return with_producer(use, retries=value, enable_idempotence=False)


@effect("max.in.flight.requests.per.connection", {5: 5, 1: 1, 3: 3})
def observe_in_flight(value):
    """How many batches of a partition are on their way while its leader does not answer."""

    async def use(world, producer):
        await producer.send_and_wait("orders", bytes(60), partition=0)
        leader = world.image.leader_of(ORDERS[0])
        world.kill(leader)
        deliveries = [await producer.send("orders", bytes(60), partition=0) for _ in range(7)]
        await asyncio.sleep(0.01)
        in_flight = len(world.asked(Produce)) - 1
        world.start(leader)
        for delivery in deliveries:
            await delivery
        return in_flight

    return with_producer(use, batch_size=100, max_in_flight_requests_per_connection=value)


@effect("transaction.timeout.ms", {60_000: [60_000], 5000: [5000]})
def observe_transaction_timeout(value):
    """What the producer asks its coordinator for, which aborts transactions that are open for longer."""

    async def main(world, runtime):
        producer = await a_transactional(runtime, transaction_timeout_ms=value)
        await producer.close()
        return [request.timeout_ms for request in world.asked(InitProducerId)]

    return in_world(main)


# Consumers


async def write(runtime, *values):
    producer = a_producer(runtime)
    for value in values:
        await producer.send("orders", value, partition=0)
    await producer.close()


@effect("group.id", {"readers": [b"two"], "others": [b"one", b"two"]})
def observe_group(value):
    """What a consumer reads of a log of which the group `readers` has committed the first record."""

    async def main(world, runtime):
        await write(runtime, b"one", b"two")
        first = await a_consumer(runtime, ORDERS[0], group_id="readers")
        await first.commit({ORDERS[0]: 1})
        await first.close()
        consumer = await a_consumer(runtime, ORDERS[0], group_id=value)
        read = [record.value for record in await consumer.poll(1000)]
        await consumer.close()
        return read

    return in_world(main)


@effect("isolation.level", {"read_committed": [b"before"], "read_uncommitted": [b"before", b"open"]})
def observe_isolation(value):
    """What a consumer reads while a transaction is open."""

    async def main(world, runtime):
        await write(runtime, b"before")
        producer = await a_transactional(runtime)
        producer.begin()
        await producer.send("orders", b"open", partition=0)
        await producer.flush()
        consumer = await a_consumer(runtime, ORDERS[0], isolation_level=value)
        read = [record.value for record in await consumer.poll(1000)]
        await consumer.close()
        await producer.abort()
        await producer.close()
        return read

    return in_world(main)


async def commits_after(world, runtime, milliseconds, **settings):
    """How often a consumer of two records has committed by itself so long after it has read them."""
    await write(runtime, b"one", b"two")
    consumer = await a_consumer(runtime, ORDERS[0], group_id="readers", **settings)
    await poll_values(consumer, 2)
    await settled(milliseconds)
    await consumer.poll(0)
    await settled(100)
    commits = len(world.asked(CommitOffsets))
    await consumer.close()
    return commits


@effect("enable.auto.commit", {False: 0, True: 1})
def observe_auto_commit(value):
    return in_world(lambda world, runtime: commits_after(world, runtime, 6000, enable_auto_commit=value))


@effect("auto.commit.interval.ms", {5000: 0, 1000: 1})
def observe_auto_commit_interval(value):
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": value}
    return in_world(lambda world, runtime: commits_after(world, runtime, 1500, **settings))


CASES = [(name, value) for name in EFFECTS for value in EFFECTS[name].expected]


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name}={value}" for name, value in CASES])
def test_setting_has_its_effect(name, value):
    observed = EFFECTS[name].observe(value)
    assert observed == EFFECTS[name].expected[value]


def test_every_setting_that_the_sources_name_makes_a_difference():
    assert EFFECTS.keys() == {*BROKER, *PRODUCER, *CONSUMER}
    for name, each in EFFECTS.items():
        assert len({repr(observed) for observed in each.expected.values()}) > 1, name


@pytest.mark.parametrize("config", [ProducerConfig, ConsumerConfig])
@pytest.mark.parametrize("key", ["bootstrap.servers", "bootstrap_servers"])
def test_address_of_brokers_is_refused_with_the_way_to_connect(config, key):
    with pytest.raises(
        InvalidConfig, match=rf"'{key}' is a setting of Kafka's clients; `eagleray\.connect` finds"
    ) as refused:
        config.make({key: "127.0.0.1:9092"})
    assert "linger" not in refused.value.message
    assert "fetch" not in refused.value.message


def test_misspelt_limit_of_requests_in_flight_is_refused_with_its_spelling():
    with pytest.raises(InvalidConfig, match=r"did you mean max\.in\.flight\.requests\.per\.connection\?"):
        ProducerConfig.make({"max.inflight.requests.per.connection": 1})


def test_idempotent_producer_without_retries_is_refused():
    with pytest.raises(InvalidConfig, match=r"retries is 0, but enable\.idempotence needs 1 or more"):
        with_producer(None, retries=0)


def test_batches_of_an_idempotent_producer_carry_its_id():
    """As KIP-98 says: without idempotence a batch has no producer id."""

    def producer_id(value):
        async def use(world, producer):
            await producer.send_and_wait("orders", b"one", partition=0)
            (request,) = world.asked(Produce)
            return split_batches(request.records)[0].header.producer_id

        return with_producer(use, enable_idempotence=value)

    assert producer_id(False) == -1
    assert producer_id(True) >= 0
