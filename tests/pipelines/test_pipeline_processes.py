"""`eagleray pipeline` as people run it: processes of their own, against a cluster that runs in another."""

import json

import pytest

from eagleray.pipelines.datasets import expected_totals
from tests.support.cli_cluster import run_process
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
def idle(java):
    """A machine on which no cluster was started."""
    machine = Machine()
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def machine(java):
    """A machine with a cluster; each test has topics of its own."""
    machine = Machine()
    try:
        machine.start("--layout", "colocated", "--leaders", 1)
        yield machine
    finally:
        machine.close()


def test_orders_are_generated_and_a_job_file_run_on_them(machine, tmp_path):
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


SQL_JOB = """
name = "cents"
checkpoint = "checkpoint"

[source]
topics = ["{topic}"]
value_schema = "order_id BIGINT, amount_cents BIGINT"

[transform]
sql = "{sql}"

[sink]
topic = "cents"
"""
RIGHT = "SELECT order_id, amount_cents FROM input"


class Jobs:
    """Runs job files that fail, and returns the one line that is said."""

    def __init__(self, machine, folder):
        self._machine = machine
        self._path = folder / "job.toml"

    def run(self, *options, topic="payments", sql=RIGHT):
        self._path.write_text(SQL_JOB.format(topic=topic, sql=sql))
        return run_process("pipeline", "run", self._path, *options, environment=self._machine.environment)

    def complaint(self, *options, **job):
        ended = self.run(*options, **job)
        said = ended.stderr.decode() if isinstance(ended.stderr, bytes) else ended.stderr
        assert (ended.returncode, said.count("\n")) == (1, 1), said
        return said


def test_job_is_checked_without_a_cluster(idle, tmp_path):
    nowhere = Jobs(idle, tmp_path).run("--check")
    assert nowhere.returncode == 0, nowhere.stderr
    assert "its topics were not checked: " in str(nowhere.stderr)
    assert "Start one with `eagleray start" in str(nowhere.stderr)


def test_error_in_a_job_is_told_in_one_line(machine, tmp_path):
    jobs = Jobs(machine, tmp_path)
    machine.run("topic", "create", "payments")
    machine.run("topic", "create", "cents")
    machine.run("produce", "payments", stdin=b'{"order_id": 1, "amount_cents": 0}\n')
    assert "its topics exist" in str(jobs.run("--check").stderr)
    for options in ((), ("--check",)):
        missing = jobs.complaint(*options, topic="payment")
        assert "subscribe names payment, which the cluster does not have. Did you mean payments by payment?" in missing
    assert "cannot be resolved. Did you mean one of" in jobs.complaint(
        "--check", sql="SELECT cents AS value FROM input"
    )

    failed = jobs.complaint(sql="SELECT cast(1 / amount_cents AS STRING) AS value FROM input")
    assert failed.startswith("error: [DIVIDE_BY_ZERO] Division by zero.")
    log = failed.rpartition("(Spark's log is ")[2].rstrip(")\n")
    with open(log, encoding="utf-8") as file:
        written = file.read()
    assert " WARN " in written, "what Spark has logged"
    assert "DIVIDE_BY_ZERO" in written
    assert "at org.apache.spark.sql.execution.streaming" in written, "the trace in Java"
