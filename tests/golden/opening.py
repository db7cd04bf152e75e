"""A data directory under nodes in this process, at a time of day and in a boot of the machine that a test names."""

import time
from contextlib import asynccontextmanager, contextmanager
from unittest import mock

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.testing import SEPARATE, LocalCluster
from tests.golden.kafka import Kafka

LAYOUT = SEPARATE
"""Each role on a node of its own, so that one of them can be down while the others go on."""

LEADER_THAT_GOES = 6
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
}


@contextmanager
def machine(boot_id, now_ms):
    """Let the clock go on from a time, and the machine be in a boot: what is due, and what recovery does, follows."""
    started_ns = time.monotonic_ns()

    def time_ns():
        return now_ms * 1_000_000 + time.monotonic_ns() - started_ns

    def time_s():
        return time_ns() / 1e9

    with (
        mock.patch.object(LocalFileSystem, "boot_id", return_value=boot_id),
        mock.patch.object(time, "time_ns", time_ns),
        mock.patch.object(time, "time", time_s),
    ):
        yield


@asynccontextmanager
async def running(data_dir):
    """Nodes on a data directory, with a client that speaks Kafka's protocol and one that speaks ours."""
    async with LocalCluster(data_dir, LAYOUT, SETTINGS) as nodes:
        cluster, kafka = nodes.connect(), Kafka(nodes)
        try:
            yield nodes, kafka, cluster
        finally:
            await cluster.close()
            await kafka.close()
