"""The batch reader, for `spark.read`: it reads what topics hold at the moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from eagleray.pipelines.connection import ClusterLocation
from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.source.partition_lookup import PartitionLookup
from eagleray.pipelines.source.resolution import ranges_between
from eagleray.pipelines.source.tasks import RangesToRead, read_ranges, tasks_for, warn


class BatchReader(DataSourceReader):
    """A read of fixed ranges, which are chosen when the job is planned."""

    def __init__(self, options: SourceOptions, where: ClusterLocation) -> None:
        self._options = options
        self._where = where

    def partitions(self) -> Sequence[InputPartition]:
        """Choose the ranges, one task or more for each partition."""
        where = self._where.found()
        lookup = PartitionLookup(where.connect(), self._options)
        bounds = lookup.bounds(all_must_exist=True)
        start, end = lookup.start(bounds), lookup.end(bounds)
        warn((*start.warnings, *end.warnings))
        return tasks_for(ranges_between(start.offsets, end.offsets), self._options, where)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range; where there is none, Spark still starts a task, with a partition that it made up."""
        return read_ranges(partition) if isinstance(partition, RangesToRead) else iter(())
