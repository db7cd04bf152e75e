"""Each payload that waits for an offset is given back once, by whichever comes first; beside a list of who waits."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from eagleray.broker.runtime.waiters import Waiters

OFFSETS = st.integers(0, 20)
TIMES_MS = st.integers(0, 20)


class Payload:
    """Not comparable, as answers are not: the heap has to do without."""

    def __init__(self, offset: int, deadline_ms: int) -> None:
        self.offset = offset
        self.deadline_ms = deadline_ms


class WaitersMachine(RuleBasedStateMachine):
    """A model in which nothing is in order but a list of what came when."""

    def __init__(self) -> None:
        super().__init__()
        self.waiters: Waiters[Payload] = Waiters()
        self.waiting: list[Payload] = []

    @rule(offset=OFFSETS, deadline_ms=TIMES_MS)
    def add(self, offset: int, deadline_ms: int) -> None:
        payload = Payload(offset, deadline_ms)
        self.waiters.add(payload, offset, deadline_ms)
        self.waiting.append(payload)

    @rule(offset=OFFSETS)
    def reached(self, offset: int) -> None:
        due = [payload for payload in self.waiting if payload.offset <= offset]
        self.given_back(self.waiters.reached(offset), due)

    @rule(now_ms=TIMES_MS)
    def expired(self, now_ms: int) -> None:
        due = [payload for payload in self.waiting if payload.deadline_ms <= now_ms]
        self.given_back(self.waiters.expired(now_ms), due)

    @rule()
    def end(self) -> None:
        self.given_back(self.waiters.end(), self.waiting)

    def given_back(self, payloads: list[Payload], due: list[Payload]) -> None:
        """By their offsets, and those of one offset as they came: `sorted` keeps their order."""
        assert payloads == sorted(due, key=lambda payload: payload.offset)
        self.waiting = [payload for payload in self.waiting if payload not in due]

    @invariant()
    def knows_what_waits(self) -> None:
        assert len(self.waiters) == len(self.waiting)
        assert self.waiters.least_offset == min((payload.offset for payload in self.waiting), default=None)


TestWaiters = WaitersMachine.TestCase
