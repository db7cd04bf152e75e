"""A short torture of a group: the copy is exact, whoever joins, leaves or is killed meanwhile, or it is noticed."""

import pytest

from tests.torture.group_copier import KINDS
from tests.torture.group_torture import torture_group

SECONDS = 20


@pytest.mark.slow
def test_copy_is_exact_whichever_member_is_killed(tmp_path):
    report = torture_group(tmp_path, seconds=SECONDS, seed=15)
    assert report.is_good, report.text()
    assert report.killed.keys() == KINDS.keys(), "members of both kinds were killed"


def torture_at_the_worst(tmp_path, kind):
    """Kill one copier at its worst moment."""
    report = torture_group(tmp_path, seconds=0, seed=15, kinds=(kind,), kill_share=1)
    assert (report.killed, report.failed) == ({kind: 1}, ())
    return report


def test_copy_is_exact_although_a_member_is_killed_within_its_transaction(tmp_path):
    report = torture_at_the_worst(tmp_path, "in-transaction")
    assert report.is_good, report.text()


def test_offsets_that_are_committed_before_the_copy_are_caught_as_lost_records(tmp_path):
    report = torture_at_the_worst(tmp_path, "offsets-first")
    assert (bool(report.missing), report.too_many, report.is_good) == (True, {}, False), report.text()


def test_offsets_that_are_committed_behind_the_copy_are_caught_as_doubled_records(tmp_path):
    report = torture_at_the_worst(tmp_path, "offsets-last")
    assert (report.missing, bool(report.too_many), report.is_good) == ({}, True, False), report.text()
