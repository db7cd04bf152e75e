"""The time of day of a node: which moves of a wall clock it follows, and which it puts in doubt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.runtime.clock_watch import SLACK_MS, ClockLimits, ClockWatch

WALL_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
LIMITS = ClockLimits(HOUR_MS, DAY_MS)


class Machine:
    """A machine with two clocks, whose node looks at them when a test says so."""

    def __init__(self):
        self.steady_ms, self.wall_ms, self.boot = 5_000, WALL_MS, 1
        self.watch = self.begin()

    def begin(self, note=None):
        self.watch = ClockWatch(LIMITS, self.wall_ms, self.steady_ms, boot_id=str(self.boot), note=note)
        return self.watch

    def passes(self, milliseconds):
        self.steady_ms += milliseconds
        self.wall_ms += milliseconds

    def jumps(self, milliseconds):
        self.wall_ms += milliseconds

    def look(self):
        return self.watch.looked(self.wall_ms, self.steady_ms)

    def accept(self):
        return self.watch.accept(self.wall_ms, self.steady_ms)

    def restart(self, *, down_ms=1_000, boots=False):
        """End the process, and begin another one on what it has noted last."""
        note = self.watch.note(self.steady_ms)
        self.passes(down_ms)
        if boots:
            self.boot += 1
            self.steady_ms = 3_000
        self.begin(note)

    @property
    def time_ms(self):
        return self.watch.time_ms(self.steady_ms)

    @property
    def running_ms(self):
        return self.watch.running_ms(self.steady_ms)


@pytest.fixture
def machine():
    return Machine()


def test_clocks_that_agree_leave_the_time_alone(machine):
    machine.passes(40 * DAY_MS)
    assert machine.look() == 0
    assert machine.time_ms == machine.running_ms == machine.wall_ms
    assert machine.watch.may_expire


def test_correction_is_followed_and_what_runs_does_not_notice(machine):
    machine.jumps(50 * MINUTE_MS)
    before_ms = machine.running_ms
    assert machine.look() == 50 * MINUTE_MS
    assert machine.time_ms == machine.wall_ms
    assert machine.running_ms == before_ms
    assert machine.watch.set_by_ms == 50 * MINUTE_MS
    assert machine.watch.steady_ms(machine.running_ms) == machine.steady_ms


def test_time_moves_only_when_it_is_looked_at(machine):
    machine.jumps(WEEK_MS)
    assert machine.time_ms == machine.wall_ms - WEEK_MS


def test_clocks_that_were_read_at_different_moments_do_not_move_the_time(machine):
    machine.jumps(SLACK_MS)
    assert machine.look() == 0
    machine.jumps(1)
    assert machine.look() == SLACK_MS + 1


@pytest.mark.parametrize("jump_ms", [WEEK_MS, -WEEK_MS, HOUR_MS + 1, -HOUR_MS - 1])
def test_jump_is_not_followed_and_nothing_expires(machine, jump_ms):
    machine.jumps(jump_ms)
    assert machine.look() == 0
    assert machine.time_ms == machine.wall_ms - jump_ms
    assert not machine.watch.may_expire
    assert machine.watch.doubt.ahead_ms == jump_ms
    machine.passes(DAY_MS - 1)
    assert machine.look() == 0
    assert machine.watch.accepted_in_ms(machine.steady_ms) == 1
    assert machine.time_ms == machine.wall_ms - jump_ms


@pytest.mark.parametrize("jump_ms", [WEEK_MS, -WEEK_MS])
def test_jump_is_accepted_after_a_day(machine, jump_ms):
    machine.jumps(jump_ms)
    machine.look()
    machine.passes(DAY_MS)
    assert machine.look() == jump_ms
    assert machine.watch.may_expire
    assert machine.time_ms == machine.wall_ms
    assert machine.running_ms == machine.wall_ms - jump_ms
    assert machine.look() == 0


@pytest.mark.parametrize("jump_ms", [WEEK_MS, -WEEK_MS])
def test_jump_is_accepted_by_a_person_at_once(machine, jump_ms):
    machine.jumps(jump_ms)
    machine.look()
    assert machine.accept() == jump_ms
    assert machine.watch.may_expire
    assert machine.time_ms == machine.wall_ms
    assert machine.look() == 0


def test_clock_that_comes_back_is_trusted_at_once(machine):
    machine.jumps(WEEK_MS)
    machine.look()
    machine.passes(HOUR_MS)
    machine.jumps(-WEEK_MS)
    assert machine.look() == 0
    assert machine.watch.may_expire
    assert machine.time_ms == machine.wall_ms


def test_clock_that_jumps_again_begins_the_day_anew(machine):
    machine.jumps(WEEK_MS)
    machine.look()
    machine.passes(DAY_MS - 1)
    machine.jumps(2 * HOUR_MS)
    machine.look()
    machine.passes(DAY_MS - 1)
    assert machine.look() == 0
    machine.passes(1)
    assert machine.look() == WEEK_MS + 2 * HOUR_MS


def test_many_small_moves_are_a_jump(machine):
    for _ in range(6):
        machine.jumps(10 * MINUTE_MS)
        machine.passes(MINUTE_MS)
        assert machine.look() == 10 * MINUTE_MS
    machine.jumps(10 * MINUTE_MS)
    assert machine.look() == 0
    assert not machine.watch.may_expire


def test_clock_that_drifts_for_long_is_followed(machine):
    for _ in range(100):
        machine.jumps(40 * MINUTE_MS)
        machine.passes(DAY_MS)
        machine.look()
        machine.passes(MINUTE_MS)
        machine.look()
        assert machine.watch.may_expire
        assert machine.time_ms == machine.wall_ms


def test_machine_that_slept_has_not_jumped(machine):
    machine.passes(30 * DAY_MS)
    assert machine.look() == 0
    assert machine.watch.may_expire


# Restarts


def test_restart_in_the_same_boot_forgets_no_jump(machine):
    machine.jumps(WEEK_MS)
    machine.look()
    machine.passes(HOUR_MS)
    machine.restart()
    assert machine.time_ms == machine.running_ms == machine.wall_ms - WEEK_MS
    assert not machine.watch.may_expire
    machine.passes(23 * HOUR_MS)
    assert machine.look() == WEEK_MS


@pytest.mark.parametrize("jump_ms", [WEEK_MS, -WEEK_MS])
def test_jump_while_no_process_runs_is_seen_in_the_same_boot(machine, jump_ms):
    machine.jumps(jump_ms)
    machine.restart()
    assert machine.time_ms == machine.wall_ms - jump_ms
    assert not machine.watch.may_expire


def test_small_moves_are_a_jump_across_restarts_too(machine):
    for _ in range(7):
        machine.jumps(10 * MINUTE_MS)
        machine.restart()
    assert not machine.watch.may_expire


def test_long_stop_within_a_boot_is_no_jump(machine):
    machine.restart(down_ms=WEEK_MS)
    assert machine.watch.may_expire
    assert machine.time_ms == machine.wall_ms


def test_clock_that_is_behind_after_a_boot_is_in_doubt(machine):
    machine.jumps(-WEEK_MS)
    noted_ms = machine.time_ms
    machine.restart(down_ms=2_000, boots=True)
    assert not machine.watch.may_expire
    assert machine.time_ms == noted_ms
    machine.jumps(WEEK_MS)
    assert machine.look() == 2_000
    assert machine.watch.may_expire


def test_clock_that_is_ahead_after_a_boot_is_taken_for_a_long_stop(machine):
    machine.jumps(WEEK_MS)
    machine.restart(boots=True)
    assert machine.watch.may_expire
    assert machine.time_ms == machine.wall_ms


def test_clock_that_was_ahead_before_a_boot_stays_in_doubt(machine):
    machine.jumps(WEEK_MS)
    machine.look()
    machine.restart(boots=True)
    assert not machine.watch.may_expire
    assert machine.time_ms < machine.wall_ms - WEEK_MS + HOUR_MS


def test_note_of_a_steady_clock_that_was_further_is_one_of_another_boot(machine):
    note = machine.watch.note(machine.steady_ms + 1)
    machine.jumps(WEEK_MS)
    assert machine.begin(note).may_expire
    assert machine.time_ms == machine.wall_ms


def test_machine_that_does_not_say_in_which_boot_it_is_has_booted(machine):
    note = machine.watch.note(machine.steady_ms)
    machine.jumps(WEEK_MS)
    watch = ClockWatch(LIMITS, machine.wall_ms, machine.steady_ms, note=note)
    assert watch.time_ms(machine.steady_ms) == machine.wall_ms


_STEP = st.one_of(
    st.tuples(st.just("passes"), st.integers(0, 2 * DAY_MS)),
    st.tuples(st.just("jumps"), st.integers(-2 * WEEK_MS, 2 * WEEK_MS)),
    st.tuples(st.just("look"), st.just(0)),
    st.tuples(st.just("accept"), st.just(0)),
)


@given(st.lists(_STEP, max_size=30))
def test_time_moves_only_by_what_is_returned_and_follows_no_jump_before_its_day_is_over(steps):
    machine = Machine()
    for step, milliseconds in steps:
        before_ms, running_ms, doubt = machine.time_ms, machine.running_ms, machine.watch.doubt
        if step == "passes":
            machine.passes(milliseconds)
            by_ms = 0
        elif step == "jumps":
            machine.jumps(milliseconds)
            by_ms = 0
        elif step == "look":
            by_ms = machine.look()
        else:
            by_ms = machine.accept()
        passed_ms = milliseconds if step == "passes" else 0
        assert machine.time_ms == before_ms + passed_ms + by_ms
        assert machine.running_ms == running_ms + passed_ms
        if step == "look" and abs(by_ms) > 2 * HOUR_MS:
            assert doubt is not None
            assert machine.steady_ms - doubt.since_ms >= DAY_MS
        if step in ("look", "accept") and machine.watch.may_expire:
            assert abs(machine.time_ms - machine.wall_ms) <= SLACK_MS
