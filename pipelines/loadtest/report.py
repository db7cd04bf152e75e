"""What a load test has found, for each driver and for each half second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from eagleray.pipelines.loadtest.plan import LoadPlan

BIN_S: Final = 0.5
_SHARES: Final = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1)


class Sample(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One transaction that was committed: when, from the beginning of the test, how long it took, and its rows."""

    ended_s: float
    latency_ms: float
    rows: int


class Driven(msgspec.Struct, frozen=True, kw_only=True):
    """What one driver did."""

    name: str
    kind: str
    """`spark` or `ray`."""

    samples: list[Sample]
    errors: int = 0
    missed: int = 0
    """Arrivals that no producer was free for."""

    first_error: str = ""


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """What was committed in half a second."""

    from_s: float
    transactions: int
    rows: float
    p50_ms: float | None
    p99_ms: float | None


class DriverReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one driver, or of all of a kind."""

    name: str
    kind: str
    transactions: int
    rows: int
    seconds: float
    transactions_per_second: float
    rows_per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    errors: int
    missed: int
    first_error: str
    bins: list[Bin]
    quantiles_ms: dict[str, float]


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a load test, as they are written to its JSON file."""

    plan: LoadPlan
    started_at: str
    seconds: float
    drivers: list[DriverReport]
    kinds: list[DriverReport]
    rows_committed: int
    """Rows of all transactions that were reported as committed."""

    rows_found: int
    """Rows that a reader of committed records finds."""

    @property
    def is_exact(self) -> bool:
        """Whether every row is there that was committed, and no other."""
        return self.rows_committed == self.rows_found


def report_of(driven: Driven, seconds: float) -> DriverReport:
    """The figures of one driver."""
    samples = driven.samples
    latencies = np.array([sample.latency_ms for sample in samples], dtype=np.float64)
    rows = sum(sample.rows for sample in samples)
    lasted = max([seconds, *(sample.ended_s for sample in samples[-1:])])
    return DriverReport(
        name=driven.name,
        kind=driven.kind,
        transactions=len(samples),
        rows=rows,
        seconds=round(lasted, 2),
        transactions_per_second=round(len(samples) / lasted, 1),
        rows_per_second=round(rows / lasted, 1),
        p50_ms=_quantile(latencies, 0.5),
        p99_ms=_quantile(latencies, 0.99),
        max_ms=_quantile(latencies, 1),
        errors=driven.errors,
        missed=driven.missed,
        first_error=driven.first_error,
        bins=bins_of(samples),
        quantiles_ms={f"{share:g}": _quantile(latencies, share) for share in _SHARES} if samples else {},
    )


def together(kind: str, driven: Sequence[Driven], seconds: float) -> DriverReport:
    """The figures of all drivers of a kind as if they were one."""
    merged = Driven(
        name=f"all {kind}",
        kind=kind,
        samples=sorted((sample for each in driven for sample in each.samples), key=lambda sample: sample.ended_s),
        errors=sum(each.errors for each in driven),
        missed=sum(each.missed for each in driven),
        first_error=next((each.first_error for each in driven if each.first_error), ""),
    )
    return report_of(merged, seconds)


def bins_of(samples: Sequence[Sample]) -> list[Bin]:
    """Cut the test into half seconds. The rows of a transaction count evenly over the time that it took."""
    if not samples:
        return []
    count = int(max(sample.ended_s for sample in samples) // BIN_S) + 1
    rows = np.zeros(count)
    latencies: list[list[float]] = [[] for _ in range(count)]
    for sample in samples:
        last = int(sample.ended_s // BIN_S)
        first = max(0, int((sample.ended_s - sample.latency_ms / 1000) // BIN_S))
        rows[first : last + 1] += sample.rows / (last + 1 - first)
        latencies[last].append(sample.latency_ms)
    return [
        Bin(
            from_s=place * BIN_S,
            transactions=len(of_bin),
            rows=round(float(rows[place]), 1),
            p50_ms=_quantile(np.array(of_bin), 0.5) if of_bin else None,
            p99_ms=_quantile(np.array(of_bin), 0.99) if of_bin else None,
        )
        for place, of_bin in enumerate(latencies)
    ]


def _quantile(values: np.ndarray, share: float) -> float:
    """The value that this share of all values does not exceed; 0 where there are none."""
    return round(float(np.quantile(values, share, method="inverted_cdf")), 2) if len(values) else 0.0
