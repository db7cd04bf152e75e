"""Rows of the data set as records of a topic: a key, and a value in JSON, made for whole columns at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eagleray.pipelines.datasets.orders import orders
from eagleray.pipelines.datasets.payments import payments

RECORD_SCHEMA: Final = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])


class Dataset(msgspec.Struct, frozen=True):
    """A set that can be written to a topic: how a slice of it is generated, and which column is the key."""

    name: str
    generate: Callable[[int, int, int], pa.RecordBatch]
    key: str

    def records(self, seed: int, start: int, stop: int) -> pa.RecordBatch:
        """The keys and values of a slice."""
        return to_records(self.generate(seed, start, stop), self.key)


DATASETS: Final = {
    "orders": Dataset("orders", orders, "order_id"),
    "payments": Dataset("payments", payments, "order_id"),
}


def to_records(batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
    """The rows of a batch as keys and JSON objects."""
    keys = batch.column(key).cast(pa.string()).cast(pa.binary())
    return pa.RecordBatch.from_arrays([keys, to_json(batch)], schema=RECORD_SCHEMA)


def to_json(batch: pa.RecordBatch) -> pa.Array:
    """Each row as a JSON object. Columns are whole numbers, or words that need no escaping."""
    pieces: list[object] = []
    before = "{"
    for field, column in zip(batch.schema, batch.columns, strict=True):
        quote = '"' if pa.types.is_string(field.type) else ""
        pieces += [f'{before}"{field.name}":{quote}', column.cast(pa.string())]
        before = f"{quote},"
    pieces.append(before[:-1] + "}")
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())
