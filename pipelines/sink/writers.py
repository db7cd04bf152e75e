"""The two writers that Spark asks for: of a batch job, and of a stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from eagleray.broker.transactions.origin import Origin
from eagleray.pipelines.connection import ClusterLocation
from eagleray.pipelines.options import SinkOptions
from eagleray.pipelines.sink import checkpoint, transaction
from eagleray.pipelines.sink.checkpoint_check import CheckpointCheck
from eagleray.pipelines.sink.task import write_branch
from eagleray.pipelines.sink.transaction_name import (
    TransactionName,
    name_in_stream,
    name_of_this_task,
    number_of_this_task,
    origin_in,
)
from eagleray.pipelines.source.offsets import Offsets

Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Writes a whole job in one transaction: `df.write`.

    Nothing is visible before the job is done, and nothing ever of a job that fails. Picklable: Spark sends it to its
    tasks, and later to the process that commits.
    """

    def __init__(self, options: SinkOptions, where: ClusterLocation, application: str = "") -> None:
        self._options = options
        self._where = where
        self._name = TransactionName(f"{options.transactional_id_prefix}-{uuid.uuid4()}", "job")
        self._application = application

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task, in a worker."""
        origin = Origin(spark_application=self._application)
        return write_branch(iterator, self._name, number_of_this_task(), self._options, self._where, origin=origin)

    def commit(self, messages: Messages) -> None:
        """Commit the job."""
        written = transaction.tasks_of(messages)
        if written:
            transaction.commit(self._where.connect(), written, timeout_ms=self._options.transaction_timeout_ms)

    def abort(self, messages: Messages) -> None:  # noqa: ARG002 - all of the transaction goes, each writer's part
        """Abort the job, which is never run again under its name."""
        transaction.commit_nothing(self._where.connect(), self._name, self._options.transaction_timeout_ms)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch of a stream in one transaction, exactly once: `df.writeStream`.

    Spark makes one for every batch, and another one to commit it, and tells neither which query or batch it is for;
    its tasks know. So they begin the transaction together, under a name that a batch which is run again has, too.
    """

    def __init__(self, options: SinkOptions, where: ClusterLocation, application: str = "") -> None:
        self._options = options
        self._where = where
        self._application = application

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task, in a worker."""
        options = self._options
        name = name_of_this_task(options.transactional_id_prefix, exactly_once=options.exactly_once)
        origin = origin_in(self._application)
        return write_branch(iterator, name, number_of_this_task(), options, self._where, origin=origin)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch, with the offsets of its sources where a group is to have them."""
        written = transaction.tasks_of(messages)
        if written:
            transaction.commit(
                self._where.connect(),
                written,
                timeout_ms=self._options.transaction_timeout_ms,
                offsets=self._offsets(batchId),
                group=self._options.group,
                check=self._check(batchId),
                begins_anew=self._options.begins_anew,
            )

    def _check(self, batch_id: int) -> CheckpointCheck | None:
        options, location = self._options, self._options.checkpoint_location
        if not options.exactly_once or not options.fail_on_checkpoint_mismatch:
            return None
        planned_ms = partial(checkpoint.planned_ms_of, location, batch_id)
        return CheckpointCheck(batch_id, planned_ms, int(time.time() * 1000))

    def _offsets(self, batch_id: int) -> Offsets | None:
        options = self._options
        if options.group is None or options.checkpoint_location is None:
            return None
        return checkpoint.offsets_of(options.checkpoint_location, batch_id)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Abort a batch; where no task tells its name, the checkpoint does, or else it is left to its timeout."""
        name = self._name_of(messages, batchId)
        if name is not None:
            transaction.abort(self._where.connect(), name, self._options.transaction_timeout_ms)

    def _name_of(self, messages: Messages, batch_id: int) -> TransactionName | None:
        options = self._options
        written = transaction.tasks_of(messages)
        if written:
            return written[0].name
        if options.checkpoint_location is None or not options.exactly_once:
            return None
        query_id = checkpoint.query_id_of(options.checkpoint_location)
        return name_in_stream(options.transactional_id_prefix, query_id, batch_id)
