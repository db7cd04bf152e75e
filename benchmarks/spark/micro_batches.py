"""What a micro-batch costs beside its rows: medians of the durations that Spark tells of each."""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from pyspark.sql.streaming import DataStreamWriter

from benchmarks.spark.endpoints import Endpoint
from benchmarks.spark.generating import generated_stream, placed_rows
from benchmarks.spark.stage import Stage

ROWS_PER_BATCH = 100
# The first micro-batches of a query start workers and compile code.
FIRST_BATCHES = 3
SECONDS = 60
PHASES = ("triggerExecution", "latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
Table = tuple[str, list[str], list[list[str]]]
Writers = Callable[[Stage, Endpoint, int], Iterator[tuple[str, DataStreamWriter, bool]]]


def idle(stage: Stage, endpoint: Endpoint, batches: int) -> Iterator[tuple[str, DataStreamWriter, bool]]:  # noqa: ARG001
    topic = endpoint.create_topic(stage.new_name("idle"))
    yield "no data, source alone", _to_nothing(stage, endpoint, [topic]), True


def small(stage: Stage, endpoint: Endpoint, batches: int) -> Iterator[tuple[str, DataStreamWriter, bool]]:
    topics = _filled(stage, endpoint, 1, batches, partitions=4)
    yield "100 rows, source alone, 4 partitions", _to_nothing(stage, endpoint, topics), False
    copied = _write_all(stage, endpoint, "copied", 4)
    rows = endpoint.read_stream(stage.spark, topics, maxOffsetsPerTrigger=str(ROWS_PER_BATCH)).select("key", "value")
    writer = endpoint.write_stream(rows, stage.new_directory("checkpoint"), topic=copied)
    yield "100 rows, source and sink, 4 partitions", writer, False


def tasks(stage: Stage, endpoint: Endpoint, batches: int) -> Iterator[tuple[str, DataStreamWriter, bool]]:  # noqa: ARG001
    for count in (1, 4, 16, 64):
        topic = _write_all(stage, endpoint, "tasks", 8)
        rows = generated_stream(stage.spark, ROWS_PER_BATCH, count).select("value")
        writer = endpoint.write_stream(rows, stage.new_directory("checkpoint"), topic=topic)
        yield f"100 rows, sink alone, {count} tasks", writer, False


def topics(stage: Stage, endpoint: Endpoint, batches: int) -> Iterator[tuple[str, DataStreamWriter, bool]]:
    for count in (1, 4, 16):
        names = _filled(stage, endpoint, count, batches, partitions=1)
        yield f"100 rows, source alone, {count} topics", _to_nothing(stage, endpoint, names), False
    for count in (1, 4, 16):
        names = [_write_all(stage, endpoint, "topics", 1) for _ in range(count)]
        array = ", ".join(f"'{name}'" for name in names)
        rows = generated_stream(stage.spark, ROWS_PER_BATCH, 4)
        rows = rows.selectExpr("value", f"element_at(array({array}), cast(number % {count} as int) + 1) as topic")
        writer = endpoint.write_stream(rows, stage.new_directory("checkpoint"), topic=None)
        yield f"100 rows, sink alone, {count} topics, 4 tasks", writer, False


BATCH_PARTS: dict[str, tuple[str, Writers]] = {
    "idle": ("A trigger that finds nothing", idle),
    "small": ("A micro-batch of 100 rows", small),
    "tasks": ("A micro-batch of 100 rows by its tasks", tasks),
    "topics": ("A micro-batch of 100 rows by its topics", topics),
}


def measure_batches(part: str, stage: Stage, batches: int, say: Callable[[str], None]) -> Table:
    """Run the queries of a part, one after the other, and give the table of what they took."""
    title, writers = BATCH_PARTS[part]
    found: list[list[str]] = []
    for endpoint in stage.endpoints:
        for name, writer, is_idle in writers(stage, endpoint, batches + FIRST_BATCHES):
            row = phases_of(_progress(writer, batches + FIRST_BATCHES, is_idle=is_idle), is_idle=is_idle)
            say(f"{name}, {endpoint.name}: {row}")
            found.append([name, endpoint.name, *row])
    # Rows of the same load stand together, ours first.
    order = list(dict.fromkeys(row[0] for row in found))
    heading = ["load", "", *(f"{phase} ms" for phase in PHASES), "batches"]
    return (
        f"{title}: medians of the micro-batches, in milliseconds",
        heading,
        sorted(found, key=lambda row: order.index(row[0])),
    )


def phases_of(progress: list[dict[str, Any]], *, is_idle: bool) -> list[str]:
    """The median of each phase over the micro-batches of this kind, without the first ones; and how many they were."""
    wanted = [each["durationMs"] for each in progress if (each["numInputRows"] == 0) == is_idle][FIRST_BATCHES:]
    medians = ([each[phase] for each in wanted if phase in each] for phase in PHASES)
    return [*(f"{median(values):,.0f}" if values else "" for values in medians), str(len(wanted))]


def _progress(writer: DataStreamWriter, batches: int, *, is_idle: bool) -> list[dict[str, Any]]:
    query = writer.start()
    try:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and query.isActive:
            told = [dict(each) for each in query.recentProgress]
            if sum((each["numInputRows"] == 0) == is_idle for each in told) >= batches:
                break
            time.sleep(0.2)
        if error := query.exception():
            raise error
        return [dict(each) for each in query.recentProgress]
    finally:
        query.stop()


def _to_nothing(stage: Stage, endpoint: Endpoint, names: list[str]) -> DataStreamWriter:
    rows = endpoint.read_stream(stage.spark, names, maxOffsetsPerTrigger=str(ROWS_PER_BATCH))
    return rows.writeStream.format("noop").option("checkpointLocation", str(stage.new_directory("checkpoint")))


def _write_all(stage: Stage, endpoint: Endpoint, what: str, partitions: int) -> str:
    return endpoint.create_topic(stage.new_name(what), partitions)


def _filled(stage: Stage, endpoint: Endpoint, count: int, batches: int, *, partitions: int) -> list[str]:
    """Topics that hold, together, the rows of as many micro-batches."""
    names = [_write_all(stage, endpoint, "small", partitions) for _ in range(count)]
    rows = -(-ROWS_PER_BATCH * batches // count)
    for name in names:
        filler = Endpoint(endpoint.name, "kafka", endpoint.bootstrap_servers)
        filler.write(placed_rows(stage.spark, rows, partitions), name)
    return names
