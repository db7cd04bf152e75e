"""Wall clocks that jump apart from the steady ones, and what must not come of that."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest import mock

from eagleray.actors.process import node_clock
from eagleray.actors.roles.group_coordinator import GroupCoordinatorRole
from eagleray.actors.roles.transaction_coordinator import TransactionCoordinatorRole
from eagleray.broker.log import PartitionLog
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from tests.simulation.schedule import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster.faults import Faults
    from tests.simulation.cluster.machine import SimulatedMachine, SimulatedNode

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ACCEPT_AFTER_MS = 3000
LOOK_MS = 100
NOTICED_AFTER_MS = 300
"""By then a node that runs knows of a jump; one that is paused acts on nothing before it looks."""

TIMEOUT_MS = 2000
APART_MS = 500
"""By so much the times of day of two machines may differ without a jump, both ways, and so late nodes may look."""

CLOCK_SETTINGS = {
    "clock.accept.after.ms": str(ACCEPT_AFTER_MS),
    "message.timestamp.after.max.ms": str(365 * DAY_MS),
    "retention.ms": str(2 * DAY_MS),
    "producer.id.expiration.ms": str(HOUR_MS),
    "offsets.retention.check.interval.ms": "200",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
"""Nothing in these worlds is old, so whatever expires has gone by a clock that was wrong."""


def quick_looks() -> Any:
    """Have nodes look at their clocks all the time."""
    return mock.patch.multiple(node_clock, LOOK_MS=LOOK_MS, NOTE_MS=1000)


class WallClock:
    """The wall clock of a machine, as far as it is ahead of its steady one, and what the node should make of that.

    A jump by hours stays, until it is accepted; one by weeks is taken back before it would be.
    """

    def __init__(self, machine: "SimulatedMachine") -> None:
        self._machine = machine
        self.ahead_ms = self.trusted_ms = 0
        self._since_ms = 0

    @property
    def has_jumped(self) -> bool:
        return self.ahead_ms != self.trusted_ms

    def jumped_for_ms(self) -> int:
        """Since when the wall clock is where no node should be."""
        return self._machine.harness.schedule.now_ms - self._since_ms if self.has_jumped else 0

    def jump(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms
        self._since_ms = self._machine.harness.schedule.now_ms

    def trust(self) -> None:
        """Take note that the node may go by the wall clock from now on."""
        self.trusted_ms = self.ahead_ms


def jump_clock(faults: "Faults") -> None:
    """A wall clock jumps by hours or by weeks, and stays there, comes back, or is accepted by a person."""
    machine = faults._pick()
    clock, chance, schedule = machine.wall_clock, faults._chance, faults._schedule
    if clock.has_jumped:
        return
    before_ms = clock.ahead_ms
    is_far = schedule.happens(0.5)
    distance_ms = chance.choice([8, 30]) * DAY_MS if is_far else chance.randint(2, 12) * HOUR_MS
    clock.jump(distance_ms if before_ms < 0 or (before_ms == 0 and schedule.happens(0.5)) else -distance_ms)
    faults._struck("clock that jumps by weeks" if is_far else "clock that jumps by hours", machine)
    if is_far or schedule.happens(0.3):
        schedule.after(chance.choice([50, 500, ACCEPT_AFTER_MS // 2]), lambda: clock.jump(before_ms))
    elif schedule.happens(0.5):
        schedule.after(chance.choice([100, 1000]), lambda: _accept(machine))


def _accept(machine: "SimulatedMachine") -> None:
    if machine.loop is None or machine.node is None or not machine.node.is_registered or machine.loop.is_paused:
        return
    machine.harness.schedule.fired["clock accepted by a person"] += 1
    machine.loop.run(machine.node.clock.accept)


CLOCK_FAULTS: dict[str, Callable[[Any], None]] = {"jump clock": jump_clock}
"""In worlds of their own, too."""


def watch_clock_of(node: "SimulatedNode") -> None:
    """Watch what a node lets go by the time of day, and which transactions it ends because of the time."""
    _Watch(node)


class _Watch:
    """What a node does by its clock."""

    def __init__(self, node: "SimulatedNode") -> None:
        self._node = node
        self._machine = node.simulated
        self._schedule = self._machine.harness.schedule
        self._begin()
        set_by = node.clock.on_set

        def was_set(by_ms: int) -> None:
            self._time_was_set(by_ms)
            set_by(by_ms)

        node.clock.on_set = was_set
        adopt = node.replica_manager.logs.adopt

        def adopted(opening: Any, log: PartitionLog) -> PartitionLog:
            self._watch_retention(log)
            return adopt(opening, log)

        node.replica_manager.logs.adopt = adopted  # type: ignore[method-assign]
        transactions = self._machine_role(TransactionCoordinatorRole)
        if transactions is not None:
            self._watch_transactions(transactions._state_machine)
        groups = self._machine_role(GroupCoordinatorRole)
        if groups is not None:
            self._watch_offsets(groups._state_machine)

    def _begin(self) -> None:
        """See whether the process has found a jump that its node has known for long enough to accept it."""
        clock = self._machine.wall_clock
        if self._node.clock.may_expire and clock.jumped_for_ms() >= ACCEPT_AFTER_MS:
            self._schedule.fired["jump accepted"] += 1
            clock.trust()

    def _machine_role(self, kind: type) -> Any:
        return next((role for role in self._node._roles if isinstance(role, kind)), None)

    def _time_was_set(self, by_ms: int) -> None:
        clock = self._machine.wall_clock
        if abs(by_ms) > HOUR_MS:
            self._schedule.fired["jump accepted"] += 1
            clock.trust()

    def _name(self) -> str:
        return f"node {self._node.spec.node_id}"

    def _is_known_to_have_jumped(self) -> bool:
        loop = self._machine.loop
        is_awake = loop is not None and not loop.is_paused
        return is_awake and self._machine.wall_clock.jumped_for_ms() > NOTICED_AFTER_MS

    # What expires

    def _watch_retention(self, log: PartitionLog) -> None:
        apply = log.apply_retention

        def applied(now_ms: int, *, by_age: bool = True, **named: Any) -> int:
            if by_age and self._node.clock.watch.doubt is None and self._is_known_to_have_jumped():
                # It looks at its clock at the first turn after a pause, and this may come before.
                self._node.clock.look()
                by_age = self._node.clock.may_expire
            if by_age and self._is_known_to_have_jumped():
                raise Violation(f"{self._name()} applies retention by a clock that has jumped")
            start_offset, producers = log.log_start_offset, len(log.producers)
            freed = apply(now_ms, by_age=by_age, **named)
            if log.log_start_offset != start_offset or len(log.producers) != producers:
                raise Violation(f"{self._name()} lets records or producers go that are not old")
            return freed

        log.apply_retention = applied  # type: ignore[method-assign]

    def _watch_offsets(self, coordinator: Any) -> None:
        expired = coordinator._housekeeping._expired

        def watched(*args: Any) -> Any:
            found = expired(*args)
            if found:
                raise Violation(f"{self._name()} lets offsets go that are not old: {found}")
            return found

        coordinator._housekeeping._expired = watched

    # Transactions

    def _watch_transactions(self, coordinator: Any) -> None:
        context, housekeeping = coordinator._context, coordinator._housekeeping
        log, abort_timed_out = context.log, housekeeping._abort_timed_out
        began_ms = self._machine.harness.began_ms
        is_timeout = False

        def logged(transaction: Transaction, transition: Snapshot, *args: Any, **named: Any) -> bool:
            key = transaction.transactional_id, transition.producer_id
            if transition.state is TransactionState.DEAD:
                raise Violation(f"{self._name()} lets a transactional id go that is not old: {key}")
            if is_timeout and not transaction.is_lost:
                self._check_timeout(key, transaction.current)
            begins = transition.state is TransactionState.ONGOING and transaction.current.state is not transition.state
            if begins:
                began_ms[key] = self._schedule.now_ms
            return bool(log(transaction, transition, *args, **named))

        def timing_out(now_ms: int) -> None:
            nonlocal is_timeout
            is_timeout = True
            try:
                abort_timed_out(now_ms)
            finally:
                is_timeout = False

        context.log = logged
        housekeeping._abort_timed_out = timing_out

    def _check_timeout(self, key: tuple[str, int], current: Snapshot) -> None:
        self._schedule.fired["transaction timed out"] += 1
        age_ms = self._schedule.now_ms - self._machine.harness.began_ms.get(key, self._schedule.now_ms)
        if age_ms < current.timeout_ms - APART_MS:
            raise Violation(f"{self._name()} aborts a transaction of {key} after {age_ms} of {current.timeout_ms} ms")
