"""What pipelines have to arrive at, computed straight from the data set, without records, brokers or Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from eagleray.pipelines.datasets.merchants import merchants
from eagleray.pipelines.datasets.orders import orders
from eagleray.pipelines.datasets.payments import payments

_SLICE: Final = 500_000


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the first orders of a seed, and over their payments; money is in cents, without regard to currency."""

    orders: int
    amount_cents: int
    orders_by_country: dict[str, int]
    amount_cents_by_country: dict[str, int]
    amount_cents_by_merchant: dict[int, int]
    fee_cents: int
    """What merchants owe for their orders, each fee rounded down."""

    payments: int
    captured_cents: int
    refunded_cents: int
    paid_orders: int
    """Orders of which as much was captured, and kept, as they cost."""

    @property
    def paid_cents(self) -> int:
        """What was captured and not given back."""
        return self.captured_cents - self.refunded_cents


def expected_totals(seed: int, size: int) -> Totals:
    """The totals of the first `size` orders of a seed."""
    counts: Counter[str] = Counter()
    by_country: Counter[str] = Counter()
    by_merchant: Counter[int] = Counter()
    by_status: Counter[str] = Counter()
    fees = payment_count = paid_orders = 0
    for start, stop in slices(size, _SLICE):
        placed = pa.Table.from_batches([orders(seed, start, stop)])
        paid = pa.Table.from_batches([payments(seed, start, stop)])
        counts.update(_sums(placed, "country", "order_id", "count"))
        by_country.update(_sums(placed, "country", "amount_cents"))
        by_merchant.update(_sums(placed, "merchant_id", "amount_cents"))
        by_status.update(_sums(paid, "status", "amount_cents"))
        fees += _fees(seed, placed)
        payment_count += paid.num_rows
        paid_orders += _paid_orders(placed, paid, start)
    return Totals(
        orders=size,
        amount_cents=sum(by_country.values()),
        orders_by_country=dict(counts),
        amount_cents_by_country=dict(by_country),
        amount_cents_by_merchant=dict(by_merchant),
        fee_cents=fees,
        payments=payment_count,
        captured_cents=by_status["captured"],
        refunded_cents=by_status["refunded"],
        paid_orders=paid_orders,
    )


def slices(size: int, length: int) -> Iterator[tuple[int, int]]:
    """Cut `size` rows into slices of a length; the last is as long as what is left."""
    for start in range(0, size, length):
        yield start, min(start + length, size)


def _sums(table: pa.Table, key: str, value: str, function: str = "sum") -> dict[Any, int]:
    """Sums by key in whole numbers: doubles would lose cents above 2^53."""
    grouped = table.group_by(key).aggregate([(value, function)])
    return dict(zip(grouped[key].to_pylist(), grouped[f"{value}_{function}"].to_pylist(), strict=True))


def _fees(seed: int, placed: pa.Table) -> int:
    basis_points = merchants(seed)["fee_basis_points"].to_numpy()[placed["merchant_id"].to_numpy() - 1]
    return int((placed["amount_cents"].to_numpy() * basis_points // 10_000).sum())


def _paid_orders(placed: pa.Table, paid: pa.Table, start: int) -> int:
    signs = {"captured": 1, "refunded": -1}
    kept = np.zeros(placed.num_rows, dtype=np.int64)
    for status, sign in signs.items():
        chosen = paid.filter(pa.compute.equal(paid["status"], status))
        np.add.at(kept, chosen["order_id"].to_numpy() - 1 - start, sign * chosen["amount_cents"].to_numpy())
    return int((kept == placed["amount_cents"].to_numpy()).sum())
