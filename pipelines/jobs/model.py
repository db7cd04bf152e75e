"""The model of a pipeline: its source, transform, sink and checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from eagleray.pipelines.jobs.errors import InvalidJob
from eagleray.pipelines.options import SinkOptions, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Option = str | int | float | bool
TransformFunction = Callable[["DataFrame"], "DataFrame"]

AVAILABLE_NOW: Final = "available-now"
_INTERVAL: Final = re.compile(r"[1-9]\d* (milliseconds?|seconds?|minutes?|hours?)")
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]")


class Watermark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How late rows may be: adds the column `event_time`, and has Spark forget what is older than the delay."""

    event_time: str
    """An SQL expression over the columns of the input that gives a timestamp."""

    delay: str
    """An interval in Spark's words, such as "10 seconds"."""


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topics that a pipeline reads."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression for names of topics, in the place of `topics`."""

    value_schema: str = ""
    """Columns in Spark's words, such as "order_id BIGINT, country STRING": then values are JSON with these."""

    malformed: Literal["fail", "null"] = "fail"
    """What a value that is not such JSON does: end the pipeline, or come as a row of nulls."""

    watermark: Watermark | None = None
    options: dict[str, Option] = {}
    """Options of the data source, such as maxOffsetsPerTrigger."""

    def __post_init__(self) -> None:
        if bool(self.topics) == bool(self.pattern):
            raise InvalidJob("the source needs either `topics`, a list of names, or `pattern`, a regular expression.")
        SourceOptions.parse(self.reader_options(), streaming=True)

    def reader_options(self) -> dict[str, str]:
        """All options that the data source is given; without others a pipeline begins with the first record."""
        named = {"subscribePattern": self.pattern} if self.pattern else {"subscribe": ",".join(self.topics)}
        return {**named, "startingOffsets": "earliest", **as_options(self.options)}


class Sink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topic that a pipeline writes to.

    The columns `key`, `value`, `topic`, `partition`, `timestamp` and `headers` are parts of a record. Where there is no
    `value`, all other columns together are its JSON; `record`, where the row came from, is left out. A topic is only
    added to: Spark's output mode is always `append`, in which an aggregation gives a row once the watermark passed it.
    """

    topic: str = ""
    """Where the rows go; those with a column `topic` need none."""

    key: str = ""
    """An SQL expression over the columns of the output, for rows without a column `key`."""

    options: dict[str, Option] = {}
    """Options of the data source, such as group."""

    def __post_init__(self) -> None:
        SinkOptions.parse(self.writer_options(), streaming=True)

    def writer_options(self) -> dict[str, str]:
        """All options that the data source is given."""
        return {**({"topic": self.topic} if self.topic else {}), **as_options(self.options)}


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table that the transform may name: files that Spark reads."""

    path: str
    format: str = "parquet"
    options: dict[str, Option] = {}


class SparkSizes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the Ray cluster Spark takes."""

    executors: int = 1
    cores: int = 2
    memory: str = "1g"
    config: dict[str, Option] = {}

    def __post_init__(self) -> None:
        for name, value in (("executors", self.executors), ("cores", self.cores)):
            if value < 1:
                raise InvalidJob(f"spark.{name} is {value}; expected at least 1.")
        if not _MEMORY.fullmatch(self.memory):
            raise InvalidJob(f"spark.memory is {self.memory!r}; expected a size such as '512m' or '2g'.")


def unchanged(frame: DataFrame) -> DataFrame:
    """The transform that leaves rows as they are."""
    return frame


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """Consume, transform and produce, exactly once.

        Pipeline(
            name="large-orders",
            source=Source(topics=("orders",), value_schema=ORDER_DDL),
            transform=lambda orders: orders.where("amount_cents >= 100000"),
            sink=Sink(topic="large-orders", key="order_id"),
            checkpoint="checkpoints/large-orders",
        )

    The checkpoint and the output belong together: with the same checkpoint a pipeline goes on where it was, and what
    it has written is not written again. Another pipeline needs another checkpoint.
    """

    name: str
    source: Source
    sink: Sink
    checkpoint: str
    transform: TransformFunction = unchanged
    trigger: str = AVAILABLE_NOW
    """`available-now`: what is there, in micro-batches, and then the end; an interval such as "5 seconds": for ever."""

    cluster: str = "default"

    def __post_init__(self) -> None:
        check_trigger(self.trigger)
        if not self.name:
            raise InvalidJob("the pipeline has no name; expected a word that tells it from others.")
        if not self.checkpoint:
            raise InvalidJob("the pipeline has no checkpoint; expected a directory that it keeps, and only it uses.")


def check_trigger(trigger: str) -> None:
    """Complain about a trigger that is neither word nor interval."""
    if trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(trigger):
        raise InvalidJob(
            f"the trigger is {trigger!r}; expected {AVAILABLE_NOW!r}, or an interval such as '500 milliseconds', "
            "'5 seconds' or '1 minute'."
        )


def as_options(options: dict[str, Option]) -> dict[str, str]:
    """Options as Spark takes them: texts."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
