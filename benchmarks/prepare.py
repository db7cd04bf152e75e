"""What a prepare costs: commits, and prepares and commits, in turns, by one producer on nodes in this process.

python -m benchmarks.prepare

It counts the appends to the transaction log and the records in them, and the processor time of a transaction.
"""

import argparse
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from statistics import median
from unittest import mock

import uvloop

from benchmarks.report import print_table
from eagleray import aio
from eagleray.broker.log import Appended, PartitionLog, Rejection
from eagleray.testing import LocalCluster

TOPIC = "load"
VALUE = bytes(100)
WAYS = ("commit", "prepare, commit")


@contextlib.contextmanager
def counting_appends() -> Iterator[Counter[str]]:
    """Count the broker's own records that are appended: here, with topics in place and no group, transactions'."""
    counts: Counter[str] = Counter()
    append_records = PartitionLog.append_records

    def append(
        log: PartitionLog, records: Sequence[tuple[bytes, bytes | None]], *, leader_epoch: int, now_ms: int
    ) -> Appended | Rejection:
        counts["appends"] += 1
        counts["records"] += len(records)
        return append_records(log, records, leader_epoch=leader_epoch, now_ms=now_ms)

    with mock.patch.object(PartitionLog, "append_records", append):
        yield counts


async def cost_of(one: Callable[[], Awaitable[None]], transactions: int) -> tuple[float, float, float]:
    """Run transactions one after the other; return appends, records and microseconds of the processor for each."""
    with counting_appends() as counts:
        started = time.process_time()
        for _ in range(transactions):
            await one()
        used = time.process_time() - started
    return counts["appends"] / transactions, counts["records"] / transactions, used / transactions * 1e6


async def compare(on: aio.Cluster, rounds: int, transactions: int) -> dict[str, list[tuple[float, float, float]]]:
    """Return for each way what each of its rounds has cost; the first round of both warms up."""
    await on.admin.create_topic(TOPIC)
    found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    async with on.producer(transactional_id="load", transaction_two_phase_commit_enable=True) as producer:

        async def commit() -> None:
            async with producer.transaction():
                await producer.send(TOPIC, VALUE)

        async def prepare_and_commit() -> None:
            async with producer.transaction():
                await producer.send(TOPIC, VALUE)
                await producer.prepare()

        ways = dict(zip(WAYS, (commit, prepare_and_commit), strict=True))
        for number in range(rounds + 1):
            for way in WAYS if number % 2 else reversed(WAYS):
                cost = await cost_of(ways[way], transactions)
                if number:
                    found[way].append(cost)
    return found


async def measure(rounds: int, transactions: int) -> dict[str, list[tuple[float, float, float]]]:
    """Compare on nodes of their own."""
    with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
        # A completion that a slow machine has to log by itself, before the next transaction does, would count too.
        async with LocalCluster(directory, settings={"transaction.completion.log.delay.ms": "60000"}) as nodes:
            on = nodes.connect()
            found = await compare(on, rounds, transactions)
            await on.close()
    return found


def main() -> None:
    """Print what each way costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--transactions", type=int, default=500)
    arguments = parser.parse_args()
    rows = []
    for way, costs in uvloop.run(measure(arguments.rounds, arguments.transactions)).items():
        appends, records, microseconds = zip(*costs, strict=True)
        least_median_most = (f"{figure(microseconds):.0f}" for figure in (min, median, max))
        rows.append([way, f"{min(appends):.3f}-{max(appends):.3f}", f"{median(records):.3f}", *least_median_most])
    heading = ["way", "appends a transaction", "records", "CPU µs a transaction, least", "median", "most"]
    print_table(f"{arguments.transactions} transactions a round, one record each", heading, rows)


if __name__ == "__main__":
    main()
