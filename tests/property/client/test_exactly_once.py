"""Exactly once over a network that loses, repeats and delays, while every node but the controller dies and comes back.

Pipelines read orders and write invoices, each with its offsets in the same transaction. Whatever happens, each order
ends up in exactly one committed invoice, every call returns, and no delivery is left open.
"""

import asyncio
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.identities import TopicPartition
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import AbortableError, FatalError, RetriableError
from eagleray.client.producer.batches import Delivery
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.runtime import ClientRuntime
from tests.support.client_helpers import ORDERS, a_consumer, a_producer, settled
from tests.support.cluster_in_memory import COORDINATOR, GROUPS, LEADER_A, LEADER_B, ClusterInMemory, in_world

MORTAL = (COORDINATOR, GROUPS, LEADER_A, LEADER_B)
ORDERS_EACH = 12


class Story:
    """One run: who does what, by the dice of one seed."""

    def __init__(self, world: ClusterInMemory, runtime: ClientRuntime, seed: int) -> None:
        self.world = world
        self.runtime = runtime
        self.dice = Random(seed)
        self.deliveries: list[Delivery] = []
        self.is_over = False

    def make_trouble(self, loss: float) -> None:
        network = self.world.network
        network.chance = Random(self.dice.random())
        network.loss = loss
        network.duplication = loss / 2
        network.longest_delay_s = self.dice.choice([0.0, 0.02, 0.2])

    def end_trouble(self) -> None:
        self.world.network.chance = None

    async def kill_and_revive(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self.dice.random() * 2)
            node_id = self.dice.choice(MORTAL)
            self.world.kill(node_id)
            await asyncio.sleep(self.dice.random() * 1.5)
            self.world.start(node_id)

    async def write_orders(self) -> list[bytes]:
        """Write every order once, with an idempotent producer that is never told to give up."""
        producer = a_producer(self.runtime, delivery_timeout_ms=3_000_000, batch_size=self.dice.choice([100, 16_384]))
        values = []
        for partition in ORDERS:
            for number in range(ORDERS_EACH):
                values.append(f"{partition}:{number}".encode())
                sent = await producer.send("orders", values[-1], partition=partition.partition)
                self.deliveries.append(sent)
                if self.dice.random() < 0.3:
                    await asyncio.sleep(self.dice.random() * 0.3)
        await producer.flush()
        await producer.close()
        return values

    async def run_pipeline(self, partition: TopicPartition) -> None:
        """Move every order of a partition into an invoice; begin anew after any error, as an application would."""
        done = 0
        while done < ORDERS_EACH:
            producer = a_producer(
                self.runtime,
                transactional_id=f"pipeline-{partition}",
                transaction_timeout_ms=self.dice.choice([2_000, 60_000]),
                delivery_timeout_ms=self.dice.choice([1_000, 60_000]),
            )
            try:
                await producer.init()
                done = await self.move_orders(producer, partition)
            except (FatalError, RetriableError):
                pass
            finally:
                await producer.close(timeout_ms=5_000)

    async def move_orders(self, producer: AsyncProducer, partition: TopicPartition) -> int:
        consumer = await a_consumer(self.runtime, partition, group_id="pipeline", max_poll_records=3)
        try:
            position = await consumer.position(partition)
            while position < ORDERS_EACH:
                records = await consumer.poll(1000)
                if not records:
                    continue
                try:
                    await self.move_some(producer, partition, records)
                except AbortableError:
                    await producer.abort()
                    # What was not committed has to be read again.
                    committed = (await consumer.committed(partition)).get(partition)
                    consumer.seek(partition, 0 if committed is None else committed.offset)
                position = await consumer.position(partition)
            return position
        finally:
            await consumer.close()

    async def move_some(self, producer: AsyncProducer, partition: TopicPartition, records: list) -> None:
        producer.begin()
        for record in records:
            target = self.dice.randrange(2)
            self.deliveries.append(await producer.send("invoices", record.value, partition=target))
        if self.dice.random() < 0.1:
            await asyncio.sleep(4)
        await producer.send_offsets({partition: records[-1].offset + 1}, "pipeline")
        await producer.commit()


def tell(seed: int, loss: float, *, kills: bool) -> None:
    async def main(world: ClusterInMemory, runtime: ClientRuntime) -> None:
        story = Story(world, runtime, seed)
        story.make_trouble(loss)
        killer = asyncio.ensure_future(story.kill_and_revive()) if kills else None
        values, *_ = await asyncio.gather(story.write_orders(), *(story.run_pipeline(name) for name in ORDERS))
        story.is_over = True
        if killer is not None:
            await killer
        story.end_trouble()
        await settled(5000)
        assert sorted(world.committed("orders")) == sorted(values)
        assert sorted(world.committed("invoices")) == sorted(values)
        assert all(delivery.done() for delivery in story.deliveries)
        assert runtime._ticker is None, "the client still waits for something"

    in_world(main, {"orders": 3, "invoices": 2})


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.1, 0.2]), st.sampled_from([False, True, True]))
def test_each_order_becomes_one_invoice_whatever_is_lost_or_restarted(seed: int, loss: float, kills: bool):
    tell(seed, loss, kills=kills)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.1]))
def test_branches_are_committed_once_for_each_tag_whatever_is_lost_or_restarted(seed: int, loss: float):
    """A driver that is interrupted anywhere runs its batch again; speculative attempts write twice."""

    async def main(world: ClusterInMemory, runtime: ClientRuntime) -> None:
        story = Story(world, runtime, seed)
        story.make_trouble(loss)
        killer = asyncio.ensure_future(story.kill_and_revive())
        cluster = AsyncCluster(runtime)
        for batch in range(3):
            await run_batch(story, cluster, batch)
        story.is_over = True
        await killer
        story.end_trouble()
        await settled(5000)
        expected = [f"{batch}:{task}".encode() for batch in range(3) for task in range(3)]
        assert sorted(world.committed("orders")) == expected

    in_world(main)


async def run_batch(story: Story, cluster: AsyncCluster, batch: int) -> None:
    while True:
        try:
            transaction = await cluster.begin("job", tag=str(batch))
            if transaction.already_committed:
                return
            tokens = [transaction.branch() for _ in range(3)]
            sealed = []
            for token in tokens:
                for _ in range(story.dice.choice([1, 2])):
                    async with await cluster.join(token, delivery_timeout_ms=20_000) as writer:
                        partition = story.dice.randrange(3)
                        await writer.send("orders", f"{batch}:{token.branch}", partition=partition)
                        sealed.append(await writer.seal())
            await transaction.commit(sealed)
        except (AbortableError, FatalError, RetriableError):
            continue
        if story.dice.random() < 0.5:
            return
