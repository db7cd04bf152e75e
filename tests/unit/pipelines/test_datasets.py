"""Orders and payments: always the same, in accord with each other, and with the totals that pipelines are held to."""

import hashlib
import json
from collections import Counter, defaultdict

import pytest

from eagleray.pipelines.datasets import DATASETS, DISORDER_MS, expected_totals, merchants, orders, payments
from eagleray.pipelines.datasets import totals as totals_module
from eagleray.pipelines.datasets.merchants import fee_cents
from eagleray.pipelines.datasets.vocabulary import COUNTRIES, MERCHANTS, STATUSES

SIZE = 20_000


@pytest.fixture(scope="module")
def placed():
    return orders(7, 0, SIZE).to_pylist()


@pytest.fixture(scope="module")
def paid():
    return payments(7, 0, SIZE).to_pylist()


def test_data_set_of_a_seed_never_changes():
    """Whoever has written this data set to a topic can still check it after an upgrade."""
    digests = {
        name: hashlib.sha256(b"\n".join(dataset.records(7, 0, 1_000)["value"].to_pylist())).hexdigest()[:16]
        for name, dataset in DATASETS.items()
    }
    assert digests == {"orders": "8bf4d35e8f509e1a", "payments": "2f5e77e3c87a2c0c"}


def test_seeds_differ():
    assert orders(7, 0, 100) != orders(8, 0, 100)
    assert payments(7, 0, 100) != payments(8, 0, 100)


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4)])
def test_impossible_slice_is_refused(start, stop):
    with pytest.raises(ValueError, match="expected 0 <= start <= stop"):
        orders(7, start, stop)


def test_orders_look_like_a_shop(placed):
    assert [order["order_id"] for order in placed] == list(range(1, SIZE + 1))
    assert all(order["amount_cents"] > 0 and 1 <= order["quantity"] <= 5 for order in placed)
    assert {(order["country"], order["currency"]) for order in placed} == {
        (country.code, country.currency) for country in COUNTRIES
    }
    # A few customers place much of it.
    by_customer = sorted(Counter(order["customer_id"] for order in placed).values(), reverse=True)
    assert sum(by_customer[:500]) > SIZE // 5
    assert len(by_customer) > 5_000


def test_customers_do_not_move(placed):
    countries = defaultdict(set)
    for order in placed:
        countries[order["customer_id"]].add(order["country"])
    assert max(map(len, countries.values())) == 1


def test_disorder_is_there_and_bounded(placed):
    latest = 0
    behind = []
    for order in placed:
        behind.append(latest - order["event_time_ms"])
        latest = max(latest, order["event_time_ms"])
    assert 0 < max(behind) < DISORDER_MS


def test_kept_payments_are_the_whole_order_or_nothing(placed, paid):
    kept, attempts = Counter(), Counter()
    for payment in paid:
        attempts[payment["order_id"]] += 1
        kept[payment["order_id"]] += {"captured": 1, "refunded": -1}.get(payment["status"], 0) * payment["amount_cents"]
    assert all(kept[order["order_id"]] in (0, order["amount_cents"]) for order in placed)
    assert {attempts[order["order_id"]] for order in placed} == {0, 1, 2, 3}
    assert len({payment["payment_id"] for payment in paid}) == len(paid)
    assert {payment["status"] for payment in paid} == set(STATUSES)


def test_payments_follow_their_orders_some_of_them_late(placed, paid):
    times = {order["order_id"]: order["event_time_ms"] for order in placed}
    delays = [payment["event_time_ms"] - times[payment["order_id"]] for payment in paid]
    assert min(delays) > 0
    assert 0.01 < sum(delay > 12 * 3_600_000 for delay in delays) / len(delays) < 0.05


def test_totals_are_those_of_the_rows(placed, paid, monkeypatch):
    # Sums in plain Python are the second opinion; slices of an odd length show that nothing is lost between them.
    monkeypatch.setattr(totals_module, "_SLICE", 7_001)
    totals = expected_totals(7, SIZE)

    assert totals.orders == SIZE
    assert totals.amount_cents == sum(order["amount_cents"] for order in placed)
    by_country, by_merchant = Counter(), Counter()
    for order in placed:
        by_country[order["country"]] += order["amount_cents"]
        by_merchant[order["merchant_id"]] += order["amount_cents"]
    assert totals.amount_cents_by_country == dict(by_country)
    assert totals.amount_cents_by_merchant == dict(by_merchant)
    assert totals.orders_by_country == dict(Counter(order["country"] for order in placed))
    fees = {merchant["merchant_id"]: merchant["fee_basis_points"] for merchant in merchants(7).to_pylist()}
    assert totals.fee_cents == sum(fee_cents(order["amount_cents"], fees[order["merchant_id"]]) for order in placed)
    by_status = Counter()
    for payment in paid:
        by_status[payment["status"]] += payment["amount_cents"]
    assert (totals.captured_cents, totals.refunded_cents) == (by_status["captured"], by_status["refunded"])
    assert totals.payments == len(paid)
    assert 0 < totals.paid_orders < SIZE


def test_paid_orders_cost_what_was_kept():
    totals = expected_totals(7, SIZE)
    kept = Counter()
    for payment in payments(7, 0, SIZE).to_pylist():
        kept[payment["order_id"]] += {"captured": 1, "refunded": -1}.get(payment["status"], 0) * payment["amount_cents"]
    assert totals.paid_orders == sum(cents > 0 for cents in kept.values())
    assert totals.paid_cents == sum(kept.values())


def test_every_merchant_of_an_order_is_in_the_table(placed):
    table = {merchant["merchant_id"] for merchant in merchants(7).to_pylist()}
    assert len(table) == MERCHANTS
    assert {order["merchant_id"] for order in placed} <= table


@pytest.mark.parametrize("name", DATASETS)
def test_json_says_what_the_columns_say(name):
    dataset = DATASETS[name]
    rows = dataset.generate(3, 0, 500).to_pylist()
    records = dataset.records(3, 0, 500).to_pylist()
    assert [json.loads(record["value"]) for record in records] == rows
    assert [record["key"] for record in records] == [str(row["order_id"]).encode() for row in rows]
