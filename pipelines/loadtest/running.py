"""Running a load test: everything is made ready, then all drivers begin at once."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from eagleray.api import Cluster
from eagleray.pipelines.committed_reads import committed_records
from eagleray.pipelines.loadtest.plan import LoadPlan
from eagleray.pipelines.loadtest.ray_driver import RayDrivers
from eagleray.pipelines.loadtest.report import Driven, LoadReport, report_of, together
from eagleray.pipelines.loadtest.spark_driver import SparkDriver


def run_load_test(
    cluster: Cluster, spark: SparkSession | None, plan: LoadPlan, on_begin: Callable[[], None] | None = None
) -> LoadReport:
    """Drive a topic of a cluster as planned, then count what readers of committed records find there.

        report = run_load_test(cluster, spark, LoadPlan(topic="load", seconds=20))
        print(report.kinds[0].rows_per_second, report.is_exact)

    The topic is made where it is not there; of one with records in it, only new ones count. `on_begin` is called when
    everything is ready and the clock begins to run.
    """
    cluster.admin.create_topic(plan.topic, partitions=plan.partitions, exist_ok=True)
    before = _count(cluster, plan.topic)
    ray_drivers = RayDrivers(cluster.name, plan)
    try:
        ray_drivers.prepare()
        spark_driver = SparkDriver(spark, cluster.name, plan) if spark is not None and plan.spark_rows else None
        if spark_driver is not None:
            spark_driver.prepare()
        if on_begin is not None:
            on_begin()
        started_at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        began = time.monotonic()
        driven = _drive(ray_drivers, spark_driver, began)
        seconds = time.monotonic() - began
    finally:
        ray_drivers.close()
    found = _count(cluster, plan.topic) - before
    return _report(plan, driven, seconds, started_at, found)


def _drive(ray_drivers: RayDrivers, spark_driver: SparkDriver | None, began: float) -> list[Driven]:
    running = ray_drivers.start()
    # Spark stays on this thread: in another one it would not know its session, nor the data source in it.
    by_spark = [] if spark_driver is None else [spark_driver.run(began)]
    return [*ray_drivers.collect(running), *by_spark]


def _report(plan: LoadPlan, driven: list[Driven], seconds: float, started_at: str, found: int) -> LoadReport:
    kinds = sorted({each.kind for each in driven})
    return LoadReport(
        plan=plan,
        started_at=started_at,
        seconds=round(seconds, 2),
        drivers=[report_of(each, plan.seconds) for each in driven],
        kinds=[together(kind, [each for each in driven if each.kind == kind], plan.seconds) for kind in kinds],
        rows_committed=sum(sample.rows for each in driven for sample in each.samples),
        rows_found=found,
    )


def _count(cluster: Cluster, topic: str) -> int:
    return sum(1 for _ in committed_records(cluster, topic))
