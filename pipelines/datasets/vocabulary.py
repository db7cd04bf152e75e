"""The words that orders and payments are made of, and how often each comes. None of them needs escaping in JSON."""

from __future__ import annotations

from typing import Final

import msgspec


class Country(msgspec.Struct, frozen=True):
    """Where a customer lives, what is paid with there, and how many of a hundred customers live there."""

    code: str
    currency: str
    weight: int


class Category(msgspec.Struct, frozen=True):
    """What kind of thing is sold, what the cheapest costs, and how many of a hundred orders are for it."""

    name: str
    cheapest_cents: int
    weight: int


COUNTRIES: Final = (
    Country("US", "USD", 28),
    Country("DE", "EUR", 16),
    Country("GB", "GBP", 13),
    Country("FR", "EUR", 11),
    Country("BR", "BRL", 9),
    Country("PL", "PLN", 7),
    Country("CA", "CAD", 6),
    Country("SE", "SEK", 4),
    Country("CH", "CHF", 3),
    Country("NL", "EUR", 3),
)
CATEGORIES: Final = (
    Category("groceries", 89, 26),
    Category("books", 499, 17),
    Category("clothing", 999, 16),
    Category("toys", 699, 12),
    Category("garden", 1_299, 10),
    Category("sports", 1_499, 9),
    Category("furniture", 4_999, 5),
    Category("electronics", 7_999, 5),
)
METHODS: Final = (("card", 58), ("wallet", 22), ("transfer", 14), ("invoice", 6))
STATUSES: Final = ("authorised", "captured", "refunded", "failed")
TIERS: Final = (("standard", 290, 60), ("plus", 210, 30), ("premium", 140, 10))
"""What merchants agreed to: a name, the fee in hundredths of a percent, and how many of a hundred have it."""

CUSTOMERS: Final = 50_000
MERCHANTS: Final = 500
