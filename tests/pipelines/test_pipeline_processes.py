"""`eagleray pipeline` as people run it: processes of their own, against a cluster that runs in another."""

import json

import pytest

from eagleray.pipelines.datasets import expected_totals
from tests.support.cli_processes import Machine

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

JOB = """
name = "large-orders"
checkpoint = "checkpoint"

[source]
topics = ["orders"]
value_schema = "order_id BIGINT, amount_cents BIGINT"

[transform]
function = "shop_jobs:with_digits"

[sink]
topic = "out"
key = "order_id"
"""
MODULE = """
from pyspark.sql import functions as F


@F.udf("int")
def digits(amount_cents):
    return len(str(amount_cents))


def with_digits(orders):
    return orders.withColumn("digits", digits("amount_cents"))
"""


@pytest.fixture
def machine(java):
    machine = Machine()
    yield machine
    machine.close()


def test_orders_are_generated_and_a_job_file_run_on_them(machine, tmp_path):
    machine.start("--layout", "colocated", "--leaders", 1)
    generated = machine.json("pipeline", "generate", "--topic", "orders", "--rows", 2_000, "--seed", 3)
    assert generated["records"] == 2_000
    machine.run("topic", "create", "out", "--partitions", 2)
    (tmp_path / "shop_jobs.py").write_text(MODULE)
    (tmp_path / "job.toml").write_text(JOB)

    printed = machine.run("pipeline", "run", tmp_path / "job.toml", "--json")

    batches = [json.loads(line) for line in printed.splitlines()]
    assert sum(batch["rows_in"] for batch in batches) == sum(batch["rows_out"] for batch in batches) == 2_000
    written = [json.loads(line) for line in machine.run("consume", "out", "--max", 2_000).splitlines()]
    assert sum(row["amount_cents"] for row in written) == expected_totals(3, 2_000).amount_cents
    assert all(row["digits"] == len(str(row["amount_cents"])) for row in written)
