"""The tasks of a read: ranges of partitions, read straight from their leaders, as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from eagleray.client.errors import OffsetOutOfRange
from eagleray.client.settings import IsolationLevel
from eagleray.client.sync_cluster import SyncCluster
from eagleray.pipelines.columnar import RecordColumns, decode
from eagleray.pipelines.connection import ClusterLocation
from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.source.data_loss import DataLossError
from eagleray.pipelines.source.offsets import OffsetRange
from eagleray.pipelines.source.splitting import gather, split

ENOUGH_OFFSETS: Final = 4096
"""A task that reads fewer takes small partitions together."""


_log = logging.getLogger(__name__)


class RangesToRead(InputPartition):
    """One task of a read: the ranges, and all that a worker needs to read them."""

    def __init__(
        self,
        ranges: tuple[OffsetRange, ...],
        where: ClusterLocation,
        *,
        isolation: IsolationLevel,
        include_headers: bool,
        fail_on_data_loss: bool,
    ) -> None:
        super().__init__(ranges)
        self.ranges = ranges
        self.where = where
        self.isolation = isolation
        self.include_headers = include_headers
        self.fail_on_data_loss = fail_on_data_loss


def tasks_for(ranges: Iterable[OffsetRange], options: SourceOptions, where: ClusterLocation) -> list[RangesToRead]:
    """Return the tasks that read these ranges."""
    pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
    # A user who sets the number of tasks, or their size, gets that number or size.
    is_free = options.min_partitions is None and options.max_records_per_partition is None
    return [
        RangesToRead(
            group,
            where,
            isolation=options.isolation,
            include_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        for group in gather(pieces, ENOUGH_OFFSETS if is_free else 0)
    ]


def warn(warnings: Iterable[str]) -> None:
    """Log warnings about offsets."""
    for warning in warnings:
        _log.warning("%s", warning)


def read_ranges(task: RangesToRead) -> Iterator[pa.RecordBatch]:
    """Yield the records of ranges; a record that vanishes while it is read is data loss as at planning."""
    for wanted in task.ranges:
        yield from _read_range(task, wanted)


def _read_range(task: RangesToRead, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    cluster = task.where.connect()
    try:
        yield from _read(cluster, task, wanted)
    except OffsetOutOfRange as error:
        if task.fail_on_data_loss:
            raise DataLossError(
                f"{error} The records were deleted while the query read them. Set the option failOnDataLoss to false "
                "to go on with what is left."
            ) from error
        rest = _what_is_left(cluster, task, wanted)
        _log.warning("%s The query goes on at offset %s.", error, rest.start)
        yield from _read(cluster, task, rest)


def _read(cluster: SyncCluster, task: RangesToRead, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    columns = RecordColumns(wanted.topic, wanted.partition, wanted.start, wanted.end, task.include_headers)
    for batches in cluster.scan(wanted.topic_partition, wanted.start, wanted.end, isolation=task.isolation):
        decoded = decode(batches, columns)
        if decoded.num_rows:
            yield decoded


def _what_is_left(cluster: SyncCluster, task: RangesToRead, wanted: OffsetRange) -> OffsetRange:
    """Return the part of a range that the log still has and that was not read: what lies behind its new start.

    What was read so far lies before that start. A log with the same start was truncated at its end, where nothing is
    left.
    """
    with cluster.consumer(isolation=task.isolation) as consumer:
        earliest = consumer.beginning_offsets(wanted.topic_partition)[wanted.topic_partition]
    start = min(earliest, wanted.end) if earliest > wanted.start else wanted.end
    return OffsetRange(wanted.topic, wanted.partition, start, wanted.end)
