"""The stream reader, for `spark.readStream`: it follows topics in micro-batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from eagleray.pipelines.connection import ClusterLocation
from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.options.positions import Latest
from eagleray.pipelines.source.data_loss import begin_offsets, plan_ranges
from eagleray.pipelines.source.offsets import Checkpoint, Offsets, bounds_up_to, from_checkpoint, to_checkpoint
from eagleray.pipelines.source.partition_lookup import PartitionLookup
from eagleray.pipelines.source.rate_limit import is_due, next_offsets
from eagleray.pipelines.source.tasks import RangesToRead, read_ranges, tasks_for, warn


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream's position in its topics, in the driver.

    Owns: nothing that lasts. The position is in Spark's checkpoint; what a batch covers follows from the offsets there
    alone, so that a batch that is run again reads the same records.
    """

    def __init__(self, options: SourceOptions, where: ClusterLocation) -> None:
        self._options = options
        self._where = where
        self._target: Offsets | None = None
        """Where to stop, with Trigger.AvailableNow: what was there when the query began."""

        self._initial: Checkpoint | None = None
        """Where the query begins, from when Spark has asked for it until it asks how far to go."""

        self._last_batch_s = time.monotonic()

    # Offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins."""
        lookup = self._lookup()
        start = lookup.start(lookup.bounds(all_must_exist=True))
        warn(start.warnings)
        self._initial = to_checkpoint(start.offsets)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much the options let a batch have."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends."""
        if self._is_first_of_latest(start):
            return start
        started, bounds = from_checkpoint(start), self._lookup().bounds()
        if self._target is not None:
            bounds = bounds_up_to(bounds, _farther(self._target, started))
        begin = begin_offsets(started, bounds, fail_on_data_loss=self._options.fail_on_data_loss)
        warn(begin.warnings)
        latest = {partition: bound.latest for partition, bound in bounds.items()}
        if not self._is_due(begin.offsets, latest):
            return start
        end = next_offsets(begin.offsets, latest, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        if end != begin.offsets:
            self._last_batch_s = time.monotonic()
        return to_checkpoint(end)

    def _is_first_of_latest(self, start: dict[str, Any]) -> bool:
        """Whether this is the first batch of a query that begins at the end of its topics: it has no records.

        Spark asks for the beginning again whenever it runs the first batch, and the end differs each time. So the
        checkpoint gets it as the end of a batch before anything is read.
        """
        initial, self._initial = self._initial, None
        return isinstance(self._options.start, Latest) and start == initial

    def _is_due(self, begin: Offsets, latest: Offsets) -> bool:
        min_rows = self._options.min_offsets_per_trigger
        if min_rows is None or self._target is not None:
            return True
        waited_ms = int((time.monotonic() - self._last_batch_s) * 1000)
        max_delay_ms = self._options.max_trigger_delay_ms
        return is_due(begin, latest, min_rows=min_rows, waited_ms=waited_ms, max_delay_ms=max_delay_ms)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember where the logs end now; the query ends there."""
        self._target = self._ends()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return where the logs end, for Spark's metrics of how far behind a query is."""
        return to_checkpoint(self._ends())

    def _ends(self) -> Offsets:
        return {partition: bound.latest for partition, bound in self._lookup().bounds().items()}

    def _lookup(self) -> PartitionLookup:
        self._where = self._where.found()
        return PartitionLookup(self._where.connect(), self._options)

    # Reading

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        plan = plan_ranges(
            from_checkpoint(start),
            from_checkpoint(end),
            self._lookup().bounds(),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        warn(plan.warnings)
        return tasks_for(plan.ranges, self._options, self._where)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, in a task."""
        assert isinstance(partition, RangesToRead)
        return read_ranges(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint counts. The sink's option `group` commits the offsets to the cluster, exactly
        once.
        """


def _farther(target: Offsets, started: Offsets) -> Offsets:
    """Return where Trigger.AvailableNow stops: a query that begins at the end may start beyond what it found first."""
    return {each: max(target.get(each, 0), started.get(each, 0)) for each in target.keys() | started.keys()}
