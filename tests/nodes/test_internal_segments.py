"""Segments of the internal topics are as large as the cluster's settings say."""

import asyncio

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.testing import COLOCATED, LocalCluster

FEW = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
TIMES = 40


def segments(folder, topic):
    return len([*folder.rglob(f"{topic}-0/*.log")])


async def _fill(folder, settings):
    """Write so many transactions that each commit an offset."""
    async with LocalCluster(folder, COLOCATED, {**FEW, **settings}) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1)
        async with cluster.producer(transactional_id="billing") as producer, asyncio.timeout(60):
            for number in range(TIMES):
                async with producer.transaction():
                    await producer.send("orders", b"x", partition=0)
                    await producer.send_offsets({TopicPartition("orders", 0): number}, "readers")
        await cluster.close()


@pytest.mark.parametrize(
    ("setting", "topic", "other"),
    [
        ("transaction.state.log.segment.bytes", "__transaction_state", "__consumer_offsets"),
        ("offsets.topic.segment.bytes", "__consumer_offsets", "__transaction_state"),
    ],
)
async def test_segments_of_an_internal_topic_are_as_large_as_its_setting_says(tmp_path, setting, topic, other):
    await _fill(tmp_path, {setting: "1024"})
    assert segments(tmp_path, topic) > 1
    assert segments(tmp_path, other) == 1
