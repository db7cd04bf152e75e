"""The load test: both kinds of drivers at once, counted to the last row."""

import msgspec
import pytest

from eagleray.pipelines.loadtest.plan import LoadPlan
from eagleray.pipelines.loadtest.plots import draw
from eagleray.pipelines.loadtest.report import LoadReport
from eagleray.pipelines.loadtest.running import run_load_test
from tests.support.clusters import fresh

pytestmark = pytest.mark.xdist_group("spark")


def test_every_row_that_was_committed_is_found(cluster, spark, tmp_path):
    began = []
    plan = LoadPlan(
        topic=fresh("load"),
        seconds=60,
        partitions=2,
        size=50,
        spark_rows=700,
        spark_tasks=2,
        spark_jobs=2,
        ray_tasks=2,
        producers=3,
        records=2,
        rate=0,
        transactions=200,
    )
    report = run_load_test(cluster, spark, plan, lambda: began.append(True))

    assert began == [True]
    assert report.is_exact
    by_kind = {kind.kind: kind for kind in report.kinds}
    assert (by_kind["spark"].transactions, by_kind["spark"].rows) == (2, 1_400)
    assert (by_kind["ray"].transactions, by_kind["ray"].rows) == (200, 400)
    assert [driver.errors for driver in report.drivers] == [0, 0, 0]

    draw(report, str(tmp_path / "load.png"))
    assert (tmp_path / "load.png").read_bytes().startswith(b"\x89PNG")
    assert msgspec.json.decode(msgspec.json.encode(report), type=LoadReport) == report
