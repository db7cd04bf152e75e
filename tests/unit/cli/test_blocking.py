"""How what holds readers back is printed."""

import pytest

from eagleray.broker.transactions.origin import Origin
from eagleray.cli.blocking import origin_text


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (Origin(), "-"),
        (Origin("10.0.0.3", "till-7"), "10.0.0.3, client till-7"),
        (Origin("10.0.0.3", ray_job="01000000", ray_task="Loader"), "10.0.0.3, Ray job 01000000, in Loader"),
        (Origin(spark_application="app-1", spark_query="7ab2", spark_batch=0), "Spark app-1, query 7ab2, batch 0"),
    ],
)
def test_origin_is_said_as_far_as_it_is_known(origin, text):
    assert origin_text(origin) == text
