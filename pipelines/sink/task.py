"""What a task does: writes its rows into a branch of the transaction, and seals it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import WriterCommitMessage

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.origin import UNKNOWN_ORIGIN, Origin
from eagleray.client.producer.branches import Remembered, SealedBranch
from eagleray.client.producer.sync_branches import SyncBranchWriter
from eagleray.client.runtime import client_id
from eagleray.client.sync_cluster import SyncCluster
from eagleray.pipelines.columnar import Rows, UnknownPartition, UnknownTopic, encode
from eagleray.pipelines.connection import ClusterLocation
from eagleray.pipelines.options import SinkOptions
from eagleray.pipelines.sink.transaction_name import TransactionName

METADATA_MAX_AGE_MS: Final = 10_000
"""How long a worker goes by the partitions that it knows before it asks again, as it may serve many small tasks."""


class TaskWritten(WriterCommitMessage):
    """What a task tells the driver: which transaction it wrote in, whose that is, and its branch, sealed.

    There is no owner where the task had no rows, and took no part in it. There is no branch where the transaction was
    committed before the task had written.
    """

    def __init__(
        self,
        name: TransactionName,
        owner: ProducerIdentity | None,
        branch: SealedBranch | None,
        rows: int,
        remembered: Remembered | None = None,
    ) -> None:
        self.name = name
        self.owner = owner
        self.branch = branch
        self.rows = rows
        self.remembered = remembered
        """What the coordinator remembered of the query when the task took part."""


def write_branch(
    rows: Iterator[pa.RecordBatch],
    name: TransactionName,
    number: int,
    options: SinkOptions,
    where: ClusterLocation,
    *,
    origin: Origin = UNKNOWN_ORIGIN,
) -> TaskWritten:
    """Write rows into a branch of the named transaction, which the first task that comes begins.

    Each attempt at a task, retried or speculative, has a branch of its own; which one counts is decided by the driver.
    """
    first = next((batch for batch in rows if batch.num_rows), None)
    if first is None:
        return TaskWritten(name, None, None, 0)
    rows = chain((first,), rows)
    cluster = where.connect()
    transaction, writer = cluster.take_part(
        name.transactional_id,
        tag=name.tag,
        branch=number,
        timeout_ms=options.transaction_timeout_ms,
        compression_type=options.compression,
        origin=replace(origin, client_id=client_id()),
        begins_anew=options.begins_anew,
    )
    owner, remembered = transaction.owner, transaction.remembered
    if writer is None:
        return TaskWritten(name, owner, None, sum(batch.num_rows for batch in rows), remembered)
    with writer:
        count = _send(rows, writer, cluster, options, number)
        return TaskWritten(name, owner, writer.seal(), count, remembered)


def _send(
    rows: Iterator[pa.RecordBatch], writer: SyncBranchWriter, cluster: SyncCluster, options: SinkOptions, number: int
) -> int:
    partition_counts = cluster.admin.list_topics(internal=True, max_age_ms=METADATA_MAX_AGE_MS)
    count = 0
    for number_of_batch, batch in enumerate(rows):
        encoded = partial(
            encode,
            Rows.from_batch(_wanted_columns(batch, options), options.topic),
            max_batch_bytes=options.batch_bytes,
            now_ms=int(time.time() * 1000),
            # Tasks begin at different partitions, so that rows without keys are spread over all of them.
            first_keyless_partition=number + number_of_batch,
        )
        try:
            batches = encoded(partition_counts=partition_counts)
        except (UnknownTopic, UnknownPartition):
            # It may have come into being since.
            partition_counts = cluster.admin.list_topics(internal=True)
            batches = encoded(partition_counts=partition_counts)
        writer.send_prepared(batches)
        count += batch.num_rows
    return count


def _wanted_columns(batch: pa.RecordBatch, options: SinkOptions) -> pa.RecordBatch:
    has_headers = "headers" in batch.schema.names
    return batch.drop_columns(["headers"]) if has_headers and not options.include_headers else batch
