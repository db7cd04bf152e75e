"""Chance that needs no state: a number for each (seed, column, row), whichever rows are asked for and in what order.

Executors generate slices of a data set on their own, so row 7,000,000 has to be the same with or without the rows
before it. A generator with a state cannot do that; a hash of the row's number can. Only integer arithmetic, and
products of doubles, are used: both give the same bits on every machine, which powers and logarithms do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Doubles = NDArray[np.float64]

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


def mix(words: Words) -> Words:
    """Scatter the bits of each word; the finaliser of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class Chance:
    """The numbers of one seed for some rows; each column that is drawn by another name is independent of the others."""

    def __init__(self, seed: int, rows: Integers) -> None:
        self._seed = seed & _MASK
        self._rows = rows.astype(np.uint64)

    def words(self, column: str) -> Words:
        """64 random bits a row."""
        return mix(self._rows * np.uint64(_GOLDEN) + np.uint64(self._start_of(column)))

    def _start_of(self, column: str) -> int:
        """Where the numbers of a column begin: a hash of the seed and of its name."""
        start = np.array([self._seed], dtype=np.uint64)
        for byte in column.encode():
            start = mix(start ^ np.uint64(byte + 1))
        return int(start[0])

    def uniform(self, column: str) -> Doubles:
        """A number of at least 0 and below 1 a row."""
        return (self.words(column) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, column: str, limit: int) -> Integers:
        """A whole number of at least 0 and below `limit` a row, all alike."""
        return (self.uniform(column) * limit).astype(np.int64)

    def skewed(self, column: str, limit: int) -> Integers:
        """The same, where the small ones come far more often: one of the first hundredth for every fifth row."""
        share = self.uniform(column)
        return (share * share * share * limit).astype(np.int64)

    def choice(self, column: str, weights: Sequence[int]) -> Integers:
        """The place of one of the weights a row, each as often as its weight says."""
        bounds = np.cumsum(np.array(weights, dtype=np.int64))
        return np.searchsorted(bounds, self.below(column, int(bounds[-1])), side="right").astype(np.int64)
