"""The hash of many keys at once: equal to `eagleray.client.partitioner.murmur2` of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eagleray.client import partitioner

if TYPE_CHECKING:
    from eagleray.pipelines.columnar.varints import Bytes, Integers

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)
_FEW = 16
"""So few keys are hashed one by one: a step of numpy would take longer."""


def partitions_for_keys(data: Bytes, starts: Integers, lengths: Integers, partitions: int) -> Integers:
    """Return the partition that Kafka's clients choose for each of the keys, which lie here and there in `data`."""
    return ((murmur2(data, starts, lengths) & _POSITIVE) % np.uint32(partitions)).astype(np.int64)


def murmur2(data: Bytes, starts: Integers, lengths: Integers) -> npt.NDArray[np.uint32]:
    """Hash the keys word by word, in each step all that are still longer."""
    hashed = _SEED ^ lengths.astype(np.uint32)
    word_counts = lengths >> 2
    active = np.flatnonzero(word_counts)
    step = 0
    while active.size > _FEW:
        words = _mix_word(_words(data, starts[active] + 4 * step))
        hashed[active] = (hashed[active] * _MULTIPLIER) ^ words
        step += 1
        active = active[word_counts[active] > step]
    finished = _finish(data, hashed, starts + 4 * word_counts, lengths & 3)
    for row in active.tolist():
        finished[row] = partitioner.murmur2(data[starts[row] : starts[row] + lengths[row]].tobytes())
    return finished


def _words(data: Bytes, positions: Integers) -> npt.NDArray[np.uint32]:
    words = data[positions].astype(np.uint32)
    for index in range(1, 4):
        words |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return words


def _mix_word(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * _MULTIPLIER
    return (words ^ words >> np.uint32(24)) * _MULTIPLIER


def _finish(data: Bytes, hashed: npt.NDArray[np.uint32], positions: Integers, left: Integers) -> npt.NDArray[np.uint32]:
    """Mix in the last one to three bytes of each key, then all the bits once more."""
    for index in range(3):
        rows = np.flatnonzero(left > index)
        hashed[rows] ^= data[positions[rows] + index].astype(np.uint32) << np.uint32(8 * index)
    hashed = np.where(left > 0, hashed * _MULTIPLIER, hashed)
    hashed = (hashed ^ hashed >> np.uint32(13)) * _MULTIPLIER
    return hashed ^ hashed >> np.uint32(15)
