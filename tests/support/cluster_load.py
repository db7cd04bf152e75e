"""A load of transactions with offsets, which remembers what it was told about each of them."""

import asyncio

from eagleray import TopicPartition
from tests.support.clusters import admin_of, assert_holds, fresh, group_offset

ABORTED_EVERY = 5
MINORITY = 2


class Load:
    """Producers with transactional ids, each with a group of its own, and one transaction after the other.

    Every transaction writes two partitions and moves the offset of its producer's group; one in five is aborted when
    its records are in the log already. Whatever a client raises ends the load with it.
    """

    def __init__(self, client, *, producers=20, transactions=15, partitions=4, replicas=1):
        self._client = client
        self._producers = producers
        self._transactions = transactions
        self._partitions = partitions
        self._replicas = replicas
        self.topic = fresh("load")
        self.committed = []
        self.offsets = {}
        self.done = 0
        self.total = producers * transactions
        self._milestones = {}

    async def prepare(self):
        configs = {"min.insync.replicas": "2"} if self._replicas > MINORITY else {}
        await admin_of(self._client).create_topic(
            self.topic, partitions=self._partitions, replication_factor=self._replicas, configs=configs
        )

    def at(self, done, act):
        """Do something the moment this many transactions are done, while the others are under way."""
        self._milestones[done] = act

    async def run(self, first=0):
        """Run all producers side by side; `first` is the number of the first of them."""
        await asyncio.gather(*(self._produce(first + number) for number in range(self._producers)))
        assert not self._milestones, "the load was over before what was to happen in the middle of it"

    async def _produce(self, number):
        async with self._client.producer(transactional_id=f"{self.topic}-{number}") as producer:
            for turn in range(self._transactions):
                await self._transact(producer, number, turn)
                self.done += 1
                act = self._milestones.pop(self.done, None)
                if act is not None:
                    act()

    async def _transact(self, producer, number, turn):
        values = [b"%d %d %d" % (number, turn, place) for place in range(2)]
        group, is_aborted = f"{self.topic}-{number}", turn % ABORTED_EVERY == 1
        producer.begin()
        for place, value in enumerate(values):
            await producer.send(self.topic, value, partition=(number + turn + place) % self._partitions)
        await producer.send_offsets({TopicPartition(self.topic, 0): turn + 1}, group)
        if is_aborted:
            await producer.flush()
            await producer.abort()
            return
        await producer.commit()
        self.committed += values
        self.offsets[group] = turn + 1

    async def check(self, client=None):
        """What was acknowledged is there once, nothing else is, and groups are where the last commit left them."""
        client = client or self._client
        await assert_holds(client, self.topic, self.committed)
        partition = TopicPartition(self.topic, 0)
        found = await asyncio.gather(*(group_offset(client, group, partition) for group in self.offsets))
        assert dict(zip(self.offsets, found, strict=True)) == self.offsets
