"""Time and chance of a simulated world: one heap of events, one seed."""

import random
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Violation(AssertionError):
    """The world did what it must never do."""


class Schedule:
    """Runs what is due, in the order of time and then of asking, so that a seed always gives the same world.

    `fired` counts every fault and every event of interest, by name: a fault that never fires proves nothing.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now_ms = 0
        self.fired: Counter[str] = Counter()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        heappush(self._heap, (self.now_ms + max(delay_ms, 0), next(self._order), action))

    def step(self) -> None:
        """Do the next thing."""
        self.now_ms, _, action = heappop(self._heap)
        action()

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability
