"""Writing the data set without Spark: one producer, a transaction for every few thousand rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eagleray.api import Cluster
from eagleray.pipelines.datasets.json_records import DATASETS
from eagleray.pipelines.datasets.totals import slices

_ROWS_IN_A_TRANSACTION: Final = 5_000


def produce(cluster: Cluster, topic: str, *, dataset: str = "orders", seed: int = 7, rows: int = 1_000) -> int:
    """Write the records of the first `rows` orders; return how many records these were.

        with eagleray.start(data_dir="data") as cluster:
            cluster.admin.create_topic("orders", partitions=8)
            produce(cluster, "orders", rows=10_000)

    One transaction holds what 5,000 orders give. For millions, `spark.write_dataset` has executors generate them.
    """
    return sum(produce_slices(cluster, topic, dataset=dataset, seed=seed, rows=rows))


def steps(rows: int) -> int:
    """How many transactions `rows` orders take."""
    return -(-rows // _ROWS_IN_A_TRANSACTION)


def produce_slices(cluster: Cluster, topic: str, *, dataset: str, seed: int, rows: int) -> Iterator[int]:
    """The same, step by step: yields how many records each transaction had, once it is committed."""
    chosen = DATASETS[dataset]
    with cluster.producer(transactional_id=f"generate-{topic}") as producer:
        for start, stop in slices(rows, _ROWS_IN_A_TRANSACTION):
            batch = chosen.records(seed, start, stop)
            with producer.transaction():
                for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                    producer.send(topic, value, key=key)
            yield batch.num_rows
