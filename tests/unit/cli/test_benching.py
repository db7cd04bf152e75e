"""`eagleray bench`."""

import json

import pytest
from rich.console import Console

from eagleray.cli.bench_load import Load, Report, percentile
from eagleray.cli.benching import _progress
from tests.support.cli_cluster import invoke, succeed


def bench(topic, *options):
    result = succeed("bench", "txn", "--topic", topic, "--producers", 4, "--seconds", 0.5, "--json", *options)
    return json.loads(result.stdout)


def committed(topic):
    return len(succeed("consume", topic, "--timeout", 1, "--format", "{value}\\n").stdout.splitlines())


def test_closed_loop_counts_what_was_committed(topic):
    report = bench(topic, "--records", 2, "--size", 10)
    assert report["transactions"] > 0
    assert committed(topic) == 2 * report["transactions"]
    assert 0 < report["p50_ms"] <= report["p99_ms"] <= report["max_ms"]
    assert (report["aborted"], report["missed"]) == (0, 0)


def test_offered_rate_is_not_exceeded(topic):
    report = bench(topic, "--rate", 40)
    assert 0 < report["transactions"] <= 20
    assert committed(topic) == report["transactions"]


def test_arrivals_that_no_producer_was_free_for_are_missed(topic):
    assert bench(topic, "--rate", 1_000_000)["missed"] > 0


@pytest.mark.parametrize("rate", [(), ("--rate", 500)])
def test_count_is_not_exceeded(topic, rate):
    report = bench(topic, "--seconds", 60, "--transactions", 7, *rate)
    assert (report["transactions"], report["missed"]) == (7, 0)
    assert committed(topic) == 7


@pytest.mark.usefixtures("cluster")
def test_topic_that_the_bench_made_goes_with_it():
    assert bench("made-for-it", "--partitions", 3)["transactions"] > 0
    assert "made-for-it" not in succeed("topic", "list").stdout


def ids():
    return {row["transactional_id"] for row in json.loads(succeed("txn", "list", "--json").stdout)}


def test_transactional_ids_of_the_bench_are_forgotten(topic):
    before = ids()
    assert bench(topic, "--producers", 7)["transactions"] > 0
    assert ids() == before


def test_producers_of_others_are_not_fenced_by_the_bench(topic, cluster):
    async def init(session):
        async with session.cluster.producer(transactional_id=f"{topic}-0"):
            return await session.cluster.admin.describe_transaction(f"{topic}-0")

    before = cluster.run(init)
    bench(topic)
    after = json.loads(succeed("txn", "describe", f"{topic}-0", "--json").stdout)
    assert after["epoch"] == before.producer.epoch


def test_topic_that_was_there_stays(topic):
    bench(topic)
    assert topic in succeed("topic", "list").stdout


def test_closing_table_is_for_people(topic):
    shown = succeed("bench", "txn", "--topic", topic, "--producers", 2, "--seconds", 0.2).stdout
    assert "transactions_per_second" in shown


def test_no_producers_is_a_usage_error():
    assert invoke("bench", "txn", "--producers", 0).exit_code == 2


def test_percentiles():
    ordered = [float(number) for number in range(1, 101)]
    assert (percentile(ordered, 0.5), percentile(ordered, 0.99), percentile(ordered, 1.0)) == (51.0, 100.0, 100.0)
    assert percentile([], 0.5) == 0.0


def test_progress_shows_rate_and_percentiles():
    load = Load(topic="bench", seconds=10)
    report = Report(
        producers=5,
        seconds=5.0,
        transactions=6170,
        transactions_per_second=1234.0,
        records_per_second=1234.0,
        p50_ms=1.5,
        p99_ms=9.25,
        max_ms=12.0,
        aborted=3,
        missed=0,
    )
    with (console := Console(width=160)).capture() as shown:
        console.print(_progress(report, load))
    for part in ("5/10 s", "1,234 transactions/s", "p50 1.5 ms", "p99 9.2 ms", "aborted 3"):
        assert part in shown.get()
