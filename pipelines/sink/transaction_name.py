"""Which transaction a task takes part in, and which one the driver commits."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark import TaskContext

from eagleray.broker.transactions.branches.tags import tag_in_series
from eagleray.broker.transactions.origin import Origin

QUERY_ID: Final = "sql.streaming.queryId"
"""The property of a task that says which query it belongs to; the same for all runs from one checkpoint."""

BATCH_ID: Final = "streaming.sql.batchId"
RUN_ID: Final = "spark.jobGroup.id"
"""Spark runs the jobs of a query in a group with the id of the run, another one after every start."""


class TransactionName(NamedTuple):
    """A transactional id, and what the transaction under it is for."""

    transactional_id: str
    tag: str


class NotInAQuery(RuntimeError):
    """A task does not say which query and batch it works for."""


def name_in_stream(prefix: str, query_id: str, batch_id: int) -> TransactionName:
    """Return the transaction of one batch of a query: the query has the transactional id, its batches are a series.

    A batch that is run again has the same name, so it finds out that it is committed; a batch of the past, run by a
    driver that does not know that it was replaced, is settled by those that came after it.
    """
    return TransactionName(f"{prefix}-{query_id}", tag_in_series("batch", batch_id))


def name_of_this_task(prefix: str, *, exactly_once: bool) -> TransactionName:
    """Return the transaction that the task at hand writes in, from what Spark tells its tasks.

    Without `exactly_once` a run does not know what the one before it has committed: at least once, as other sinks do.
    """
    return name_in_stream(prefix, _property(QUERY_ID if exactly_once else RUN_ID), int(_property(BATCH_ID)))


def origin_in(application: str) -> Origin:
    """Return which application, query and batch the task at hand works for; its transaction shows them."""
    return Origin(spark_application=application, spark_query=_property(QUERY_ID), spark_batch=int(_property(BATCH_ID)))


def _property(name: str) -> str:
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(name)
    if value is None:
        raise NotInAQuery(
            f"the task has no property {name!r}, which a streaming query gives to its tasks: "
            "write with df.writeStream, or in a batch with df.write"
        )
    return str(value)


def number_of_this_task() -> int:
    """Return the task's partition, which all of its attempts share."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
