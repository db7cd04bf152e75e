"""Which partition a record goes to: by its key as Kafka's clients do it, or wherever is convenient without one."""

from __future__ import annotations

from collections.abc import Callable
from random import randrange
from typing import TypeAlias

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
"""Takes topic, key, value and the number of partitions, and returns a partition."""

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Hash as Kafka's default partitioner does: 32-bit MurmurHash2 with Kafka's seed, as an unsigned number."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's clients choose for a key."""
    return (murmur2(key) & _POSITIVE) % partitions


class StickyPartition:
    """Where a producer's keyless records of one topic go: to one partition for a while, then to another.

    Records that stay together share a batch, and a transaction touches few partitions. The next partition is drawn
    when `batch_bytes` have gone to the current one, so that all get the same share.
    """

    __slots__ = ("_left_bytes", "_partition")

    def __init__(self) -> None:
        self._partition = -1
        self._left_bytes = 0

    def choose(self, partitions: int, record_bytes: int, batch_bytes: int) -> int:
        """Return the partition for a record of this size."""
        if self._left_bytes <= 0 or self._partition >= partitions:
            self._partition = randrange(partitions)  # noqa: S311 - nothing secret depends on it
            self._left_bytes = batch_bytes
        self._left_bytes -= record_bytes
        return self._partition
