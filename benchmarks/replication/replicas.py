"""The price of replicas: the same loads on the same three machines, with one replica of everything and with three."""

import sys

from benchmarks.kafka.comparing import Figures
from benchmarks.replication.clusters import cluster_on, until_whole
from benchmarks.replication.loads import PARTS, Loads
from benchmarks.report import markdown_table, print_table
from tests.support.machines import Machines

ONE, THREE = "1 replica", "3 replicas"
REPLICAS = {ONE: 1, THREE: 3}
BAR = 0.5
"""What acks=all with three replicas is to keep of the throughput with one."""

SETTINGS = {
    ONE: {
        "transaction_state_log_replication_factor": "1",
        "transaction_state_log_min_isr": "1",
        "offsets_topic_replication_factor": "1",
    },
    THREE: {},
}


async def replicas(machines: Machines, chosen: list[str], *, rounds: int, seconds: float, rate: float) -> int:
    """Print one table with all rounds; returns how many loads have failed."""
    parts = [part for part in PARTS if part.name in chosen]
    figures = Figures(list(REPLICAS), PARTS, peer=ONE, bar=BAR)
    failures = 0
    for number in range(rounds):
        # The order alternates, so that a machine that gets slower or faster favours no side.
        order = list(REPLICAS) if number % 2 == 0 else list(reversed(REPLICAS))
        for target in order:
            async with cluster_on(machines, **SETTINGS[target]) as cluster:
                await until_whole(cluster)
                loads = Loads(cluster, REPLICAS[target], seconds=seconds, rate=rate)
                for part in parts:
                    try:
                        found = await loads.run(part)
                    except Exception as error:  # noqa: BLE001 - one load that fails must not take the others' figures with it
                        failures += 1
                        _say(f"round {number + 1}, {target}, {part.name}: FAILED, {error!r}")
                        continue
                    figures.add(target, part.name, found)
                    told = ", ".join(f"{key} {value:,.2f}" for key, value in found.items())
                    _say(f"round {number + 1}, {target}, {part.name}: {told}")
    heading, rows = figures.heading(), figures.rows()
    print_table(f"Three machines on one host; {rate:,.0f}/s offered: medians (least-most)", heading, rows)
    print(markdown_table(heading, rows))
    return failures


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
