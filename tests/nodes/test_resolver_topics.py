"""Resolvers that are topics of questions: what is left prepared ends, though its coordinator is killed."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from eagleray import Question, Resolver
from eagleray.actors.roles.coordinators import coordinator_of_transaction
from eagleray.client.errors import CompletedOtherwise
from eagleray.testing import SEPARATE, LocalCluster
from tests.nodes.test_replication import values

QUESTIONS = Resolver.topic("questions", first_after_ms=100, interval_ms=100, attempts=1000)
TIMEOUT_S = 60


@asynccontextmanager
async def running(tmp_path):
    async with LocalCluster(tmp_path, SEPARATE) as nodes:
        cluster = nodes.connect()
        for topic in ("orders", "questions"):
            await cluster.admin.create_topic(topic, partitions=1)
        yield nodes, cluster
        await cluster.close()


async def left_prepared(nodes, name="billing"):
    """Prepare a transaction that names the topic, and be gone."""
    gone = nodes.connect()
    producer = gone.producer(transactional_id=name)
    await producer.init()
    producer.begin(resolver=QUESTIONS)
    await producer.send("orders", b"order 42")
    token = await producer.prepare(context=b"42")
    producer.abandon()
    await gone.close()
    return token


class Reader:
    """An application that reads what is asked, from the first question on."""

    def __init__(self, cluster):
        self._consumer = cluster.consumer("questions", auto_offset_reset="earliest")

    async def __aenter__(self):
        await self._consumer.__aenter__()
        return self

    async def __aexit__(self, *raised):
        await self._consumer.__aexit__(*raised)

    async def next(self, after=0):
        """The next question whose number is above one."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                for record in await self._consumer.poll(100):
                    question = Question.parse(record.value)
                    assert record.key == question.prepared.transactional_id.encode()
                    if question.attempt > after:
                        return question


@pytest.mark.parametrize("commit", [True, False])
async def test_reader_of_the_topic_decides_though_the_coordinator_is_killed(tmp_path, commit):
    async with running(tmp_path) as (nodes, cluster), Reader(cluster) as reader:
        token = await left_prepared(nodes)
        first = await reader.next()
        assert (first.prepared, first.context, first.attempt) == (token, b"42", 1)

        await nodes.restart_node(max(node for node, roles in SEPARATE.items() if "coordinator" in roles))
        again = await reader.next(after=first.attempt)
        assert (again.prepared, again.context, again.prepared_at_ms) == (token, b"42", first.prepared_at_ms)

        await cluster.complete(again.prepared, commit=commit)
        # The answer to a question that came twice.
        await cluster.complete(first.prepared, commit=commit)
        with pytest.raises(CompletedOtherwise):
            await cluster.complete(first.prepared, commit=not commit)
        assert await values(cluster) == ([b"order 42"] if commit else [])


async def test_questions_go_on_from_the_machine_that_coordinates_instead(nodes, cluster):
    for topic in ("orders", "questions"):
        await cluster.admin.create_topic(topic, partitions=1, replication_factor=3)
    name = next(
        name for name in map("billing-{}".format, range(1000)) if coordinator_of_transaction(nodes.image, name) != 0
    )
    token = await left_prepared(nodes, name)
    async with Reader(cluster) as reader:
        first = await reader.next()
        killed = coordinator_of_transaction(nodes.image, name)
        nodes.kill_node(killed)
        again = await reader.next(after=first.attempt)
        assert (again.prepared, again.context) == (token, b"42")
        await cluster.complete(again.prepared, commit=True)
        assert coordinator_of_transaction(nodes.image, name) != killed
        assert await values(cluster) == [b"order 42"]
