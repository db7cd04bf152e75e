"""Honest work beside strangers: transactions by a real client, read back as they were committed."""

import asyncio

from eagleray.client.cluster import AsyncCluster
from eagleray.client.types import TopicPartition
from tests.fuzz.violation import Violation
from tests.support.cluster_in_memory import ClusterInMemory

TOPIC = "kept-6f1d"
TRANSACTIONAL_ID = "keeper-6f1d"
GROUP = "readers-6f1d"
PARTITIONS = 2
_FOREVER_S = 600
_LONGEST_MS = 24 * 60 * 60 * 1000


class HonestWork:
    """A transactional producer, and a consumer of a group that reads what is committed.

    Every third transaction is aborted. What the consumer reads has to be what was committed, in order, and nothing
    else; an error that a client gets is a violation.
    """

    def __init__(self, cluster: ClusterInMemory) -> None:
        self._runtime = cluster.runtime()
        self._clients = AsyncCluster(self._runtime)
        self._producer = self._clients.producer(transactional_id=TRANSACTIONAL_ID)
        # It polls when strangers are done, which by their clock may be hours.
        self._consumer = self._clients.consumer(
            TOPIC, group=GROUP, isolation="read_committed", max_poll_interval_ms=_LONGEST_MS
        )
        self._count = 0
        self._committed: list[bytes] = []
        self._read: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    async def begin(self) -> None:
        await self._producer.init()

    async def work(self) -> None:
        """Write a transaction, and read until everything that is committed has been read."""
        try:
            async with asyncio.timeout(_FOREVER_S):
                await self._write()
                await self._read_all()
        except Exception as error:
            raise Violation(f"the honest work cannot go on: {error!r}") from error

    async def _write(self) -> None:
        value = b"%d" % self._count
        self._count += 1
        self._producer.begin()
        for partition in range(PARTITIONS):
            await self._producer.send(TOPIC, value, partition=partition)
        if self._count % 3 != 2:
            await self._producer.commit()
            self._committed.append(value)
        else:
            # What is not written yet would never be.
            await self._producer.flush()
            await self._producer.abort()

    async def _read_all(self) -> None:
        while any(len(read) < len(self._committed) for read in self._read):
            for record in await self._consumer.poll(timeout_ms=500):
                assert record.value is not None
                self._read[record.partition].append(bytes(record.value))
        await self._consumer.commit()
        for partition, read in enumerate(self._read):
            if read != self._committed:
                raise Violation(f"partition {partition} was read as {read[-9:]}, committed is {self._committed[-9:]}")

    def check_log(self, cluster: ClusterInMemory) -> None:
        """Look into the log itself: what a reader that begins anew would see."""
        for partition in range(PARTITIONS):
            found = [record.value for record in cluster.committed_records(TopicPartition(TOPIC, partition))]
            if found != self._committed:
                raise Violation(f"the log of partition {partition} has {found[-9:]}, not {self._committed[-9:]}")

    def close(self) -> None:
        """End without a word, as a process that is killed."""
        self._producer.abandon()
        self._runtime.close()
        self._runtime.view.close()
