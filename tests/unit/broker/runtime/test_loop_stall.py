"""A loop that does not run: when that is said, and when it ends the process."""

from eagleray.broker.runtime.loop_stall import LOOK_MS, SAY_AFTER_MS, LoopStall, StallVerdict

TIMEOUT_MS = 10 * LOOK_MS
NOTHING, SAY, SAY_OVER, END = StallVerdict


def looks(stall, count, *, start_ms=0, every_ms=LOOK_MS, has_run=False, is_in_same_call=False):
    return [
        stall.look(start_ms + number * every_ms, has_run=has_run, is_in_same_call=is_in_same_call)
        for number in range(count)
    ]


def test_loop_that_runs_is_never_mentioned():
    assert set(looks(LoopStall(TIMEOUT_MS), 50, has_run=True)) == {NOTHING}


def test_stall_is_said_once_and_so_is_its_end():
    stall = LoopStall(TIMEOUT_MS)
    said = looks(stall, 30)
    assert said.count(SAY) == 1
    assert said.index(SAY) * LOOK_MS == SAY_AFTER_MS
    assert END not in said, "it is busy, and comes to an end"
    assert looks(stall, 2, start_ms=30 * LOOK_MS, has_run=True) == [SAY_OVER, NOTHING]


def test_call_of_the_disk_that_does_not_return_ends_the_process():
    verdicts = looks(LoopStall(TIMEOUT_MS), 11, is_in_same_call=True)
    assert verdicts.index(END) * LOOK_MS == TIMEOUT_MS


def test_many_calls_of_a_slow_disk_end_nothing():
    stall = LoopStall(TIMEOUT_MS)
    for number in range(20):
        verdicts = looks(stall, 5, start_ms=5 * number * LOOK_MS, is_in_same_call=True)
        assert END not in verdicts
        stall.look((5 * number + 5) * LOOK_MS, has_run=False, is_in_same_call=False)


def test_process_that_was_stopped_has_not_stalled():
    stall = LoopStall(TIMEOUT_MS)
    assert looks(stall, 3, is_in_same_call=True, every_ms=100 * TIMEOUT_MS) == [NOTHING, NOTHING, SAY]
    assert stall.in_call_ms < TIMEOUT_MS
