"""Metrics of each micro-batch: rows in and out, duration, and offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

OBSERVATION: Final = "eagleray"
_LOOK_EVERY_S: Final = 0.2


class BatchMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """One micro-batch, which is one transaction where it wrote anything."""

    query_id: str
    batch_id: int
    timestamp: str
    rows_in: int
    rows_out: int
    duration_ms: int
    rows_per_second: float
    start_offsets: object
    """As the source writes them, or a list of those of several sources."""

    end_offsets: object
    state_rows: int
    """Rows that Spark remembers for aggregations and joins."""

    watermark: str | None


class PipelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline did from when it was started until it ended."""

    name: str
    batches: list[BatchMetrics]
    seconds: float

    @property
    def rows_in(self) -> int:
        """Rows that were read."""
        return sum(batch.rows_in for batch in self.batches)

    @property
    def rows_out(self) -> int:
        """Rows that were written."""
        return sum(batch.rows_out for batch in self.batches)


OnBatch = Callable[[BatchMetrics], None]


def follow(query: StreamingQuery) -> Iterator[BatchMetrics]:
    """Yield every micro-batch of a query once it is done, until the query ends; raise what the query ended with."""
    seen = -1
    is_running = True
    while is_running:
        # Batches that were done before it ended are still to be reported.
        is_running = query.isActive
        for batch in batches_of(query):
            if batch.batch_id > seen:
                seen = batch.batch_id
                yield batch
        if is_running:
            time.sleep(_LOOK_EVERY_S)
    error = query.exception()
    if error is not None:
        raise error


def batches_of(query: StreamingQuery) -> list[BatchMetrics]:
    """The micro-batches that Spark still knows of; triggers that found nothing to do are not among them."""
    known = (metrics_of(progress.json) for progress in query.recentProgress)
    return [batch for batch in known if batch is not None]


def metrics_of(progress_json: str) -> BatchMetrics | None:
    """Read what Spark says about a trigger; None where it ran no batch."""
    progress = msgspec.json.decode(progress_json)
    durations = progress.get("durationMs") or {}
    if "addBatch" not in durations:
        return None
    sources = progress.get("sources") or []
    duration_ms = int(durations.get("triggerExecution", 0))
    rows_in = int(progress.get("numInputRows") or 0)
    return BatchMetrics(
        query_id=progress["id"],
        batch_id=int(progress["batchId"]),
        timestamp=progress["timestamp"],
        rows_in=rows_in,
        rows_out=_rows_out(progress),
        duration_ms=duration_ms,
        rows_per_second=round(rows_in * 1000 / max(duration_ms, 1), 1),
        start_offsets=_offsets(sources, "startOffset"),
        end_offsets=_offsets(sources, "endOffset"),
        state_rows=sum(int(state.get("numRowsTotal", 0)) for state in progress.get("stateOperators") or []),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
    )


def _rows_out(progress: dict[str, Any]) -> int:
    """Rows that were counted on their way to the sink; Spark itself does not count what a Python sink writes."""
    observed = (progress.get("observedMetrics") or {}).get(OBSERVATION) or {}
    return int(observed.get("rows", 0))


def _offsets(sources: list[dict[str, Any]], name: str) -> object:
    found = [source.get(name) for source in sources]
    return found[0] if len(found) == 1 else found
