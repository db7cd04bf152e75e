"""Which partition a record goes to: by its key as Kafka's clients do it, or wherever is convenient without one."""

from __future__ import annotations

from functools import lru_cache
from random import randrange
from struct import unpack_from
from typing import Final

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_POSITIVE = 0x7FFFFFFF


_KEPT_KEYS: Final = 16_384
_LONGEST_KEPT_BYTES: Final = 64
"""Keys come again and again; those that are kept take some megabytes at the most, so that long ones are not."""


def murmur2(data: bytes) -> int:
    """Hash as Kafka's default partitioner does: 32-bit MurmurHash2 with Kafka's seed, as an unsigned number."""
    length = len(data)
    hashed = _SEED ^ length
    words = length >> 2
    for word in unpack_from(f"<{words}I", data):
        mixed = word * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER ^ (mixed ^ mixed >> 24) * _MULTIPLIER) & _MASK
    if length & 3:
        hashed = (hashed ^ int.from_bytes(data[words << 2 :], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


_murmur2_of_short_key = lru_cache(_KEPT_KEYS)(murmur2)


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's clients choose for a key."""
    hashed = _murmur2_of_short_key(key) if len(key) <= _LONGEST_KEPT_BYTES else murmur2(key)
    return (hashed & _POSITIVE) % partitions


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
