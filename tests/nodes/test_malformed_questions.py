"""Values of a wrong type at real nodes: the caller hears of them at once, and other clients keep their connection."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import DeleteRecords
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.errors import EaglerayError, InvalidArgument, NotConnected
from eagleray.client.retry_policy import RetryPolicy
from eagleray.testing import COLOCATED, LocalCluster

PARTITION = TopicPartition("orders", 0)
AT_ONCE_S = 20.0
"""Far below the minute that a client asks a cluster which does not answer."""


@asynccontextmanager
async def running(tmp_path):
    async with LocalCluster(tmp_path, {0: COLOCATED[0]}) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1)
        yield cluster
        await cluster.close()


async def refused(call):
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises((EaglerayError, TypeError, ValueError)) as raised:
            await call
    assert not isinstance(raised.value, NotConnected)
    return raised.value


@pytest.mark.parametrize("offset", ["5", 2**70, object()], ids=["a text", "70 bits", "an object"])
async def test_wrong_field_is_refused_at_once_and_others_are_served(tmp_path, offset):
    async with running(tmp_path) as cluster, cluster.producer() as producer:
        sending = [await producer.send("orders", b"%d" % number) for number in range(10)]
        runtime = cluster.runtime
        call = call_with_retries(
            runtime,
            lambda: 0,
            "deleting records",
            Question(DeleteRecords, PARTITION, offset, 1000),
            retry_policy=RetryPolicy(),
        )
        assert isinstance(await refused(call), InvalidArgument)
        for sent in sending:
            await sent


async def test_wrong_transactional_id_is_refused_at_once(tmp_path):
    async with running(tmp_path) as cluster:

        async def init():
            async with cluster.producer(transactional_id=5):
                pass

        await refused(init())


async def test_wrong_tag_is_refused_at_once(tmp_path):
    async with running(tmp_path) as cluster:

        async def begin():
            async with await cluster.begin("job", tag=5):
                pass

        await refused(begin())


async def test_wrong_offset_to_read_from_is_refused_at_once(tmp_path):
    async with running(tmp_path) as cluster:

        async def read():
            async with cluster.consumer() as consumer:
                consumer.assign([PARTITION])
                consumer.seek(PARTITION, 2**70)
                while True:
                    await consumer.poll(timeout_ms=100)

        await refused(read())


async def test_wrong_offsets_of_a_group_are_refused_at_once(tmp_path):
    async with running(tmp_path) as cluster, cluster.consumer(group="g") as consumer:
        await refused(consumer.commit({PARTITION: "5"}))


async def test_wrong_offsets_in_a_transaction_are_refused_at_once(tmp_path):
    async with running(tmp_path) as cluster, cluster.producer(transactional_id="copy") as producer:

        async def send_offsets():
            async with producer.transaction():
                await producer.send_offsets({PARTITION: "5"}, "g")

        await refused(send_offsets())
