"""How latencies are told."""

from collections.abc import Iterable


def percentiles(milliseconds: Iterable[float]) -> dict[str, float]:
    """The median and the 99th percentile, as a part reports them."""
    ordered = sorted(milliseconds)
    if not ordered:
        return {"p50_ms": float("nan"), "p99_ms": float("nan")}
    return {f"p{percent}_ms": ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in (50, 99)}
