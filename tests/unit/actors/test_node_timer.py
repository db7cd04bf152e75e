"""The one timer of a node, by a simulated loop and, where it is about a loop under load, by a real one."""

import asyncio
import itertools

import pytest

from eagleray.actors.common.node_timer import PAUSE_MS, NodeTimer
from eagleray.broker.runtime.deadlines import NEVER_MS
from tests.simulation.cluster.loop import Clock, SimulatedLoop
from tests.simulation.schedule import Schedule


class Simulated:
    """A timer, and what it has called at which time."""

    def __init__(self):
        self.schedule = Schedule(1)
        self.clock = Clock(self.schedule)
        self.errors, self.called = [], []
        self.loop = SimulatedLoop(self.schedule, self.clock, lambda error: None)
        self.timer = NodeTimer(self.loop, self.clock.now_ms, self.errors.append)

    def pass_ms(self, time_ms):
        reached = []
        self.schedule.after(time_ms, lambda: reached.append(True))
        while not reached:
            self.schedule.step()

    def chore(self, name, then_ms=NEVER_MS):
        def act():
            self.called.append((name, self.clock.now_ms()))
            self.timer.set(act, then_ms)

        return act


@pytest.fixture
def simulated():
    return Simulated()


def test_timer_calls_what_is_due_when_it_is_due(simulated):
    simulated.timer.set(simulated.chore("b"), 300)
    simulated.timer.set(simulated.chore("a"), 100)
    simulated.pass_ms(1)
    simulated.timer.start()
    simulated.timer.set(simulated.chore("c"), 200)
    simulated.pass_ms(1000)
    assert simulated.called == [("a", 100), ("c", 200), ("b", 300)]


def test_timer_calls_nothing_before_it_was_started_or_after_it_was_stopped(simulated):
    simulated.timer.set(simulated.chore("a"), 10)
    simulated.pass_ms(100)
    assert simulated.called == []
    simulated.timer.start()
    simulated.pass_ms(1)
    assert simulated.called == [("a", 100)]
    simulated.timer.set(simulated.chore("b"), 200)
    simulated.timer.stop()
    simulated.pass_ms(1000)
    assert simulated.called == [("a", 100)]


def test_timer_without_deadlines_never_wakes(simulated):
    simulated.timer.start()
    chore = simulated.chore("a")
    simulated.timer.set(chore, 100)
    simulated.timer.set(chore, NEVER_MS)
    simulated.pass_ms(100_000)
    assert simulated.called == []
    assert simulated.timer.rings <= 1


def test_deadline_that_is_put_off_is_met_once(simulated):
    simulated.timer.start()
    chore = simulated.chore("a")
    for due_ms in range(100, 1000, 10):
        simulated.timer.set(chore, due_ms)
    simulated.pass_ms(10_000)
    assert simulated.called == [("a", 990)]


def test_deadline_in_the_past_does_not_keep_the_loop_busy(simulated):
    """One that is always late is called again and again, with time for all else in between."""
    simulated.timer.start()
    simulated.timer.set(simulated.chore("late", then_ms=0), 0)
    simulated.pass_ms(1000)
    times = [time_ms for _, time_ms in simulated.called]
    assert len(times) > 50, "it goes on"
    assert all(later - earlier >= PAUSE_MS for earlier, later in itertools.pairwise(times))


def test_deadlines_that_are_close_together_cost_one_ring(simulated):
    simulated.timer.start()
    for number in range(1000):
        simulated.timer.set(simulated.chore(number), 100 + number % PAUSE_MS)
    simulated.pass_ms(1000)
    assert len(simulated.called) == 1000
    assert all(time_ms - (100 + number % PAUSE_MS) in range(PAUSE_MS + 1) for number, time_ms in simulated.called)
    assert simulated.timer.rings <= 3


def test_an_error_of_one_call_is_told_and_keeps_no_other_from_being_called(simulated):
    def fail():
        raise ValueError("broken")

    simulated.timer.start()
    simulated.timer.set(fail, 10)
    simulated.timer.set(simulated.chore("a"), 10)
    simulated.pass_ms(100)
    assert [str(error) for error in simulated.errors] == ["broken"]
    assert simulated.called == [("a", 10)]


async def test_loop_that_is_never_idle_does_not_starve_the_timer():
    """Whatever happens in each turn makes the next turn come at once, and yet time passes."""
    loop = asyncio.get_running_loop()
    turns, rung, done = 0, [], asyncio.Event()

    def steady_ms():
        return int(loop.time() * 1000)

    def turn():
        nonlocal turns
        turns += 1
        if not done.is_set():
            loop.call_soon(turn)

    def ring():
        rung.append(turns)
        timer.set(ring, steady_ms())
        if len(rung) == 5:
            done.set()

    timer = NodeTimer(loop, steady_ms, pytest.fail)
    timer.start()
    timer.set(ring, steady_ms() + 1)
    for _ in range(10):
        loop.call_soon(turn)
    async with asyncio.timeout(30):
        await done.wait()
    timer.stop()
    assert all(later > earlier for earlier, later in itertools.pairwise(rung)), "others had their turns too"
