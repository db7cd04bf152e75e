"""Batches that may have been written before, and of which the cluster cannot tell whether they were."""

import pytest

from eagleray.client.producer.branches import Remembered
from eagleray.pipelines.sink import transaction
from eagleray.pipelines.sink.checkpoint_check import CheckpointCheck, CheckpointMismatch
from eagleray.pipelines.sink.task import write_branch
from eagleray.pipelines.sink.transaction_name import name_in_stream
from tests.support.clusters import until
from tests.support.pipelines_world import rows, sink_options

HOUR_MS = 3_600_000
MEMORY_MS = 168 * HOUR_MS
NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000


def batch(number):
    return name_in_stream("spark", "query", number)


def require(number, committed, *, age_ms=0, memory_ms=MEMORY_MS, is_readable=True):
    planned_ms = NOW_MS - age_ms if is_readable else None
    remembered = Remembered(None if committed is None else batch(committed).tag, memory_ms)
    CheckpointCheck(number, lambda: planned_ms, NOW_MS).require(batch(number), remembered)


# The rule


@pytest.mark.parametrize(("number", "committed"), [(0, None), (17, None), (1, 0), (17, 16), (17, 17), (0, 0), (17, 12)])
def test_batch_is_new_or_the_last_one_again(number, committed):
    require(number, committed)


@pytest.mark.parametrize(("number", "committed"), [(16, 17), (0, 1), (0, 400)])
def test_checkpoint_was_set_back(number, committed):
    with pytest.raises(CheckpointMismatch, match=rf"Batch {number} comes after batch {committed} .*was set back"):
        require(number, committed)


def test_age_has_no_say_where_the_cluster_remembers_the_query():
    require(17, 17, age_ms=100 * MEMORY_MS)
    require(17, 16, age_ms=100 * MEMORY_MS, is_readable=False)


@pytest.mark.parametrize("number", [0, 17])
def test_batch_could_have_been_forgotten(number):
    require(number, None, age_ms=151 * HOUR_MS)
    with pytest.raises(
        CheckpointMismatch, match=rf"batch {number} was planned 152 hours ago.*168 hours after the last"
    ):
        require(number, None, age_ms=152 * HOUR_MS)


def test_batch_of_unknown_age_could_have_been_forgotten_unless_it_is_the_first():
    require(0, None, is_readable=False)
    with pytest.raises(CheckpointMismatch, match=r"batch 1 may be of any age.*failOnCheckpointMismatch to false"):
        require(1, None, is_readable=False)


def test_tags_that_are_none_of_the_series_tell_nothing():
    check = CheckpointCheck(3, lambda: None, NOW_MS)
    check.require(batch(3), None)
    with pytest.raises(CheckpointMismatch):
        check.require(batch(3), Remembered("job", MEMORY_MS))


# With a coordinator


def task(here, number, *values, **options):
    return write_branch(rows(*values), batch(number), 0, sink_options(**options), here)


def run(here, number, *values, planned_ms=NOW_MS, **options):
    """Run a batch as Spark does."""
    check = CheckpointCheck(number, lambda: planned_ms, NOW_MS)
    begins_anew = sink_options(**options).begins_anew
    written = [task(here, number, *values, **options)]
    transaction.commit(
        here.cluster,
        written,
        timeout_ms=TIMEOUT_MS,
        check=None if begins_anew else check,
        begins_anew=begins_anew,
    )


def until_committed(here, *values):
    until(lambda: sorted(here.committed("copy")) == sorted(values), f"{values} are visible", 20)


@pytest.mark.parametrize("values", [("a2",), ()])
def test_checkpoint_that_was_set_back_stops_the_query(here, values):
    for number in range(3):
        run(here, number, f"a{number}")
    with pytest.raises(CheckpointMismatch, match="Batch 1 comes after batch 2"):
        run(here, 1, *values)
    run(here, 2, "a2")
    run(here, 3, "a3")
    until_committed(here, "a0", "a1", "a2", "a3")


@pytest.mark.parametrize("values", [("a1",), ()])
def test_checkpoint_that_was_set_back_is_followed_where_the_option_says_so(here, values):
    for number in range(3):
        run(here, number, f"a{number}")
    run(here, 1, *values, failOnCheckpointMismatch="false")
    run(here, 1, *values, failOnCheckpointMismatch="false")
    run(here, 2, "a2", failOnCheckpointMismatch="false")
    run(here, 3, "a3")
    until_committed(here, "a0", "a1", "a2", *values, "a2", "a3")


@pytest.mark.parametrize("values", [("a5",), ()])
def test_batch_that_could_have_been_forgotten_stops_the_query_and_is_aborted(here, values):
    name = batch(5)
    with pytest.raises(CheckpointMismatch, match="may have been committed and forgotten"):
        run(here, 5, *values, planned_ms=NOW_MS - MEMORY_MS)
    transaction.abort(here.cluster, name, TIMEOUT_MS)
    assert here.committed("copy") == []
    run(here, 5, *values, failOnCheckpointMismatch="false")
    run(here, 6, "a6")
    until_committed(here, *values, "a6")


def test_query_that_has_rested_goes_on_with_a_new_batch(here):
    """The cluster has forgotten it, but not since the batch was planned."""
    run(here, 5, "a5", planned_ms=NOW_MS - HOUR_MS)
    until_committed(here, "a5")
