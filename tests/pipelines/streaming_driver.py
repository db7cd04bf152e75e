"""The driver of a streaming query as a program of its own, so that a test can end it with kill -9, or have it do so.

    python -m tests.pipelines.streaming_driver '{"address": ..., ...}'

It prints a line for each micro-batch that Spark has finished, and `done` when the query has come to its end.
"""

import json
import os
import pathlib
import signal
import sys
import time

import msgspec
from pyspark import SparkContext

from eagleray.pipelines.data_source import EaglerayDataSource
from eagleray.pipelines.session import planning_session, spark_session
from eagleray.pipelines.sink.writers import StreamWriter

BEFORE_COMMIT = "before-commit"
AFTER_COMMIT = "after-commit"


class DriverPlan(msgspec.Struct, frozen=True):
    """What the driver is to do, and when it is to end itself."""

    address: str
    cluster: str
    source: str
    sink: str
    checkpoint: str
    rows_per_batch: int
    exactly_once: bool = True
    group: str | None = None
    is_without_executors: bool = False
    """Whether Spark runs in the memory of the driver alone, where it starts in a third of the time."""
    crash_point: str | None = None
    crash_batch: int = -1
    """The first batch at which it may end itself: a driver before it may have come further than anybody was told."""
    crash_mark: str = ""
    """A file that is made right before the driver ends itself: the proof that it did."""


class CrashingWriter(StreamWriter):
    """Ends the driver on one side of a commit; it runs in a process that commits for the driver.

    Spark sends this class by value, because the program is no module for others; so it has plain things in it only.
    """

    def __init__(self, options, where, crash, driver_pids):
        super().__init__(options, where)
        self._crash = crash
        self._driver_pids = driver_pids

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        is_committed_first, batch, mark = self._crash
        if batchId < batch:
            super().commit(messages, batchId)
            return
        if is_committed_first:
            super().commit(messages, batchId)
        pathlib.Path(mark).touch()
        for pid in self._driver_pids:
            os.kill(pid, signal.SIGKILL)
        # Whoever would hear of the commit is dead; this process ends when it notices that.
        time.sleep(60)


def crashing_source(registered, plan):
    """The registered data source, with writers that end the driver."""
    driver_pids = (os.getpid(), SparkContext._gateway.proc.pid)
    crash = (plan.crash_point == AFTER_COMMIT, plan.crash_batch, plan.crash_mark)

    class CrashingDataSource(registered):
        def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
            writer = super().streamWriter(schema, overwrite)
            return CrashingWriter(writer._options, writer._where, crash, driver_pids)

    return CrashingDataSource


def start_query(spark, plan):
    orders = spark.readStream.format("eagleray").options(
        subscribe=plan.source,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=plan.rows_per_batch,
        cluster=plan.cluster,
        address=plan.address,
    )
    # Eight tasks of two stages: the shuffle lets rows of one partition go to any task.
    done = orders.load().selectExpr("key", "concat(cast(value as string), '-done') value").repartition(4, "key")
    writer = done.writeStream.format("eagleray").options(
        topic=plan.sink,
        checkpointLocation=plan.checkpoint,
        exactlyOnce=str(plan.exactly_once).lower(),
        cluster=plan.cluster,
        address=plan.address,
        **({"group": plan.group} if plan.group else {}),
    )
    return writer.trigger(availableNow=True).start()


def report(query):
    """Print each batch once, until the query ends."""
    printed = set()
    while True:
        is_active = query.isActive
        for progress in query.recentProgress:
            if progress.batchId not in printed:
                printed.add(progress.batchId)
                print(json.dumps({"batch": progress.batchId, "rows": progress.numInputRows}), flush=True)
        if not is_active:
            return
        time.sleep(0.1)


def session_of(plan, config):
    if plan.is_without_executors:
        return planning_session(config)
    return spark_session("driver", address=plan.address, cluster=plan.cluster, config=config)


def main(plan):
    with session_of(plan, {"spark.sql.shuffle.partitions": "4"}) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        if plan.crash_point is not None:
            spark.dataSource.register(crashing_source(EaglerayDataSource, plan))
        query = start_query(spark, plan)
        report(query)
        query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=DriverPlan))
