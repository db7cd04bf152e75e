"""Payments: for each order as many as its course has, from none to three, and always in accord with the order.

What was captured of an order, less what was refunded, is the whole amount of the order or nothing. Most orders are paid
within a minute; some are paid in parts, some at the second try, some days late, some never.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from eagleray.pipelines.datasets.orders import order_amounts_cents, order_numbers, order_times_ms, schema_of, words
from eagleray.pipelines.datasets.randomness import Chance, Integers
from eagleray.pipelines.datasets.vocabulary import METHODS, STATUSES

PAYMENT_DDL: Final = (
    "payment_id BIGINT, order_id BIGINT, method STRING, amount_cents BIGINT, status STRING, event_time_ms BIGINT"
)
PAYMENT_SCHEMA: Final = schema_of(PAYMENT_DDL)

_AUTHORISED, _CAPTURED, _REFUNDED, _FAILED = range(len(STATUSES))
_MOST_PAYMENTS: Final = 3
_SOON_MS: Final = 60_000
_LATE_MS: Final = 3 * 86_400_000
_NEXT_MS: Final = 3_600_000
_LATE_WEIGHTS: Final = (97, 3)


class Course(msgspec.Struct, frozen=True):
    """What becomes of an order: the statuses of its payments in turn, and how many of a hundred orders go that way."""

    statuses: tuple[int, ...]
    weight: int
    is_split: bool = False
    """Whether each payment is a part of the amount; else each is the whole of it."""


COURSES: Final = (
    Course((_CAPTURED,), 72),
    Course((_CAPTURED, _CAPTURED), 8, is_split=True),
    Course((_FAILED, _CAPTURED), 5),
    Course((), 4),
    Course((_CAPTURED, _CAPTURED, _CAPTURED), 3, is_split=True),
    Course((_AUTHORISED,), 3),
    Course((_CAPTURED, _REFUNDED), 3),
    Course((_FAILED,), 2),
)


def payments(seed: int, start: int, stop: int) -> pa.RecordBatch:
    """The payments of orders `start` to `stop` (without it), in the order of the orders."""
    numbers = order_numbers(start, stop)
    courses = Chance(seed, numbers).choice("course", [course.weight for course in COURSES])
    counts = np.array([len(course.statuses) for course in COURSES], dtype=np.int64)[courses]
    # One row for each payment: the place of its order in the slice, and which of the order's payments it is.
    places = np.repeat(np.arange(len(numbers), dtype=np.int64), counts)
    turns = np.arange(len(places), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return _batch(seed, numbers[places], courses[places], turns)


def _batch(seed: int, numbers: Integers, courses: Integers, turns: Integers) -> pa.RecordBatch:
    chance = Chance(seed, numbers)
    columns = [
        pa.array(numbers * (_MOST_PAYMENTS + 1) + turns + 1),
        pa.array(numbers + 1),
        words([method for method, _ in METHODS], chance.choice("method", [weight for _, weight in METHODS])),
        pa.array(_amounts_cents(seed, numbers, courses, turns)),
        words(list(STATUSES), _statuses()[courses, turns]),
        pa.array(_times_ms(chance, numbers, turns)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PAYMENT_SCHEMA)


def _statuses() -> Integers:
    """The statuses of all courses as a table, padded to the same length."""
    table = np.zeros((len(COURSES), _MOST_PAYMENTS), dtype=np.int64)
    for place, course in enumerate(COURSES):
        table[place, : len(course.statuses)] = course.statuses
    return table


def _amounts_cents(seed: int, numbers: Integers, courses: Integers, turns: Integers) -> Integers:
    """The whole amount, or a part of it; the cents that cannot be divided are in the first part."""
    amounts = order_amounts_cents(seed, numbers)
    parts = np.array([len(course.statuses) if course.is_split else 1 for course in COURSES], dtype=np.int64)[courses]
    share = amounts // parts
    return np.where((parts > 1) & (turns > 0), share, amounts - share * (parts - 1))


def _times_ms(chance: Chance, numbers: Integers, turns: Integers) -> Integers:
    """Soon after the order, or days late; each further payment up to an hour after the one before."""
    is_late = chance.choice("late", _LATE_WEIGHTS) == 1
    delay = np.where(is_late, chance.below("delay", _LATE_MS), chance.below("delay", _SOON_MS))
    return order_times_ms(chance, numbers) + 1 + delay + turns * (1 + chance.below("next", _NEXT_MS))
