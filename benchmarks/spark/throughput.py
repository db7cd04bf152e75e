"""Rows per second: what is read and what is written, each in one job."""

import os
import time
from collections.abc import Callable

from msgspec import Struct

from benchmarks.measuring import FamilyCpu
from benchmarks.spark.endpoints import Endpoint, run_to_the_end
from benchmarks.spark.generating import generated_rows, generated_stream, placed_rows
from benchmarks.spark.stage import Stage

INPUT = "input"


class Cost(Struct, frozen=True):
    """What a job took: time, and CPU time of everything that takes part, brokers, Ray and Spark."""

    seconds: float
    cpu_seconds: float


Measurement = Callable[[Stage, Endpoint, int], Cost]


class VoidRound(Exception):
    """A round that cannot be counted: the rows that it left are not those that it was given."""


def fill(stage: Stage, rows: int) -> None:
    """Give each broker the topic that is read, written by the same program in batches of the same size."""
    writers = {each.bootstrap_servers: each for each in stage.endpoints}
    for each in writers.values():
        each.create_topic(INPUT)
        witness = Endpoint(each.name, "kafka", each.bootstrap_servers)
        witness.write(placed_rows(stage.spark, rows), INPUT)
        _check(each.count(stage.spark, INPUT), rows)


def generate(stage: Stage, endpoint: Endpoint, rows: int) -> Cost:  # noqa: ARG001 - all measurements look alike
    """Make the rows and drop them: the part of a write that is neither's."""
    return _cost(lambda: generated_rows(stage.spark, rows).write.format("noop").mode("overwrite").save())


def read_and_sum(stage: Stage, endpoint: Endpoint, rows: int) -> Cost:
    """Read, with a sum that looks at every byte of every value."""
    found: list[int] = []

    def job() -> None:
        table = endpoint.read(stage.spark, INPUT).selectExpr("count(*)", "sum(crc32(value))").collect()
        found.append(table[0][0])

    cost = _cost(job)
    _check(found[0], rows)
    return cost


def read_and_drop(stage: Stage, endpoint: Endpoint, rows: int) -> Cost:  # noqa: ARG001 - all measurements look alike
    """Read all columns into nothing."""
    return _cost(lambda: endpoint.read(stage.spark, INPUT).write.format("noop").mode("overwrite").save())


def write(stage: Stage, endpoint: Endpoint, rows: int) -> Cost:
    return _write(stage, endpoint, rows, keyed=False)


def write_keyed(stage: Stage, endpoint: Endpoint, rows: int) -> Cost:
    return _write(stage, endpoint, rows, keyed=True)


def _write(stage: Stage, endpoint: Endpoint, rows: int, *, keyed: bool) -> Cost:
    topic = endpoint.create_topic(stage.new_name("written"))
    cost = _cost(lambda: endpoint.write(generated_rows(stage.spark, rows, keyed=keyed), topic))
    _check(endpoint.count(stage.spark, topic), rows)
    return cost


def write_stream(stage: Stage, endpoint: Endpoint, rows: int) -> Cost:
    """One micro-batch of all the rows."""
    topic = endpoint.create_topic(stage.new_name("streamed"))
    values = generated_stream(stage.spark, rows).select("value")
    checkpoint = stage.new_directory("checkpoint")
    cost = _cost(lambda: run_to_the_end(endpoint.write_stream(values, checkpoint, topic=topic)))
    _check(endpoint.count(stage.spark, topic), rows)
    return cost


def copy(stage: Stage, endpoint: Endpoint, rows: int) -> Cost:
    """A stream from topic to topic, with source and sink of the same kind."""
    topic = endpoint.create_topic(stage.new_name("copied"))
    values = endpoint.read_stream(stage.spark, [INPUT]).select("key", "value")
    checkpoint = stage.new_directory("checkpoint")
    cost = _cost(lambda: run_to_the_end(endpoint.write_stream(values, checkpoint, topic=topic)))
    _check(endpoint.count(stage.spark, topic), rows)
    return cost


PARTS: dict[str, tuple[str, Measurement]] = {
    "generate": ("control: generate the rows, the same job for all", generate),
    "read-sum": ("read, count and sum(crc32(value))", read_and_sum),
    "read-noop": ("read all columns into `noop`", read_and_drop),
    "write": ("write a batch, no key", write),
    "write-keyed": ("write a batch, with a key", write_keyed),
    "write-stream": ("write a stream, availableNow", write_stream),
    "copy": ("read and write a stream, availableNow", copy),
}


def _cost(job: Callable[[], object]) -> Cost:
    """Run a job. All processes of the comparison are children of this one."""
    cpu, began = FamilyCpu(os.getpid()), time.perf_counter()
    job()
    seconds = time.perf_counter() - began
    return Cost(seconds, cpu.seconds())


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise VoidRound(f"{found:,} rows where {expected:,} were expected")
