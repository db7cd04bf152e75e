"""What slots are called, and which partition of the transaction log keeps a transactional id.

A slot is a transactional id of its own, so that brokers and tools that know what that is can look at a slot, verify a
batch of it and complete it. Its name tells whose it is, and it is kept where the pool is: one coordinator has all of a
pool.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from eagleray.broker.hashing import partition_for_name

SLOT_MARK: Final = ".__slot-"
"""What stands between the name of a pool and the number of a slot."""

MOST_DIGITS: Final = 6

LONGEST_ID_BYTES: Final = 2**15 - 1
"""What the key of a record of the transaction log has room for, in UTF-8."""

LONGEST_POOL_BYTES: Final = LONGEST_ID_BYTES - len(SLOT_MARK) - MOST_DIGITS
"""So long may the name of a pool be, that each of its slots has a name."""


class SlotName(NamedTuple):
    """The name of a slot, taken apart."""

    pool: str
    number: int


def slot_name(pool: str, number: int) -> str:
    """Return the transactional id of a slot."""
    return f"{pool}{SLOT_MARK}{number}"


@lru_cache(maxsize=16_384)
def slot_of(transactional_id: str) -> SlotName | None:
    """Return which slot a transactional id is; None for any other."""
    pool, mark, digits = transactional_id.rpartition(SLOT_MARK)
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS and digits == str(int(digits))
    return SlotName(pool, int(digits)) if mark and pool and is_number else None


def is_possible_id(transactional_id: str, longest_bytes: int = LONGEST_ID_BYTES) -> bool:
    """Whether the transaction log can keep a transactional id; newer requests of Kafka's have room for longer ones."""
    most_bytes = 4 * len(transactional_id)
    is_short = most_bytes <= longest_bytes or len(transactional_id.encode()) <= longest_bytes
    return is_short and bool(transactional_id)


@lru_cache(maxsize=16_384)
def log_partition_of(transactional_id: str, partitions: int) -> int:
    """Return the partition of the transaction log that keeps a transactional id: Kafka's, or that of a slot's pool."""
    slot = slot_of(transactional_id)
    return partition_for_name(transactional_id if slot is None else slot.pool, partitions)
