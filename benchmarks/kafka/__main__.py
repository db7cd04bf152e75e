"""`make bench-kafka`: Apache Kafka and us, one after the other on the same cores and disk, under the same loads.

python -m benchmarks.kafka                                  # everything, three rounds
python -m benchmarks.kafka txn1 light64-v2 --targets kafka  # some of it, of one of them
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.kafka.comparing import PEER, Figures
from benchmarks.kafka.parts import PARTS, Part
from benchmarks.measuring import resident_mb
from benchmarks.peer.ours import Ours
from benchmarks.peer.real_kafka import RealKafka
from benchmarks.report import markdown_table, print_table

LAYOUTS = ("colocated", "separate")
TARGETS = (PEER, *LAYOUTS)
GRACE_SECONDS = 120
WARM_UP = [part for part in PARTS if part.name in {"light64-v1", "light64-v2", "produce1k"}]
Broker = RealKafka | Ours


class LoadFailed(Exception):
    """A load ended with an error; the message is the last thing that it said."""


def open_broker(target: str, directory: str) -> Broker:
    return RealKafka(directory) if target == PEER else Ours(directory, layout=target)


class Session:
    """One broker under all the loads."""

    def __init__(self, broker: Broker, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds
        self._pids = broker.broker_pids()
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

    def run(self, part: Part, seconds: float | None = None) -> dict[str, float]:
        topic = self._make_topic(part)
        options: dict[str, object] = {**part.options, "seconds": seconds or self._seconds}
        if part.command[0] == "benchmarks.kafka.light_load":
            options["broker_pids"] = self._pids
        module, *load = part.command
        command = [sys.executable, "-m", module, *load, self._broker.bootstrap_servers, topic, json.dumps(options)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=GRACE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise LoadFailed(f"it has not ended within {GRACE_SECONDS} s") from None
        if ended.returncode != 0:
            raise LoadFailed((ended.stderr.strip().splitlines() or ["it said nothing"])[-1])
        return dict(json.loads(ended.stdout.splitlines()[-1]))

    def _make_topic(self, part: Part) -> str:
        topic = f"{part.name}-{time.monotonic_ns()}"
        created = self._admin.create_topics([NewTopic(topic, part.partitions, 1)], operation_timeout=30)
        created[topic].result(30)
        return topic

    def warm_up(self, seconds: float) -> dict[str, float]:
        """Put loads on it that are not counted: a JVM that has just begun is many times slower than later."""
        for part in WARM_UP:
            self.run(part, seconds / len(WARM_UP))
        return {}

    def memory(self) -> dict[str, float]:
        broker, platform = self._broker.broker_pids(), self._broker.platform_pids()
        return {"broker": sum(map(resident_mb, broker)), "platform": sum(map(resident_mb, platform))}


class Comparison:
    """All rounds of all brokers; a load that fails is told, and the others go on."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._targets: list[str] = arguments.targets
        chosen = set(arguments.parts)
        self._parts = [part for part in PARTS if part.name in chosen or not chosen]
        self.figures = Figures(self._targets)
        self.failures = 0

    def run(self) -> None:
        for number in range(self._arguments.rounds):
            # The order of the brokers alternates, so that a machine that gets slower or faster favours neither.
            first = number % len(self._targets)
            for target in self._targets[first:] + self._targets[:first]:
                self._measure(target, number + 1)

    def _measure(self, target: str, number: int) -> None:
        with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
            self._say(f"round {number}, {target}: starting")
            with open_broker(target, directory) as broker:
                self.figures.add(target, "start", {"seconds": broker.start_seconds})
                session = Session(broker, self._arguments.seconds)
                self._attempt(f"{target} warm-up", partial(session.warm_up, self._arguments.warm_up))
                for part in self._parts:
                    found = self._attempt(f"{target} {part.name}", partial(session.run, part))
                    self.figures.add(target, part.name, found)
                self.figures.add(target, "memory", session.memory())

    def _attempt(self, what: str, work: Callable[[], dict[str, float]]) -> dict[str, float]:
        try:
            found = work()
        except Exception as error:  # noqa: BLE001 - one load that fails must not take the others' figures with it
            self.failures += 1
            self._say(f"{what}: FAILED, {error}")
            return {}
        self._say(f"{what}: " + ", ".join(f"{key} {value:,.2f}" for key, value in found.items()))
        return found

    def _say(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*(part.name for part in PARTS), []], help="all by default")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS), help="all by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each load is measured")
    parser.add_argument("--warm-up", type=float, default=20.0, help="how long a broker runs before")
    return parser.parse_args()


def main() -> int:
    comparison = Comparison(parse_arguments())
    comparison.run()
    heading, rows = comparison.figures.heading(), comparison.figures.rows()
    print_table("Apache Kafka and us: medians of the rounds (least-most)", heading, rows)
    print(markdown_table(heading, rows))
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
