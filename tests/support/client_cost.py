"""What the client itself costs: a thousand producers on one loop, over peers that answer in the next turn.

    python -m tests.support.client_cost

The figure is for begin, one record of 100 bytes and commit, the peers' own share subtracted. On a machine that does
other things as well, the smallest of many short runs is the one to believe.
"""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

from eagleray.actors.lanes.turn import Turn
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NodeRegistration
from eagleray.broker.metadata.topics import PartitionImage, TopicImage
from eagleray.broker.partitions.events import Produce, Produced
from eagleray.broker.transactions.events import EndTransaction, Reply
from eagleray.client.config import ProducerConfig
from eagleray.client.loop_thread import new_loop
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

PRODUCERS = 1000
RUNS = 60
EACH = 2
RECORD = bytes(100)


class InstantPeers:
    """Answers everything in the next turn of the loop, always with success."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.turn = Turn(self._loop)
        self._asked: list[tuple[Callable[[Any], None], type, tuple[Any, ...]]] = []
        self._producers = 0

    def forget(self, node_ids: object) -> None:
        """Nobody is ever gone."""

    def learn(self, nodes: object) -> None:
        pass

    def why_unreachable(self, node_id: int) -> str | None:
        """Every node can be reached."""

    def ask(self, node_id: int, on_reply: Callable[[Any], None], kind: type, *fields: Any) -> None:
        if not self._asked:
            self._loop.call_soon(self._answer)
        self._asked.append((on_reply, kind, fields))

    def _answer(self) -> None:
        asked, self._asked = self._asked, []
        for on_reply, kind, fields in asked:
            if kind is Produce:
                on_reply(Produced(0, ErrorCode.NONE, 0))
            elif kind is EndTransaction:
                identity = ProducerIdentity(fields[1].producer_id, fields[1].epoch + 1)
                on_reply(Reply(0, ErrorCode.NONE, identity))
            else:
                self._producers += 1
                on_reply(Reply(0, ErrorCode.NONE, ProducerIdentity(self._producers, 0)))


def small_cluster() -> MetadataImage:
    def topic(name: str, partitions: int) -> TopicImage:
        return TopicImage(name, bytes(16), {}, (PartitionImage(1, 0, (1,), (1,)),) * partitions)

    node = NodeRegistration(1, 1, "localhost", 1, ("controller", "leader", "coordinator"))
    topics = {"orders": topic("orders", 16), "__transaction_state": topic("__transaction_state", 50)}
    return MetadataImage(1, "cost", {1: node}, topics)


async def one_transaction(producer: AsyncProducer) -> None:
    producer.begin()
    await producer.send("orders", RECORD)
    await producer.commit()


async def some_transactions(producer: AsyncProducer) -> None:
    for _ in range(EACH):
        await one_transaction(producer)


async def ready_producers(runtime: ClientRuntime, count: int) -> list[AsyncProducer]:
    names = (ProducerConfig.make(transactional_id=f"cost-{number}") for number in range(count))
    producers = [AsyncProducer(runtime, config) for config in names]
    await asyncio.gather(*(producer.init() for producer in producers))
    await asyncio.gather(*(one_transaction(producer) for producer in producers))
    return producers


async def bytes_of_an_idle_producer(count: int = 200) -> float:
    """What a producer holds that has done a transaction and waits for the next."""
    runtime = ClientRuntime(InstantPeers(), small_cluster())
    await ready_producers(runtime, 1)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        producers = await ready_producers(runtime, count)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    runtime.close()
    return held / len(producers)


async def peers_alone(peers: InstantPeers) -> None:
    """The two requests of a transaction with nobody behind them."""
    identity = ProducerIdentity(1, 1)
    for _ in range(EACH):
        done = asyncio.get_running_loop().create_future()

        def end(_: object, done: Any = done) -> None:
            peers.ask(1, done.set_result, EndTransaction, "cost", identity, True, 2)

        peers.ask(1, end, Produce)
        await done


async def microseconds(work: Callable[[], list[Coroutine[Any, Any, None]]]) -> list[float]:
    """The time of one transaction in each of many runs, the shortest first."""
    times = []
    for _ in range(RUNS):
        gc.collect()
        began = time.perf_counter()
        await asyncio.gather(*work())
        times.append((time.perf_counter() - began) / (EACH * PRODUCERS) * 1e6)
    return sorted(times)


async def main() -> None:
    print(f"an idle producer holds {await bytes_of_an_idle_producer():.0f} bytes")
    peers = InstantPeers()
    runtime = ClientRuntime(peers, small_cluster())
    producers = await ready_producers(runtime, PRODUCERS)
    alone = await microseconds(lambda: [peers_alone(peers) for _ in producers])
    whole = await microseconds(lambda: [some_transactions(producer) for producer in producers])
    for name, place in (("smallest", 0), ("median", RUNS // 2)):
        print(f"{name}: {whole[place] - alone[place]:.1f} us a transaction, beside {alone[place]:.1f} us of the peers")
    runtime.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
