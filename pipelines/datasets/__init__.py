"""A data set that the project generates: orders and payments, from a thousand to ten million of them.

    from eagleray.pipelines.datasets import expected_totals, orders

    orders(seed=7, start=0, stop=1_000).to_pandas()
    expected_totals(seed=7, size=1_000).paid_cents

The same seed gives the same rows, on every machine and in slices of any length.
"""

from eagleray.pipelines.datasets.json_records import DATASETS, Dataset, to_records
from eagleray.pipelines.datasets.merchants import MERCHANT_SCHEMA, merchants
from eagleray.pipelines.datasets.orders import DISORDER_MS, ORDER_DDL, ORDER_SCHEMA, orders
from eagleray.pipelines.datasets.payments import PAYMENT_DDL, PAYMENT_SCHEMA, payments
from eagleray.pipelines.datasets.totals import Totals, expected_totals

__all__ = [
    "DATASETS",
    "DISORDER_MS",
    "MERCHANT_SCHEMA",
    "ORDER_DDL",
    "ORDER_SCHEMA",
    "PAYMENT_DDL",
    "PAYMENT_SCHEMA",
    "Dataset",
    "Totals",
    "expected_totals",
    "merchants",
    "orders",
    "payments",
    "to_records",
]
