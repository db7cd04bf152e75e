"""Our Python clients beside confluent-kafka, on the same broker in one run.

    python -m benchmarks.client --rounds 5                      # all rows
    python -m benchmarks.client "produce, no keys" --seconds 3  # one of them

The clients take turns, so that whatever else the machine does meets both; the ratio of a round is that of two
neighbours, and the ratio of a row the median of its rounds.
"""

import argparse

from benchmarks.client import consumers, producers
from benchmarks.client.broker import broker
from benchmarks.client.comparing import HEADING, Pair, Scale, measure, row_of
from benchmarks.report import print_table
from eagleray.cli.output import counted

PAIRS = {pair.name: pair for pair in (*producers.PAIRS, *consumers.PAIRS)}


def chosen(parser: argparse.ArgumentParser, names: list[str]) -> list[Pair]:
    """Return the pairs of these names, or all."""
    unknown = [name for name in names if name not in PAIRS]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}; there are: {'; '.join(PAIRS)}")
    return [PAIRS[name] for name in names or PAIRS]


def main() -> None:
    """Start a broker, measure, and print one table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help=f"some of: {'; '.join(PAIRS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each load of a producer")
    parser.add_argument("--records", type=int, default=500_000, help="for each load of a consumer")
    given = parser.parse_args()
    # Iterations are counted in steps, and the first step is not counted.
    scale = Scale(seconds=given.seconds, records=max(given.records // consumers.STEP, 2) * consumers.STEP)
    pairs = chosen(parser, given.rows)
    with broker() as on:
        producers.prepare(on)
        if any(pair in consumers.PAIRS for pair in pairs):
            consumers.prepare(on, scale)
        rows = [row_of(pair.name, measure(pair, on, scale, given.rounds)) for pair in pairs]
    print_table(f"Python clients, one broker, median of {counted(given.rounds, 'round')}", HEADING, rows)


if __name__ == "__main__":
    main()
