"""Producers whose transactions have a resolver, on whole nodes: it decides when they are gone or silent."""

import asyncio
import base64
import json

import pytest

from eagleray.broker.transactions.events import EndTransaction, PrepareTransaction
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import (
    CompletedOtherwise,
    InvalidArgument,
    InvalidTransactionState,
    ProducerFenced,
    RetriableError,
)
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.resolver import Outcome, Question, Resolver
from eagleray.client.producer.transaction_states import State
from tests.support.client_helpers import a_transactional, settled
from tests.support.cluster_in_memory import COORDINATOR
from tests.support.resolvers import Resolvers

COMMIT, ABORT, UNKNOWN = Outcome.COMMIT, Outcome.ABORT, Outcome.UNKNOWN
SOON = {"namespace": "shop", "first_after_ms": 2000, "interval_ms": 1000, "attempts": 3}
ORDERS = Resolver.actor("orders", **SOON)
RESULTS = {COMMIT: [b"order 42"], ABORT: []}


@pytest.fixture
def cluster(runtime):
    return AsyncCluster(runtime)


def ask(world, *outcomes):
    """Let resolvers answer in this way from now on."""
    world.supervisor = Resolvers(*outcomes)
    for node in world.nodes.values():
        node.supervisor = world.supervisor
    return world.supervisor


async def prepared(runtime, resolver: Resolver = ORDERS, name: str = "billing", **settings: object):
    """A producer with a prepared transaction, whose resolver is named."""
    producer = await a_transactional(runtime, name, **settings)
    producer.begin(resolver=resolver)
    await producer.send("orders", b"order 42", partition=0)
    return producer, await producer.prepare(context=b"42")


async def left_prepared(runtime, resolver: Resolver = ORDERS):
    producer, token = await prepared(runtime, resolver)
    producer.abandon()
    return token


# What decides


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_resolver_decides_what_a_producer_has_left(world, runtime, outcome: Outcome):
    resolvers = ask(world, UNKNOWN, outcome)
    token = await left_prepared(runtime)
    await asyncio.sleep(1.9)
    assert resolvers.asked == []
    await asyncio.sleep(2)

    assert [question.attempt for question in resolvers.asked] == [1, 2]
    assert {(question.prepared, question.context) for question in resolvers.asked} == {(token, b"42")}
    assert resolvers.names[0].resolver == ResolverName(
        ResolverKind.ACTOR, "orders", "shop", "resolve", 2000, 1000, 3, False
    )
    assert world.committed("orders") == RESULTS[outcome]


async def test_producer_that_commits_in_time_is_not_asked_about(world, runtime):
    resolvers = ask(world, ABORT)
    producer = await a_transactional(runtime, "billing")
    async with producer.transaction(resolver=ORDERS):
        await producer.send("orders", b"order 42", partition=0)
        await producer.prepare(context=b"42")
    async with producer.transaction():
        await producer.send("orders", b"without", partition=0)
    await asyncio.sleep(10)

    assert resolvers.asked == []
    assert world.committed("orders") == [b"order 42", b"without"]
    await producer.close()


async def test_block_that_raises_before_it_is_prepared_aborts_and_behind_it_leaves_it_to_the_resolver(world, runtime):
    resolvers = ask(world, COMMIT)
    producer = await a_transactional(runtime, "billing")

    async def raising(value: bytes, *, prepares: bool) -> None:
        async with producer.transaction(resolver=ORDERS):
            await producer.send("orders", value, partition=0)
            if prepares:
                await producer.prepare(context=b"42")
            raise ZeroDivisionError

    for value, prepares in ((b"gone", False), (b"order 42", True)):
        with pytest.raises(ZeroDivisionError):
            await raising(value, prepares=prepares)
    await producer.close()
    assert world.committed("orders") == []
    await asyncio.sleep(3)

    assert len(resolvers.asked) == 1
    assert world.committed("orders") == [b"order 42"]


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_silent_producer_cannot_end_what_its_resolver_is_asked_about(world, runtime, outcome: Outcome):
    ask(world, None)
    producer, token = await prepared(runtime)
    await asyncio.sleep(2.5)

    with pytest.raises(ProducerFenced, match="the resolver of prepared-v1"):
        await producer.commit()

    assert producer.state is State.DEAD
    assert world.committed("orders") == []
    await AsyncCluster(runtime).complete(token, commit=outcome is COMMIT)
    await settled()
    assert world.committed("orders") == RESULTS[outcome]


async def test_token_and_resolver_come_to_one_outcome(world, runtime, cluster):
    ask(world, COMMIT)
    token = await left_prepared(runtime)
    await asyncio.sleep(3)

    await cluster.complete(token, commit=True)
    with pytest.raises(CompletedOtherwise):
        await cluster.complete(token, commit=False)


async def test_branches_are_committed_by_the_resolver_as_they_were_prepared(world, runtime, cluster):
    resolvers = ask(world, COMMIT)
    transaction = await cluster.begin("job", tag="batch-1", resolver=ORDERS)
    sealed = []
    for value in (b"chosen", b"other"):
        writer = await cluster.join(transaction.branch())
        await writer.send("orders", value, partition=0)
        sealed.append(await writer.seal())
    token = await transaction.prepare(sealed[:1], context=b"42")
    await asyncio.sleep(3)

    assert [question.prepared for question in resolvers.asked] == [token]
    assert world.committed("orders") == [b"chosen"]


# Producers that come back


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_producer_that_comes_back_waits_for_the_resolver_which_is_asked_at_once(world, runtime, outcome: Outcome):
    resolvers = ask(world, outcome)
    slow = Resolver.actor("orders", namespace="shop")
    await left_prepared(runtime, slow)
    began_s = world.seconds

    producer = await a_transactional(runtime, "billing")

    assert world.seconds - began_s < 1
    assert len(resolvers.asked) == 1
    assert producer.prepared is None
    assert world.committed("orders") == RESULTS[outcome]
    async with producer.transaction():
        await producer.send("orders", b"next", partition=0)
    await producer.close()
    await settled()
    assert world.committed("orders") == [*RESULTS[outcome], b"next"]


async def test_producer_that_comes_back_is_not_let_in_before_there_is_an_outcome(world, runtime):
    resolvers = ask(world)
    await left_prepared(runtime, Resolver.actor("orders", namespace="shop"))

    with pytest.raises(RetriableError):
        await a_transactional(runtime, "billing", max_block_ms=5000)

    assert resolvers.asked
    assert world.committed("orders") == []
    described = await AsyncCluster(runtime).admin.describe_transaction("billing")
    assert (described.state, described.questions) == ("Ongoing", len(resolvers.asked))


async def test_producer_that_commits_in_two_phases_finds_it_prepared_and_may_complete_it(world, runtime):
    resolvers = ask(world, ABORT)
    token = await left_prepared(runtime)

    producer = await a_transactional(runtime, "billing", transaction_two_phase_commit_enable=True)
    assert producer.prepared == token
    assert await producer.complete(token)
    await asyncio.sleep(10)

    assert resolvers.asked == []
    assert world.committed("orders") == [b"order 42"]
    await producer.close()


# Losses


async def test_next_coordinator_asks_on(world, runtime):
    ask(world)
    await left_prepared(runtime)
    await asyncio.sleep(2.5)
    world.kill(COORDINATOR)
    resolvers = ask(world, COMMIT)
    world.start(COORDINATOR)
    await asyncio.sleep(35)

    assert [question.attempt for question in resolvers.asked] == [2]
    assert world.committed("orders") == [b"order 42"]


async def test_node_without_ray_says_so_and_keeps_the_transaction(world, runtime, caplog: pytest.LogCaptureFixture):
    await left_prepared(runtime)
    await asyncio.sleep(30)

    said = [record.getMessage() for record in caplog.records if "without Ray" in record.getMessage()]
    assert len(said) == SOON["attempts"]
    assert "'resolve' of actor 'orders' in namespace 'shop'" in said[0]
    assert world.committed("orders") == []
    assert (await AsyncCluster(runtime).admin.describe_transaction("billing")).prepared_ms >= 0


async def test_transaction_is_aborted_where_that_is_wanted_and_nothing_answers(world, runtime):
    resolvers = ask(world, UNKNOWN, UNKNOWN, UNKNOWN, COMMIT)
    await left_prepared(runtime, Resolver.actor("orders", **SOON, exhausted="abort"))
    await asyncio.sleep(30)

    assert len(resolvers.asked) == SOON["attempts"]
    assert (await AsyncCluster(runtime).admin.describe_transaction("billing")).state == "CompleteAbort"


# A topic of questions


async def test_reader_of_a_topic_of_questions_completes_the_transaction(world, runtime, cluster):
    resolver = Resolver.topic("invoices", first_after_ms=2000, interval_ms=1000)
    token = await left_prepared(runtime, resolver)
    await asyncio.sleep(3.5)

    values = world.committed("invoices")
    first, second = (Question.parse(value) for value in values)
    assert (first.prepared, first.context, first.attempt, second.attempt) == (token, b"42", 1, 2)
    assert json.loads(values[0]) == {
        "version": 1,
        "prepared": str(token),
        "context": base64.b64encode(b"42").decode(),
        "attempt": 1,
        "prepared_at_ms": first.prepared_at_ms,
    }
    await cluster.complete(first.prepared, commit=True)
    await asyncio.sleep(30)

    assert world.committed("orders") == [b"order 42"]
    assert len(world.committed("invoices")) == 2


async def test_topic_that_there_is_not_is_named_in_the_log(world, runtime, caplog: pytest.LogCaptureFixture):
    await left_prepared(runtime, Resolver.topic("questions", first_after_ms=2000, interval_ms=1000, attempts=2))
    await asyncio.sleep(10)

    said = [record.getMessage() for record in caplog.records if "no such topic" in record.getMessage()]
    assert len(said) == 2
    assert "topic 'questions'" in said[0]


# What is taken


async def test_prepare_needs_two_phases_or_a_resolver(world, runtime):
    producer = await a_transactional(runtime, "billing")
    producer.begin()
    with pytest.raises(InvalidTransactionState, match="has no resolver"):
        await producer.prepare()
    await producer.close()


async def test_actor_without_a_namespace_is_in_that_of_the_ray_job(world, runtime):
    producer = await a_transactional(runtime, "billing")
    with pytest.raises(InvalidArgument, match="namespace="):
        producer.begin(resolver=Resolver.actor("orders"))
    runtime.ray_namespace = "ours"
    async with producer.transaction(resolver=Resolver.actor("orders")):
        await producer.send("orders", b"order 42", partition=0)
        await producer.prepare()
    [question] = [message for message in world.requests if isinstance(message, PrepareTransaction)]
    assert question.resolver.namespace == "ours"
    await producer.close()


async def test_what_is_no_resolver_is_refused_before_anything_is_sent(world, runtime, cluster):
    producer = await a_transactional(runtime, "billing")
    with pytest.raises(InvalidArgument, match=r"Resolver\.actor"):
        producer.begin(resolver="orders")
    assert producer.state is State.READY
    with pytest.raises(InvalidArgument, match=r"Resolver\.actor"):
        await cluster.begin("job", tag="batch-1", resolver=print)
    assert not [message for message in world.requests if isinstance(message, EndTransaction)]
    await producer.close()


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"name": ""}, "name of the actor"),
        ({"name": 42}, "name of the actor"),
        ({"name": "x" * 250}, "name of the resolver's actor"),
        ({"namespace": ""}, "namespace"),
        ({"method": "_private"}, "public method"),
        ({"first_after_ms": 0}, "first_after_ms is 0"),
        ({"interval_ms": 1.5}, "interval_ms is 1.5"),
        ({"attempts": 1001}, "attempts is 1001"),
        ({"exhausted": "commit"}, "exhausted is 'commit'"),
    ],
)
def test_resolver_says_what_is_wrong_with_it(wrong: dict[str, object], expected: str):
    with pytest.raises(InvalidArgument, match=expected):
        Resolver.actor(**{"name": "orders", **wrong})


@pytest.mark.parametrize("name", ["", "no topic", "__transaction_state", None])
def test_topic_of_questions_has_to_be_one_of_the_applications(name: str | None):
    with pytest.raises(InvalidArgument):
        Resolver.topic(name)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"\xff",
        b"[]",
        None,
        b'{"version":2,"prepared":"prepared-v1.a.1.2","context":"","attempt":1,"prepared_at_ms":1}',
    ],
)
def test_what_is_no_question_is_refused(text: bytes | None):
    with pytest.raises(InvalidArgument):
        Question.parse(text)


def test_question_has_the_prepared_transaction():
    text = '{"version":1,"prepared":"prepared-v1.a.1.2","context":"NDI=","attempt":3,"prepared_at_ms":4,"later":5}'
    token = PreparedTransaction.parse("prepared-v1.a.1.2")
    assert Question.parse(text) == Question(token, b"42", 3, 4)
