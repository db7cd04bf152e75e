"""Merchants: the small table that streams of orders are joined with."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from eagleray.pipelines.datasets.orders import schema_of, words
from eagleray.pipelines.datasets.randomness import Chance
from eagleray.pipelines.datasets.vocabulary import COUNTRIES, MERCHANTS, TIERS

MERCHANT_SCHEMA: Final = schema_of(
    "merchant_id BIGINT, merchant_name STRING, merchant_country STRING, tier STRING, fee_basis_points BIGINT"
)

_FIRST_NAMES: Final = ("Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Harbour", "Iris", "Juniper")
_LAST_NAMES: Final = ("Supply", "Trading", "Market", "Works", "Store", "Outlet", "House", "Goods")


def merchants(seed: int) -> pa.RecordBatch:
    """Every merchant that an order of this seed can name."""
    numbers = np.arange(MERCHANTS, dtype=np.int64)
    chance = Chance(seed, numbers)
    tiers = chance.choice("tier", [weight for _, _, weight in TIERS])
    fees = np.array([fee for _, fee, _ in TIERS], dtype=np.int64)[tiers]
    countries = chance.choice("country of a merchant", [country.weight for country in COUNTRIES])
    columns = [
        pa.array(numbers + 1),
        pa.array([_name(number) for number in range(MERCHANTS)]),
        words([country.code for country in COUNTRIES], countries),
        words([tier for tier, _, _ in TIERS], tiers),
        pa.array(fees),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MERCHANT_SCHEMA)


def _name(number: int) -> str:
    first = _FIRST_NAMES[number % len(_FIRST_NAMES)]
    last = _LAST_NAMES[number // len(_FIRST_NAMES) % len(_LAST_NAMES)]
    return f"{first} {last} {number + 1}"


def fee_cents(amount_cents: int, fee_basis_points: int) -> int:
    """What a merchant pays for an order, rounded down to the cent, as the pipelines compute it."""
    return amount_cents * fee_basis_points // 10_000
