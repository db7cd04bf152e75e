"""Figures of brokers side by side: medians of the rounds, their spread, and ratios to those of a peer."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.kafka.parts import EVERY_PART, Metric, Part

PEER = "kafka"


class Figures:
    """What was measured, by broker, part and metric, in the order of the rounds.

    `bar` is how many times as good as the peer the others have to be.
    """

    def __init__(
        self, targets: list[str], parts: Sequence[Part] = EVERY_PART, *, peer: str = PEER, bar: float = 1.0
    ) -> None:
        self._targets = targets
        self._parts = parts
        self._peer = peer
        self._bar = bar
        self._found: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, target: str, part: str, found: dict[str, float]) -> None:
        for key, value in found.items():
            self._found[target, part, key].append(value)

    def heading(self) -> list[str]:
        ours = [target for target in self._targets if target != self._peer]
        ratios = [f"{target} ÷ {self._peer}" for target in ours] if self._peer in self._targets else []
        return ["load", "figure", *self._targets, *ratios]

    def rows(self) -> list[list[str]]:
        return [row for part in self._parts for row in self._rows_of(part)]

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
        if self._peer not in self._targets:
            return
        peer = self._rounds(self._peer, part, metric)
        for target in self._targets:
            if target != self._peer:
                yield _ratio(self._rounds(target, part, metric), peer, metric, self._bar)


def _ratio(ours: list[float], peer: list[float], metric: Metric, bar: float) -> str:
    """How many times the peer's figure ours is, and whether that is good."""
    if not ours or not peer or median(peer) == 0:
        return ""
    ratio = median(ours) / median(peer)
    if metric.better == "neither":
        return f"{ratio:.2f}"
    is_good = ratio >= bar if metric.better == "more" else ratio <= 1 / bar
    return f"{ratio:.2f} {'✓' if is_good else '✗'}"
