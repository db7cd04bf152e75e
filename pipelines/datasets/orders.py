"""Orders: row `n` of seed `s` is always the same, whichever slice it is generated in.

    batch = orders(seed=7, start=0, stop=100_000)

Money is in cents, in whole numbers. Orders come every 20 ms of event time, up to five seconds out of order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from eagleray.pipelines.datasets.randomness import Chance, Integers
from eagleray.pipelines.datasets.vocabulary import CATEGORIES, COUNTRIES, CUSTOMERS, MERCHANTS

FIRST_ORDER_MS: Final = 1_767_225_600_000
"""The beginning of 2026 in UTC, when the first order could have come."""

ORDER_EVERY_MS: Final = 20
DISORDER_MS: Final = 5_000
"""An order comes less than this before one with a later number; a watermark of this much drops nothing."""


def schema_of(ddl: str) -> pa.Schema:
    """The Arrow schema of columns in Spark's words, none of which has nulls."""
    types = {"BIGINT": pa.int64(), "STRING": pa.string()}
    columns = (column.split() for column in ddl.split(", "))
    return pa.schema([pa.field(name, types[kind], nullable=False) for name, kind in columns])


ORDER_DDL: Final = (
    "order_id BIGINT, customer_id BIGINT, merchant_id BIGINT, category STRING, country STRING, currency STRING, "
    "quantity BIGINT, amount_cents BIGINT, event_time_ms BIGINT"
)
"""The columns in Spark's words, for `from_json`."""

ORDER_SCHEMA: Final = schema_of(ORDER_DDL)

_QUANTITIES: Final = (70, 17, 7, 4, 2)


def orders(seed: int, start: int, stop: int) -> pa.RecordBatch:
    """Orders `start` to `stop` (without it) of the data set of a seed."""
    numbers = order_numbers(start, stop)
    chance = Chance(seed, numbers)
    customers = chance.skewed("customer", CUSTOMERS)
    countries = countries_of(seed, customers)
    categories = chance.choice("category", [category.weight for category in CATEGORIES])
    quantities = chance.choice("quantity", _QUANTITIES) + 1
    columns = [
        pa.array(numbers + 1),
        pa.array(customers + 1),
        pa.array(chance.skewed("merchant", MERCHANTS) + 1),
        words([category.name for category in CATEGORIES], categories),
        words([country.code for country in COUNTRIES], countries),
        words([country.currency for country in COUNTRIES], countries),
        pa.array(quantities),
        pa.array(quantities * _unit_prices(chance, categories)),
        pa.array(order_times_ms(chance, numbers)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ORDER_SCHEMA)


def order_numbers(start: int, stop: int) -> Integers:
    """The numbers of a slice; an order's id is its number and one."""
    if not 0 <= start <= stop:
        raise ValueError(f"the slice of orders is {start} to {stop}; expected 0 <= start <= stop.")
    return np.arange(start, stop, dtype=np.int64)


def order_amounts_cents(seed: int, numbers: Integers) -> Integers:
    """What orders cost, without the rest of them."""
    chance = Chance(seed, numbers)
    categories = chance.choice("category", [category.weight for category in CATEGORIES])
    return (chance.choice("quantity", _QUANTITIES) + 1) * _unit_prices(chance, categories)


def order_times_ms(chance: Chance, numbers: Integers) -> Integers:
    """When orders came."""
    return FIRST_ORDER_MS + numbers * ORDER_EVERY_MS + chance.below("disorder", DISORDER_MS)


def countries_of(seed: int, customers: Integers) -> Integers:
    """Where customers live: they do not move from one order to the next."""
    return Chance(seed, customers).choice("country of a customer", [country.weight for country in COUNTRIES])


def _unit_prices(chance: Chance, categories: Integers) -> Integers:
    """From the cheapest of a category to thirty times that, most of them cheap."""
    cheapest = np.array([category.cheapest_cents for category in CATEGORIES], dtype=np.int64)[categories]
    return cheapest + cheapest * chance.skewed("price", 2_900) // 100


def words(vocabulary: list[str], places: Integers) -> pa.Array:
    """The words at these places of a vocabulary."""
    return pa.array(vocabulary).take(pa.array(places))
