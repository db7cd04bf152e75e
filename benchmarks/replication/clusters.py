"""A cluster over three machines of this host, and what one waits for in it."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from eagleray import aio
from eagleray.broker.controller.events import GetMetadata
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.errors import NotConnected
from eagleray.client.retry_policy import RetryPolicy
from eagleray.protocol.errors import ErrorCode
from tests.support.machines import Machines

MACHINES = 3
NODES_OF_A_MACHINE = 100
DEADLINE_S = 120.0
_LOOK_S = 0.02
_ANSWER_MS = 500


@asynccontextmanager
async def cluster_on(machines: Machines, **config: str) -> AsyncIterator[aio.Cluster]:
    """Start a cluster with one node on each machine and empty data directories, and end it."""
    with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
        started = await aio.start(
            directory,
            name="replicated",
            address=machines.address,
            machines=MACHINES,
            layout="colocated",
            leaders=1,
            config={name.replace("_", "."): value for name, value in config.items()},
        )
        async with started:
            yield started


async def metadata_at(cluster: aio.Cluster, node_id: int) -> tuple[MetadataImage | None, bool]:
    """What a node knows, None where it does not answer, and whether it is the controller."""
    try:
        answered = await call_with_retries(
            cluster.runtime,
            lambda: node_id,
            "reading the metadata",
            Question(GetMetadata),
            retry_policy=RetryPolicy(total_ms=_ANSWER_MS),
            error_of=lambda _: ErrorCode.NONE,
        )
    except NotConnected:
        return None, False
    return answered.image, answered.error_code is ErrorCode.NONE


async def controller_of(cluster: aio.Cluster) -> int:
    """The node that is the controller, if one says so."""
    for node_id in sorted(cluster.runtime.view.image.nodes):
        _, is_controller = await metadata_at(cluster, node_id)
        if is_controller:
            return node_id
    return NO_NODE


async def until_whole(cluster: aio.Cluster) -> None:
    """Wait until every node has joined, every replica is in sync, and the first of each partition leads it."""

    def is_whole(image: MetadataImage) -> bool:
        return image.nodes.keys() == image.plan.keys() and all(map(_is_settled, _partitions(image)))

    await until(cluster, is_whole, "every replica is in sync and led by the first")


def _partitions(image: MetadataImage) -> list[PartitionImage]:
    return [partition for topic in image.topics.values() for partition in topic.partitions]


def _is_settled(partition: PartitionImage) -> bool:
    return set(partition.isr) == set(partition.replicas) and partition.leader == partition.replicas[0]


async def until(cluster: aio.Cluster, is_so: Callable[[MetadataImage], bool], what: str) -> None:
    """Wait until the metadata say something."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        await cluster.runtime.view.refreshed()
        if is_so(cluster.runtime.view.image):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {DEADLINE_S:.0f} s still not: {what}")
        await asyncio.sleep(_LOOK_S)
