"""What a load test does: how much, from where, and when it ends."""

from __future__ import annotations

import msgspec

from eagleray.pipelines.jobs.errors import InvalidJob


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Spark executors and Ray tasks drive one topic, both at once; each is bounded in time and in count."""

    topic: str
    seconds: float = 20.0
    partitions: int = 8
    size: int = 200
    """Bytes in each record."""

    spark_rows: int = 20_000
    """Rows in each of Spark's jobs, which is one transaction; 0 for no Spark."""

    spark_tasks: int = 4
    """Tasks in each job, which are as many writers of its transaction."""

    spark_jobs: int = 1_000
    """How many jobs at the most."""

    ray_tasks: int = 2
    """Processes with producers; 0 for none."""

    producers: int = 50
    """Producers in each of these, each with one transaction after the other."""

    records: int = 1
    """Records in each transaction."""

    rate: float = 500.0
    """Transactions that arrive each second at all Ray tasks together; 0 for as many as get through."""

    transactions: int = 1_000_000
    """How many transactions of producers at the most."""

    def __post_init__(self) -> None:
        if not self.spark_rows and not self.ray_tasks:
            raise InvalidJob("nothing would drive the broker: expected rows for Spark, or Ray tasks, or both.")
        for name in ("seconds", "partitions", "spark_tasks", "spark_jobs", "producers", "records", "transactions"):
            if getattr(self, name) <= 0:
                raise InvalidJob(f"{name} of the load test is {getattr(self, name)}; expected more than 0.")
        for name in ("rate", "size", "spark_rows", "ray_tasks"):
            if getattr(self, name) < 0:
                raise InvalidJob(f"{name} of the load test is {getattr(self, name)}; expected 0 or more.")
