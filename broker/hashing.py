"""The hash by which Kafka spreads transactional ids and groups over the partitions of its internal topics."""

from __future__ import annotations

import sys
from functools import lru_cache
from operator import mul

_MODULUS = 2**32
_SIGN = 2**31
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"

_powers = [1]
"""31^0, 31^1, ... modulo 2^32, as many as the longest name so far has needed."""


@lru_cache(maxsize=16_384)
def partition_for_name(name: str, partitions: int) -> int:
    """Return the partition of an internal topic that keeps a transactional id or a group.

    A leader asks for each transaction of a producer who coordinates it.
    """
    signed = (java_string_hash(name) ^ _SIGN) - _SIGN
    # Java cannot negate its smallest number; Kafka takes that one as zero.
    return 0 if signed == -_SIGN else abs(signed) % partitions


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`, as an unsigned 32-bit number."""
    units: bytes | memoryview = (
        text.encode() if text.isascii() else memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    )
    while len(_powers) < len(units):
        _powers.append(_powers[-1] * 31 % _MODULUS)
    value: int = sum(map(mul, units[::-1], _powers))
    return value % _MODULUS
