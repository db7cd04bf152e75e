"""Running a load test: everything is made ready, then all drivers begin at once."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from pyspark.sql import SparkSession

from eagleray.api import Cluster
from eagleray.pipelines.loadtest.plan import LoadPlan
from eagleray.pipelines.loadtest.ray_driver import RayDrivers
from eagleray.pipelines.loadtest.report import Driven, LoadReport, report_of, together
from eagleray.pipelines.loadtest.spark_driver import SparkDriver

_SECOND: float = 1.0


def run_load_test(
    cluster: Cluster,
    spark: SparkSession | None,
    plan: LoadPlan,
    on_second: Callable[[float], None] | None = None,
) -> LoadReport:
    """Drive a topic of a cluster as planned, then count what readers of committed records find there.

        report = run_load_test(cluster, spark, LoadPlan(topic="load", seconds=20))
        print(report.kinds[0].rows_per_second, report.is_exact)

    The topic is made where it is not there; one with records in it counts from where it ended. `on_second` hears every
    second how long the drivers have been at it.
    """
    cluster.admin.create_topic(plan.topic, partitions=plan.partitions, exist_ok=True)
    before = committed_records(cluster, plan.topic)
    ray_drivers = RayDrivers(cluster.name, plan)
    try:
        ray_drivers.prepare()
        driver = SparkDriver(spark, cluster.name, plan) if spark is not None and plan.spark_rows else None
        if driver is not None:
            driver.prepare()
        started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        began = time.monotonic()
        driven = _drive(ray_drivers, driver, began, on_second)
        seconds = time.monotonic() - began
    finally:
        ray_drivers.close()
    found = committed_records(cluster, plan.topic) - before
    return _report(plan, driven, seconds, started_at, found)


def _drive(
    ray_drivers: RayDrivers, spark_driver: SparkDriver | None, began: float, on_second: Callable[[float], None] | None
) -> list[Driven]:
    with ThreadPoolExecutor(max_workers=2) as threads:
        work: list[Future[list[Driven]]] = [threads.submit(ray_drivers.collect, ray_drivers.start())]
        if spark_driver is not None:
            work.append(threads.submit(lambda: [spark_driver.run(began)]))
        for future in work:
            while not future.done():
                with suppress(TimeoutError):
                    future.result(_SECOND)
                if on_second is not None:
                    on_second(time.monotonic() - began)
        return [each for future in work for each in future.result()]


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


def committed_records(cluster: Cluster, topic: str) -> int:
    """How many records a reader of committed records finds in a topic now."""
    count = 0
    with cluster.consumer(topic, isolation="read_committed", auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(*consumer.assignment())
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            count += len(consumer.poll(500))
    return count
