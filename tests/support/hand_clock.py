"""The clock of a node whose wall clock a test sets."""

from eagleray.broker.runtime.clock_watch import ClockLimits, ClockWatch


class HandClock:
    """A watch over two clocks that agree until a test says something else."""

    def __init__(self, wall_ms, steady_ms, *, max_jump_ms=3_600_000, accept_after_ms=86_400_000):
        self.watch = ClockWatch(ClockLimits(max_jump_ms, accept_after_ms), wall_ms, steady_ms)

    @property
    def may_expire(self):
        return self.watch.may_expire
