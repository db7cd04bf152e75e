"""Where one batch ends and the next begins."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eagleray.pipelines.columnar.varints import Integers


def cut_batches(groups: Integers, sizes: Integers, max_bytes: int) -> Integers:
    """Return the first row of each batch: one group only, and at most `max_bytes`, unless a single row is larger."""
    sums = np.cumsum(sizes)
    group_starts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
    first_rows: list[int] = []
    for start, end in pairwise(group_starts):
        row = start
        while row < end:
            first_rows.append(row)
            limit = max_bytes + (int(sums[row - 1]) if row else 0)
            row = max(row + 1, int(sums.searchsorted(limit, side="right")))
    return np.array(first_rows, np.int64)
