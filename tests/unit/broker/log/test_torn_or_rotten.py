"""The whole table of ADR 32: what becomes of a log in which the scan stopped too early."""

import itertools

import msgspec
import pytest

from eagleray.broker.log.torn_or_rotten import ScanEnd, Verdict, judge

CUT, FOLLOW, UNFLUSHED = Verdict.CUT, Verdict.CUT_AND_FOLLOW, Verdict.CUT_UNFLUSHED
ANEW, OFFLINE = Verdict.COPY_ANEW, Verdict.OFFLINE

START, FLUSHED, KNOWN = 0, 100, 200
STOPS = {"before what was flushed": 50, "behind what was flushed": 150, "behind what is known": 250}


def expected(*, same_boot: bool, stop: str, last: bool, behind: bool, flushes_first: bool, others: bool) -> Verdict:
    """The table, row by row, as it is printed."""
    damaged = ANEW if others else OFFLINE
    if same_boot:
        return CUT if last and stop == "behind what is known" and not behind else damaged
    if stop == "before what was flushed":
        return damaged
    if others:
        return FOLLOW
    if flushes_first:
        return OFFLINE if behind else CUT
    return UNFLUSHED


BOTH = (True, False)
CASES = list(itertools.product(BOTH, STOPS, BOTH, BOTH, BOTH, BOTH))


def end_of(same_boot, stop, last, behind, flushes_first, others) -> ScanEnd:
    return ScanEnd(
        stop_offset=STOPS[stop],
        recovery_point=FLUSHED,
        known_end=KNOWN,
        log_start_offset=START,
        is_same_boot=same_boot,
        is_in_last_segment=last,
        has_valid_batch_behind=behind,
        flushes_first=flushes_first,
        others_in_sync=others,
    )


@pytest.mark.parametrize(("same_boot", "stop", "last", "behind", "flushes_first", "others"), CASES)
def test_every_cell_of_the_table(same_boot, stop, last, behind, flushes_first, others):
    wanted = expected(
        same_boot=same_boot, stop=stop, last=last, behind=behind, flushes_first=flushes_first, others=others
    )
    assert judge(end_of(same_boot, stop, last, behind, flushes_first, others)) is wanted


@pytest.mark.parametrize(("same_boot", "stop", "last", "behind", "flushes_first", "others"), CASES)
def test_nothing_passes_for_torn_where_a_bookmark_of_this_boot_is_damaged(
    same_boot, stop, last, behind, flushes_first, others
):
    end = end_of(same_boot, stop, last, behind, flushes_first, others)
    verdict = judge(msgspec.structs.replace(end, is_known_end_certain=False))
    assert verdict is ((ANEW if others else OFFLINE) if same_boot else judge(end))


def test_table_has_every_verdict():
    assert {judge(end_of(*case)) for case in CASES} == set(Verdict)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_cut_below_what_was_flushed(case):
    end = end_of(*case)
    assert not (judge(end).cuts and end.stop_offset < end.recovery_point)


@pytest.mark.parametrize("same_boot", BOTH)
def test_what_was_deleted_is_not_missed(same_boot):
    """A log of which everything was deleted may end before its start."""
    end = end_of(same_boot, "before what was flushed", True, False, True, False)
    assert judge(end) is OFFLINE
    assert judge(msgspec.structs.replace(end, log_start_offset=KNOWN)) is CUT


@pytest.mark.parametrize("offset", range(FLUSHED - 1, FLUSHED + 2))
def test_flushed_offset_is_the_border(offset):
    end = msgspec.structs.replace(
        end_of(False, "before what was flushed", True, True, False, False), stop_offset=offset
    )
    assert judge(end) is (OFFLINE if offset < FLUSHED else UNFLUSHED)
