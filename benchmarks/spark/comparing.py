"""Figures of the three side by side: medians, and how ours stands to Spark's own."""

from collections import defaultdict
from statistics import median

from benchmarks.spark.endpoints import OURS, PEER_ON_KAFKA, PEER_ON_OURS

RATIOS = {PEER_ON_OURS: "ours ÷ Spark's, our broker", PEER_ON_KAFKA: "ours ÷ Spark's, Kafka"}


class Seconds:
    """What was measured, by part and target, in the order of the rounds; and the rounds that do not count."""

    def __init__(self, targets: list[str]) -> None:
        self._targets = targets
        self._found: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._cpu: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._void: dict[tuple[str, str], int] = defaultdict(int)

    def add(self, part: str, target: str, seconds: float, cpu_seconds: float) -> None:
        self._found[part, target].append(seconds)
        self._cpu[part, target].append(cpu_seconds)

    def add_void(self, part: str, target: str) -> None:
        self._void[part, target] += 1

    def heading(self, figure: str) -> list[str]:
        peers = [RATIOS[target] for target in self._targets if target in RATIOS and OURS in self._targets]
        return ["", *(f"{target}, {figure}" for target in self._targets), *peers]

    def rates(self, titles: dict[str, str], rows: int) -> list[list[str]]:
        """Rows per second: the median of the rounds, and the least and the most."""
        return [
            [title, *self._rates_of(part, rows), *self._ratios(self._found, part)] for part, title in titles.items()
        ]

    def cpu(self, titles: dict[str, str], rows: int) -> list[list[str]]:
        """CPU microseconds a row, of all processes, which other programs on the machine disturb less than the time."""
        return [[title, *self._cpu_of(part, rows), *self._ratios(self._cpu, part)] for part, title in titles.items()]

    def _cpu_of(self, part: str, rows: int) -> list[str]:
        found = (self._cpu[part, target] for target in self._targets)
        return [f"{median(each) * 1e6 / rows:.2f}" if each else "" for each in found]

    def _rates_of(self, part: str, rows: int) -> list[str]:
        return [self._rate(part, target, rows) for target in self._targets]

    def _rate(self, part: str, target: str, rows: int) -> str:
        rounds = sorted(rows / seconds for seconds in self._found[part, target])
        void = f"; {self._void[part, target]} void" if self._void[part, target] else ""
        if not rounds:
            return void.removeprefix("; ")
        return f"{median(rounds):,.0f} ({rounds[0]:,.0f}-{rounds[-1]:,.0f}{void})"

    def _ratios(self, found: dict[tuple[str, str], list[float]], part: str) -> list[str]:
        ours = found[part, OURS]
        peers = [target for target in self._targets if target in RATIOS and OURS in self._targets]
        return [_ratio(found[part, peer], ours) for peer in peers]


def _ratio(peer_seconds: list[float], our_seconds: list[float]) -> str:
    """How many times as fast, or as cheap, ours is."""
    if not peer_seconds or not our_seconds:
        return ""
    ratio = median(peer_seconds) / median(our_seconds)
    return f"{ratio:.2f} {'✓' if ratio >= 1 else '✗'}"
