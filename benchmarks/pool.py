"""`python -m benchmarks.pool`: 64 open transactions of one pool, beside 64 producers with names of their own.

Both are in this process, with one client of one cluster, and take turns: what is told is their ratio in each pair of
rounds, and its median.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop

from benchmarks.report import print_table
from benchmarks.transactions import cluster
from eagleray import aio

OPEN = 64
PARTITIONS = 8
VALUE = bytes(100)


async def rate_of(one: Callable[[int], Awaitable[None]], seconds: float) -> float:
    """Run transactions one after the other in each of 64 tasks; return how many there were in a second."""
    done, end = 0, time.monotonic() + seconds

    async def run(number: int) -> None:
        nonlocal done
        while time.monotonic() < end:
            await one(number)
            done += 1

    started = time.monotonic()
    await asyncio.gather(*(run(number) for number in range(OPEN)))
    return done / (time.monotonic() - started)


async def compare(on: aio.Cluster, rounds: int, seconds: float) -> list[tuple[float, float]]:
    """Return the rate of the pool and that of the producers, for each pair of rounds."""
    await on.admin.create_topic("load", partitions=PARTITIONS)
    producers = [on.producer(transactional_id=f"load-{number}") for number in range(OPEN)]
    await asyncio.gather(*(producer.init() for producer in producers))

    async def by_producer(number: int) -> None:
        async with producers[number].transaction():
            await producers[number].send("load", VALUE, partition=number % PARTITIONS)

    async with on.transactions("pool", concurrency=OPEN) as pool:

        async def by_pool(number: int) -> None:
            async with pool.begin() as txn:
                await txn.send("load", VALUE, partition=number % PARTITIONS)

        rates = []
        for number in range(rounds + 1):
            # Each goes first as often as the other; the first pair warms up.
            if number % 2:
                pooled, single = await rate_of(by_pool, seconds), await rate_of(by_producer, seconds)
            else:
                single, pooled = await rate_of(by_producer, seconds), await rate_of(by_pool, seconds)
            rates.append((pooled, single))
    await asyncio.gather(*(producer.close() for producer in producers))
    return rates[1:]


async def main(rounds: int, seconds: float) -> None:
    """Print a table for each layout."""
    for layout in ("colocated", "separate"):
        async with cluster(layout) as on:
            rates = await compare(on, rounds, seconds)
        ratios = [pooled / single for pooled, single in rates]
        rows = [[f"{pooled:,.0f}", f"{single:,.0f}", f"{pooled / single:.2f}"] for pooled, single in rates]
        rows.append(["", "median", f"{statistics.median(ratios):.2f}"])
        print_table(f"{OPEN} open, {layout}", ["pool, txn/s", f"{OPEN} producers, txn/s", "ratio"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    uvloop.run(main(given.rounds, given.seconds))
