"""`make bench-spark`: our data source beside Spark's own Kafka connector, in one Spark session on RayDP.

python -m benchmarks.spark                                   # everything, three rounds
python -m benchmarks.spark read-sum write --rows 100000      # some of it, smaller
"""

import argparse
import os
import sys

from benchmarks.report import markdown_table, print_table
from benchmarks.spark.comparing import Seconds
from benchmarks.spark.endpoints import OURS, TARGETS, Endpoint
from benchmarks.spark.micro_batches import BATCH_PARTS, measure_batches
from benchmarks.spark.stage import Stage, open_stage
from benchmarks.spark.throughput import PARTS, VoidRound, fill

EVERY_PART = (*PARTS, *BATCH_PARTS)


class Rates:
    """All rounds of what is measured in rows per second. The first one warms up and is not counted."""

    def __init__(self, stage: Stage, arguments: argparse.Namespace) -> None:
        self._stage = stage
        self._rows: int = arguments.rows
        self._rounds: int = arguments.rounds
        self._parts = [part for part in PARTS if part in arguments.parts]
        self.seconds = Seconds([each.name for each in stage.endpoints])
        self.failures = 0

    def run(self) -> None:
        fill(self._stage, self._rows)
        for number in range(self._rounds + 1):
            for part in self._parts:
                for endpoint in self._in_turn(number):
                    self._measure(part, endpoint, number)

    def _in_turn(self, number: int) -> list[Endpoint]:
        """Return the sides in alternating order, so that a machine that gets slower or faster favours neither."""
        first = number % len(self._stage.endpoints)
        return self._stage.endpoints[first:] + self._stage.endpoints[:first]

    def _measure(self, part: str, endpoint: Endpoint, number: int) -> None:
        name = f"round {number}, {part}, {endpoint.name}" if number else f"warm-up, {part}, {endpoint.name}"
        try:
            cost = PARTS[part][1](self._stage, endpoint, self._rows)
        except VoidRound as reason:
            # Spark's own sink may write rows twice: it promises no more. Of ours it is a failure.
            self.failures += endpoint.name == OURS
            self.seconds.add_void(part, endpoint.name)
            _say(f"{name}: VOID, {reason}")
            return
        _say(f"{name}: {cost.seconds:.2f} s, {cost.cpu_seconds:.2f} s of CPU, load {os.getloadavg()[0]:.0f}")
        if number:
            self.seconds.add(part, endpoint.name, cost.seconds, cost.cpu_seconds)

    def print(self) -> None:
        titles = {part: PARTS[part][0] for part in self._parts}
        load = f"{self._rows:,} rows of 200 bytes, 8 partitions"
        rates, cpu = self.seconds.rates(titles, self._rows), self.seconds.cpu(titles, self._rows)
        _print(f"{load}: medians of the rounds (least-most)", self.seconds.heading("rows/s"), rates)
        _print(f"{load}: CPU of all processes, medians", self.seconds.heading("CPU µs a row"), cpu)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _print(title: str, heading: list[str], rows: list[list[str]]) -> None:
    print_table(title, heading, rows)
    print(markdown_table(heading, rows), flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(EVERY_PART)}; all by default")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS), help="all by default")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=15, help="how many micro-batches are taken of each kind")
    parser.add_argument("--layout", choices=("colocated", "separate"), default="colocated", help="of our broker")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(EVERY_PART):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(EVERY_PART)}")
    arguments.parts = arguments.parts or list(EVERY_PART)
    return arguments


def main() -> int:
    arguments = parse_arguments()
    failures = 0
    with open_stage(arguments.layout, arguments.targets) as stage:
        if set(arguments.parts) & set(PARTS):
            rates = Rates(stage, arguments)
            rates.run()
            rates.print()
            failures = rates.failures
        for part in BATCH_PARTS:
            if part in arguments.parts:
                _print(*measure_batches(part, stage, arguments.batches, _say))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
