"""A row is the same in whichever slice it is generated, so that every executor can generate its own."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.pipelines.datasets import DATASETS

SIZE = 400
SEEDS = st.integers(-(2**63), 2**64 - 1)


@pytest.mark.parametrize("name", DATASETS)
@given(seed=SEEDS, first=st.integers(0, 20_000_000), cuts=st.lists(st.integers(0, SIZE), max_size=6))
def test_slices_joined_are_the_whole(name, seed, first, cuts):
    generate = DATASETS[name].generate
    bounds = [0, *sorted(cuts), SIZE]
    pieces = [generate(seed, first + start, first + stop) for start, stop in pairwise(bounds)]
    joined = pa.Table.from_batches(pieces).combine_chunks()
    assert joined.equals(pa.Table.from_batches([generate(seed, first, first + SIZE)]))
