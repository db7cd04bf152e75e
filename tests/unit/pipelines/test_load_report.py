"""The figures of a load test, from samples whose figures are known."""

import pytest

from eagleray.pipelines.jobs import InvalidJob
from eagleray.pipelines.loadtest.plan import LoadPlan
from eagleray.pipelines.loadtest.plots import draw
from eagleray.pipelines.loadtest.report import Driven, LoadReport, Sample, bins_of, report_of, together

# A hundred transactions of two rows, one each tenth of a second; the n-th took n milliseconds.
STEADY = Driven(name="a", kind="ray", samples=[Sample(number / 10, number, 2) for number in range(1, 101)], missed=3)
# A job of 800 rows that took two seconds.
JOB = Driven(name="jobs", kind="spark", samples=[Sample(2.2, 2_000, 800)], errors=1, first_error="lost an executor")


def test_figures_of_a_driver():
    report = report_of(STEADY, 10)
    assert (report.transactions, report.rows) == (100, 200)
    assert (report.transactions_per_second, report.rows_per_second) == (10, 20)
    assert (report.p50_ms, report.p99_ms, report.max_ms) == (50, 99, 100)
    assert report.missed == 3
    assert report.quantiles_ms["0.9"] == 90


def test_driver_that_took_longer_than_planned_is_measured_by_what_it_took():
    assert report_of(JOB, 1).rows_per_second == pytest.approx(800 / 2.2, abs=0.1)


def test_drivers_of_a_kind_are_one():
    report = together("ray", [STEADY, STEADY], 10)
    assert (report.transactions, report.missed, report.p50_ms) == (200, 6, 50)


def test_rows_count_over_the_time_that_their_transaction_took():
    bins = bins_of(JOB.samples)
    assert [each.from_s for each in bins] == [0, 0.5, 1, 1.5, 2]
    assert [each.rows for each in bins] == [160] * 5
    assert [each.transactions for each in bins] == [0, 0, 0, 0, 1]
    assert (bins[0].p50_ms, bins[4].p50_ms) == (None, 2_000)


def test_driver_without_a_transaction_has_figures():
    report = report_of(Driven(name="none", kind="ray", samples=[], errors=2), 10)
    assert (report.transactions, report.p99_ms, report.bins, report.errors) == (0, 0, [], 2)


@pytest.mark.parametrize("driven", [[STEADY, JOB], [STEADY], [JOB], [Driven(name="none", kind="ray", samples=[])]])
def test_plots_are_drawn_whichever_drivers_took_part(tmp_path, driven):
    kinds = sorted({each.kind for each in driven})
    report = LoadReport(
        plan=LoadPlan(topic="load", seconds=10),
        started_at="2026-01-01T00:00:00+00:00",
        seconds=10.2,
        drivers=[report_of(each, 10) for each in driven],
        kinds=[together(kind, [each for each in driven if each.kind == kind], 10) for kind in kinds],
        rows_committed=1_000,
        rows_found=1_000,
    )
    draw(report, str(tmp_path / "load.png"))
    assert (tmp_path / "load.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"spark_rows": 0, "ray_tasks": 0}, "nothing would drive the broker"),
        ({"seconds": 0}, "seconds of the load test is 0; expected more than 0"),
        ({"producers": -1}, "producers of the load test is -1"),
        ({"rate": -5}, "rate of the load test is -5; expected 0 or more"),
    ],
)
def test_plan_that_makes_no_sense_is_refused(changes, refusal):
    with pytest.raises(InvalidJob, match=refusal):
        LoadPlan(topic="load", **changes)
