"""Figures of brokers side by side: medians of the rounds, their spread, and ratios to Apache Kafka's."""

import math
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from benchmarks.kafka.parts import EVERY_PART, Metric, Part

PEER = "kafka"


class Figures:
    """What was measured, by broker, part and metric, in the order of the rounds."""

    def __init__(self, targets: list[str]) -> None:
        self._targets = targets
        self._found: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, target: str, part: str, found: dict[str, float]) -> None:
        for key, value in found.items():
            self._found[target, part, key].append(value)

    def heading(self) -> list[str]:
        ours = [target for target in self._targets if target != PEER]
        ratios = [f"{target} ÷ {PEER}" for target in ours] if PEER in self._targets else []
        return ["load", "figure", *self._targets, *ratios]

    def rows(self) -> list[list[str]]:
        return [row for part in EVERY_PART for row in self._rows_of(part)]

    def _rows_of(self, part: Part) -> Iterator[list[str]]:
        for metric in part.metrics:
            cells = [self._cell(target, part, metric) for target in self._targets]
            if any(cells):
                yield [part.title, metric.label, *cells, *self._ratios(part, metric)]

    def _rounds(self, target: str, part: Part, metric: Metric) -> list[float]:
        values = self._found.get((target, part.name, metric.key), [])
        return [value for value in values if not math.isnan(value)]

    def _cell(self, target: str, part: Part, metric: Metric) -> str:
        """The median, and the least and the most where there were rounds to differ."""
        rounds = self._rounds(target, part, metric)
        if not rounds:
            return ""
        middle, least, most = (f"{each:,.{metric.digits}f}" for each in (median(rounds), min(rounds), max(rounds)))
        return middle if len(rounds) == 1 else f"{middle} ({least}-{most})"

    def _ratios(self, part: Part, metric: Metric) -> Iterator[str]:
        if PEER not in self._targets:
            return
        peer = self._rounds(PEER, part, metric)
        for target in self._targets:
            if target != PEER:
                yield _ratio(self._rounds(target, part, metric), peer, metric)


def _ratio(ours: list[float], peer: list[float], metric: Metric) -> str:
    """How many times the peer's figure ours is, and whether that is good."""
    if not ours or not peer or median(peer) == 0:
        return ""
    ratio = median(ours) / median(peer)
    if metric.better == "neither":
        return f"{ratio:.2f}"
    is_good = ratio >= 1 if metric.better == "more" else ratio <= 1
    return f"{ratio:.2f} {'✓' if is_good else '✗'}"
