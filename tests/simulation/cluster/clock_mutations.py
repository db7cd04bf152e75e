"""Nodes that break a rule of clocks."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from eagleray.actors.process.node import Node
from eagleray.actors.process.node_clock import NodeClock
from eagleray.actors.storage import log_manager
from eagleray.broker.log import PartitionLog
from eagleray.broker.runtime.clock_watch import ClockWatch
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.stamps import as_loaded
from tests.simulation.replacing import replacing


def _by_the_wall_clock() -> AbstractContextManager[Any]:
    """A node whose time of day is that of its wall clock."""
    return mock.patch.object(Node, "now_ms", lambda self: self._wall_ms())


def _following_every_jump() -> AbstractContextManager[Any]:
    """A node that takes each move of its wall clock for a correction."""
    return mock.patch.object(ClockWatch, "looked", ClockWatch.accept)


def _without_a_pause() -> AbstractContextManager[Any]:
    """A node that doubts its wall clock, and lets go what is old all the same."""
    return mock.patch.object(NodeClock, "may_expire", True)


def _doubting_for_ever() -> AbstractContextManager[Any]:
    """A node that never accepts where its wall clock has gone."""
    return mock.patch.object(ClockWatch, "accepted_in_ms", return_value=1)


def _forgetting_at_a_restart() -> AbstractContextManager[Any]:
    """A process that does not read what the one before has noted."""
    return mock.patch.object(NodeClock, "_read", return_value=None)


@contextmanager
def _timing_by_the_time_of_day() -> Iterator[None]:
    """Coordinators that count by a time that is set."""
    with (
        mock.patch.object(ClockWatch, "running_ms", ClockWatch.time_ms),
        mock.patch.object(ClockWatch, "steady_ms", lambda self, running_ms: running_ms - self._offset_ms),
        mock.patch.object(ClockWatch, "set_by_ms", 0),
    ):
        yield


def _ageing_producers() -> AbstractContextManager[Any]:
    """Logs whose producers were idle for as long as the time of day was set by."""

    def follow(log: PartitionLog, by_ms: int) -> None:
        log.active_segment.created_ms += by_ms

    return mock.patch.object(log_manager, "follow_clock", follow)


def _believing_every_stamp() -> AbstractContextManager[Any]:
    """Coordinators that take the age of what they load from its stamp, whatever it is."""

    def as_stamped(snapshot: Snapshot, set_by_ms: int, now_ms: int) -> Snapshot:
        return snapshot

    return replacing(as_loaded, as_stamped)


CLOCK_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "time of day by the wall clock": _by_the_wall_clock,
    "jumps that are followed": _following_every_jump,
    "expiry that does not pause": _without_a_pause,
    "jumps that are never accepted": _doubting_for_ever,
    "jump that a restart forgets": _forgetting_at_a_restart,
    "timeouts by the time of day": _timing_by_the_time_of_day,
    "producers that age when the time is set": _ageing_producers,
    "stamps that are believed": _believing_every_stamp,
}
