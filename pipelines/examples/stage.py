"""What examples share: a cluster, Spark, generated orders, and a look at what was committed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from eagleray.api import Cluster
from eagleray.pipelines.committed_reads import committed_records
from eagleray.pipelines.datasets.producing import produce
from eagleray.pipelines.jobs.metrics import OnBatch

ORDERS: Final = "orders"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where an example plays, and with how much."""

    cluster: Cluster
    spark: SparkSession
    directory: str
    """For checkpoints; one that is kept lets the example go on where it was."""

    rows: int = 20_000
    seed: int = 7
    partitions: int = 4
    prefix: str = ""
    """What the names of all topics begin with."""

    on_batch: OnBatch | None = None

    def topic(self, name: str) -> str:
        """Create a topic of the example, where it is not there, and return its name."""
        self.cluster.admin.create_topic(self.prefix + name, partitions=self.partitions, exist_ok=True)
        return self.prefix + name

    def checkpoint(self, name: str) -> str:
        """The directory of a checkpoint."""
        return os.path.join(self.directory, self.prefix + name)

    def orders(self) -> str:
        """Write the orders to a topic of their own, and return its name."""
        topic = self.topic(ORDERS)
        produce(self.cluster, topic, seed=self.seed, rows=self.rows)
        return topic


class Fact(msgspec.Struct, frozen=True):
    """Something that an example checks."""

    name: str
    expected: object
    found: object

    @property
    def is_right(self) -> bool:
        """Whether it came out as it had to."""
        return self.expected == self.found


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What an example shows: a few rows to look at, and facts that were checked."""

    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]
    facts: list[Fact]

    @property
    def is_right(self) -> bool:
        """Whether every fact came out as it had to."""
        return all(fact.is_right for fact in self.facts)


Example = Callable[[Stage], Outcome]


def values(cluster: Cluster, topic: str) -> Iterator[dict[str, Any]]:
    """The committed records of a topic as what their JSON says."""
    for record in committed_records(cluster, topic):
        yield msgspec.json.decode(record.value or b"null")
