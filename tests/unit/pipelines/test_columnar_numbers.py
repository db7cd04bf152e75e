"""Columns of numbers by their buffers: the same as by Arrow's own conversions, and without pandas."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from eagleray.pipelines.columnar.arrays import constant, from_flags, from_numpy, nulls_of, to_numpy

COLUMNS = [
    pa.array([], pa.int64()),
    pa.array([1, -2, 3], pa.int64()),
    pa.array([1, None, 3, None], pa.int32()),
    pa.array([None, None], pa.int16()),
    pa.array([True, False, None, True] * 5),
    pa.array(range(40), pa.uint8())[7:31],
    pa.array([None if number % 3 else number for number in range(40)], pa.int64())[5:27],
    pa.array([number % 2 == 0 for number in range(40)])[3:20],
    pa.nulls(5, pa.int64()),
]


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_elements_and_nulls(column):
    assert to_numpy(column).tolist() == [value or 0 for value in column.to_pylist()]
    assert nulls_of(column).tolist() == [value is None for value in column.to_pylist()]


@pytest.mark.parametrize("column", [pa.array(["a", None, "b"])[1:], pa.nulls(3), pa.array(["a"])])
def test_nulls_of_columns_of_any_type(column):
    assert nulls_of(column).tolist() == [value is None for value in column.to_pylist()]


def test_columns_from_arrays():
    numbers = np.arange(10, dtype=np.int32)
    is_null = numbers % 4 == 0
    assert from_numpy(numbers) == pa.array(numbers)
    assert from_numpy(numbers[::2]) == pa.array(numbers[::2])
    assert from_numpy(numbers, is_null) == pa.array(numbers, mask=is_null)
    assert from_flags(is_null) == pa.array(is_null)


def test_constants():
    assert constant("näher") == pa.scalar("näher")
    assert constant(b"\x00\xff") == pa.scalar(b"\x00\xff")
    assert constant("") == pa.scalar("")


PROGRAM = """
import sys

import numpy as np
import pyarrow as pa

import eagleray.pipelines.data_source
from eagleray.pipelines.columnar import RecordColumns, Rows, decode, encode
from eagleray.protocol.records import CompressionType, split_batches

offsets = pa.py_buffer(np.array([0, 1, 2, 3], np.int32))
values = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"abc")])
encoded = encode(Rows(value=values, topic="orders"), partition_counts={"orders": 1}, max_batch_bytes=10_000, now_ms=5)
((partition, records),) = encoded
sender = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
batches = split_batches(records.build(**sender, compression=CompressionType.NONE))
assert decode(batches, RecordColumns("orders", 0, 0, 10, True)).num_rows == 3
assert "pandas" not in sys.modules, "pandas is loaded"
"""


def test_reading_and_writing_does_not_load_pandas():
    """Spark's workers are many, and pandas takes each of them more than a second."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
