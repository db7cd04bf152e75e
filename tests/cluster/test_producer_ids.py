"""Producer ids are given out once, whichever node is killed meanwhile."""

import asyncio

import pytest

from eagleray.broker.transactions.events import InitProducerId
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.retry_policy import RetryPolicy
from tests.support.clusters import client_of, fresh, kill, nodes_with, until_back, within_deadline

pytestmark = pytest.mark.slow

ROUNDS = ("allocator", "coordinator")
ASKED_EACH_ROUND = 1100
"""More than a block has, so that the allocator is asked in each."""


async def fresh_id(client, node_id, transactional_id=None):
    reply = await call_with_retries(
        client.runtime,
        lambda: node_id,
        "asking for an identity",
        Question(InitProducerId, transactional_id),
        retry_policy=RetryPolicy(),
    )
    return reply.producer


def coordinator_nodes(client):
    view = client.runtime.view
    return sorted({view.leaders[partition] for partition in view.partitions["__transaction_state"]})


def test_producer_ids_stay_unique_over_kills(cluster):
    async def scenario():
        async with client_of(cluster) as client:
            found, named = [], {}

            async def ask_many():
                nodes = coordinator_nodes(client)
                asked = [fresh_id(client, nodes[turn % len(nodes)]) for turn in range(ASKED_EACH_ROUND)]
                found.extend(await asyncio.gather(*asked))
                for _ in range(10):
                    name = fresh("id")
                    named[name] = await fresh_id(client, client.runtime.view.transaction_coordinator(name), name)

            await ask_many()
            for role in ROUNDS:
                # Questions are under way while the node ends.
                asking = asyncio.ensure_future(ask_many())
                (node, *_) = await asyncio.to_thread(nodes_with, cluster, role)
                await asyncio.to_thread(kill, node)
                await asking
                await asyncio.to_thread(until_back, cluster, [node])
            await ask_many()

            ids = [producer.producer_id for producer in (*found, *named.values())]
            assert len(ids) == (len(ROUNDS) + 2) * (ASKED_EACH_ROUND + 10)
            assert len(set(ids)) == len(ids)
            assert {producer.epoch for producer in found} == {0}
            # A name keeps its id.
            for name, producer in named.items():
                again = await fresh_id(client, client.runtime.view.transaction_coordinator(name), name)
                assert (again.producer_id, again.epoch) == (producer.producer_id, producer.epoch + 1)

    within_deadline(scenario())
