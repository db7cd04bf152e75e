"""What there is to do for the replicas of a node because time has passed."""

from __future__ import annotations

import enum
from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.events import Push, Resigned
from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines

if TYPE_CHECKING:
    from eagleray.actors.heartbeats import Heartbeats
    from eagleray.actors.logs import Logs
    from eagleray.actors.shell import Host

_EARLY_PUSH_MS: Final = 500
"""How long a push waits for the metadata that say what it is about."""

_OPENING_MS: Final = 20
"""How long logs that no client waits for are opened without a break."""

_BREAK_MS: Final = 50
"""How long the rest waits then, what failed before it is tried again, and the logs between two steps of their care."""


class _Chore(enum.Enum):
    OPEN = enum.auto()
    FORGET_EARLY = enum.auto()
    LOOK_AFTER_LEADERS = enum.auto()
    BEAT = enum.auto()
    LOOK_AFTER_LOGS = enum.auto()


class Tended(Protocol):
    """A node's replicas, as their chores see them."""

    logs: Logs
    loading: set[TopicPartition]

    def open(self, partition: TopicPartition) -> bool:
        """Open a replica; whether that was possible."""

    def look_after_leader(self, partition: TopicPartition, steady_ms: int) -> None:
        """Let the leader of a partition, if it is led here, see what time it is."""

    def resigned(self) -> list[Resigned]:
        """What the node has stopped leading without having been told of another leader."""

    def failed(self, partition: TopicPartition) -> None:
        """Take note of a log that has failed."""

    def damaged(self, partition: TopicPartition) -> None:
        """Take note of a log that its disk has damaged."""


class ReplicaChores:
    """Does by its deadline whatever a node's replicas need.

    Owns: the deadlines, of which the node's timer knows the first; which logs are to be opened although no client waits
    for them, little by little, and again where that fails; and the pushes that came before the metadata that say what
    they are about, for a while. It lets leaders look at the time, beats, and keeps the logs in order a step at a time,
    with a break after each, and never while one of them is read off the loop.
    """

    def __init__(self, host: Host, replicas: Tended, heartbeats: Heartbeats) -> None:
        self._host = host
        self._replicas = replicas
        self._heartbeats = heartbeats
        self._deadlines: Deadlines[_Chore] = Deadlines(self._set_timer)
        self.leaders: Deadlines[TopicPartition] = Deadlines(partial(self._deadlines.set_by, _Chore.LOOK_AFTER_LEADERS))
        """When the leader of a partition has to look at the time; leaders set it themselves."""
        self._unopened: dict[TopicPartition, None] = {}
        self._early: list[tuple[int, Push]] = []
        self._rested_ms = 0

    def _set_timer(self, due_ms: int) -> None:
        self._host.timer.set(self.on_due, due_ms)

    def on_due(self) -> None:
        """Do what is due."""
        steady_ms = self._host.steady_ms()
        for chore in self._deadlines.take_due(steady_ms):
            match chore:
                case _Chore.OPEN:
                    self._open_some(steady_ms)
                case _Chore.FORGET_EARLY:
                    self._forget_early(steady_ms)
                case _Chore.LOOK_AFTER_LEADERS:
                    self._look_after_leaders(steady_ms)
                case _Chore.BEAT:
                    self._heartbeats.beat(steady_ms, self._replicas.resigned)
                    self.set_heartbeat()
                case _Chore.LOOK_AFTER_LOGS:
                    self._look_after_logs(steady_ms)
        self._set_timer(self._deadlines.next_due_ms)

    # Opening

    def open_later(self, partition: TopicPartition) -> None:
        """Have a replica opened soon."""
        self._unopened[partition] = None
        self._open_by(self._host.steady_ms())

    def opened(self, partition: TopicPartition) -> None:
        """Take note that a replica is open."""
        self._unopened.pop(partition, None)

    def open_only(self, kept: Container[TopicPartition]) -> None:
        """Open no replica but of these partitions."""
        self._unopened = {partition: None for partition in self._unopened if partition in kept}

    def _open_some(self, steady_ms: int) -> None:
        """Open what is to be opened, for as long as others can wait; what fails is tried again after the rest."""
        for partition in [*self._unopened]:
            del self._unopened[partition]
            if not self._replicas.open(partition):
                self._unopened[partition] = None
            if self._host.steady_ms() - steady_ms >= _OPENING_MS:
                break
        if self._unopened:
            self._open_by(self._host.steady_ms())

    def _open_by(self, steady_ms: int) -> None:
        self._deadlines.set_by(_Chore.OPEN, steady_ms + _BREAK_MS)

    # Pushes that are early

    def early_until_ms(self) -> int:
        """How long a push that comes now waits for the metadata."""
        return self._host.steady_ms() + _EARLY_PUSH_MS

    def keep_early(self, push: Push, until_ms: int) -> None:
        """Keep a push that cannot be taken yet."""
        self._early.append((until_ms, push))
        self._deadlines.set_by(_Chore.FORGET_EARLY, until_ms)

    def take_early(self) -> list[tuple[int, Push]]:
        """Give back the pushes that wait, each with until when it does."""
        early, self._early = self._early, []
        return early

    def _forget_early(self, steady_ms: int) -> None:
        for until_ms, push in self.take_early():
            if until_ms > steady_ms:
                self.keep_early(push, until_ms)

    # Leaders and heartbeats

    def _look_after_leaders(self, steady_ms: int) -> None:
        for partition in self.leaders.take_due(steady_ms):
            self._replicas.look_after_leader(partition, steady_ms)
        self._deadlines.set(_Chore.LOOK_AFTER_LEADERS, self.leaders.next_due_ms)

    def set_heartbeat(self) -> None:
        """Beat when it is time, after something that may have changed when that is."""
        self._deadlines.set(_Chore.BEAT, self._heartbeats.next_due_ms)

    # Logs

    def logs_are_due(self, due_ms: int) -> None:
        """Look after the logs when it is time, by the time of day, and not before they have rested."""
        if due_ms >= NEVER_MS:
            return
        host = self._host
        steady_ms = host.steady_ms() + max(due_ms - host.now_ms(), 0)
        self._deadlines.set_by(_Chore.LOOK_AFTER_LOGS, max(steady_ms, self._rested_ms))

    def _look_after_logs(self, steady_ms: int) -> None:
        """Do a step of what is due for the logs, unless one of them is read off the loop."""
        self._rested_ms = steady_ms + _BREAK_MS
        replicas = self._replicas
        if replicas.loading:
            self._deadlines.set(_Chore.LOOK_AFTER_LOGS, self._rested_ms)
            return
        logs, now_ms = replicas.logs, self._host.now_ms()
        failed = logs.housekeep(now_ms)
        if failed is not None:
            replicas.failed(failed)
        logs.bookmark(now_ms)
        damaged = logs.scrub(now_ms)
        if damaged is not None:
            replicas.damaged(damaged)
        self.logs_are_due(logs.next_due_ms)
