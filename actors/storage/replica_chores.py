"""The periodic work for the replicas of a node, each by its deadline."""

from __future__ import annotations

import enum
from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING, Final

from eagleray.actors.storage.background_flushes import BackgroundFlushes
from eagleray.actors.storage.offline_logs import OfflineLogs
from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.events import Push
from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines
from eagleray.broker.runtime.disk_watch import DiskState

if TYPE_CHECKING:
    from eagleray.actors.storage.context import StorageContext
    from eagleray.actors.storage.heartbeats import Heartbeats
    from eagleray.actors.storage.replica_manager import ReplicaManager

_EARLY_PUSH_MS: Final = 500
"""How long a push waits for the metadata that it rests on."""

_OPENING_MS: Final = 20
"""How long logs that no client waits for are opened without a break."""

_BREAK_MS: Final = 50
"""How long to wait then, before what failed is tried again, and between two steps of housekeeping."""


class _Chore(enum.Enum):
    OPEN = enum.auto()
    OPEN_OFFLINE = enum.auto()
    FORGET_EARLY = enum.auto()
    LOOK_AFTER_LEADERS = enum.auto()
    BEAT = enum.auto()
    LOOK_AFTER_LOGS = enum.auto()
    LOOK_AT_DISK = enum.auto()


class ReplicaChores:
    """Does by its deadline whatever a node's replicas need.

    Owns: the deadlines, of which the node's timer knows the first; the logs that are to be made although no client
    waits for them, little by little; those that another process has locked, or that are offline; for a while the pushes
    that came before the metadata that they rest on. It lets leaders act on the time, sends heartbeats, and does the
    logs' housekeeping a step at a time, with a break after each, and never while one of them is read off the loop, nor
    before all of them are open.
    """

    def __init__(self, context: StorageContext, replicas: ReplicaManager, heartbeats: Heartbeats) -> None:
        self._context = context
        self._replicas = replicas
        self._heartbeats = heartbeats
        self._deadlines: Deadlines[_Chore] = Deadlines(self._set_timer)
        self.leaders: Deadlines[TopicPartition] = Deadlines(partial(self._deadlines.set_by, _Chore.LOOK_AFTER_LEADERS))
        """When the leader of a partition has to act on the time; leaders set it themselves."""
        self.offline = OfflineLogs(partial(self._deadlines.set_by, _Chore.OPEN_OFFLINE))
        self._flushes = BackgroundFlushes(context, replicas)
        self._unopened: dict[TopicPartition, None] = {}
        self._early: list[tuple[int, Push]] = []
        self._rested_ms = 0
        self._disk_state = DiskState.OK
        """What was made of the disk when it was last looked at here."""
        context.disk_guard.on_due = self._disk_is_due
        self._disk_is_due()

    def _set_timer(self, due_ms: int) -> None:
        self._context.timer.set(self.on_due, due_ms)

    @property
    def next_due_ms(self) -> int:
        """When something is due, by the steady clock."""
        return self._deadlines.next_due_ms

    def on_due(self) -> None:
        """Do what is due."""
        steady_ms = self._context.steady_ms()
        for chore in self._deadlines.take_due(steady_ms):
            match chore:
                case _Chore.OPEN:
                    self._open_some(steady_ms)
                case _Chore.OPEN_OFFLINE:
                    self._open_offline(steady_ms)
                case _Chore.FORGET_EARLY:
                    self._forget_early(steady_ms)
                case _Chore.LOOK_AFTER_LEADERS:
                    self._look_after_leaders(steady_ms)
                case _Chore.BEAT:
                    self._heartbeats.beat(steady_ms, self._replicas.resigned)
                    self.set_heartbeat()
                case _Chore.LOOK_AFTER_LOGS:
                    self._look_after_logs(steady_ms)
                case _Chore.LOOK_AT_DISK:
                    self._look_at_disk()
        self._set_timer(self.next_due_ms)

    # Opening

    def open_later(self, partition: TopicPartition) -> None:
        """Open a replica soon; one that is offline has a deadline of its own."""
        if partition not in self.offline:
            self._unopened[partition] = None
            self._open_by(self._context.steady_ms())

    def opened(self, partition: TopicPartition) -> None:
        """Note that a replica is open."""
        self._unopened.pop(partition, None)
        self.offline.forget(partition)

    def open_only(self, kept: Container[TopicPartition]) -> None:
        """Open no replicas but those of these partitions."""
        self._unopened = {partition: None for partition in self._unopened if partition in kept}
        for partition in [partition for partition in self.offline if partition not in kept]:
            self.offline.forget(partition)

    def _open_some(self, steady_ms: int) -> None:
        """Open some of the replicas, for as long as others can wait."""
        for partition in [*self._unopened]:
            del self._unopened[partition]
            self._replicas.opening.open(partition)
            if self._context.steady_ms() - steady_ms >= _OPENING_MS:
                break
        if self._unopened:
            self._open_by(self._context.steady_ms())

    def _open_offline(self, steady_ms: int) -> None:
        for partition in self.offline.take_due(steady_ms):
            self._replicas.opening.open(partition)
        self._deadlines.set(_Chore.OPEN_OFFLINE, self.offline.next_due_ms)

    def _open_by(self, steady_ms: int) -> None:
        self._deadlines.set_by(_Chore.OPEN, steady_ms + _BREAK_MS)

    # Pushes that are early

    def early_until_ms(self) -> int:
        """Until when a push that comes now waits for the metadata."""
        return self._context.steady_ms() + _EARLY_PUSH_MS

    def keep_early(self, push: Push, until_ms: int) -> None:
        """Keep a push that cannot be applied yet."""
        self._early.append((until_ms, push))
        self._deadlines.set_by(_Chore.FORGET_EARLY, until_ms)

    def take_early(self, partition: TopicPartition | None = None) -> list[tuple[int, Push]]:
        """Return the pushes that wait, or those of one partition, each with its deadline."""
        early, self._early = self._early, []
        if partition is not None:
            self._early = [each for each in early if each[1].partition != partition]
            early = [each for each in early if each[1].partition == partition]
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
        """Set the deadline of the next heartbeat, after something that may have changed it."""
        self._deadlines.set(_Chore.BEAT, self._heartbeats.next_due_ms)

    # The disk

    def _disk_is_due(self) -> None:
        self._deadlines.set(_Chore.LOOK_AT_DISK, self._context.disk_guard.next_due_ms)

    def _look_at_disk(self) -> None:
        """Look at the disk; where it has little room, whatever may go has to go now."""
        guard = self._context.disk_guard
        guard.look(flushing_since_ms=self._flushes.since_ms)
        was, self._disk_state = self._disk_state, guard.watch.state
        if self._disk_state is not was and self._disk_state in (DiskState.LOW, DiskState.FULL):
            self._replicas.logs.hurry_retention()
        self._disk_is_due()

    # Logs

    def logs_are_due(self, due_ms: int) -> None:
        """Do housekeeping when it is due, and not before the break is over."""
        if due_ms < NEVER_MS:
            self._deadlines.set_by(_Chore.LOOK_AFTER_LOGS, max(due_ms, self._rested_ms))

    def _look_after_logs(self, steady_ms: int) -> None:
        self._rested_ms = steady_ms + _BREAK_MS
        replicas = self._replicas
        if replicas.loading:
            self._deadlines.set(_Chore.LOOK_AFTER_LOGS, self._rested_ms)
            return
        logs = replicas.logs
        logs.bookmark(steady_ms)
        self._flushes.start_due(steady_ms)
        if not replicas.opening or self._disk_state is not DiskState.OK:
            self._keep_logs(steady_ms)
        self.logs_are_due(logs.next_due_ms)

    def _keep_logs(self, steady_ms: int) -> None:
        """Do what waits until all logs are open, unless the disk needs room: it flushes, and those who open do, too."""
        context = self._context
        failed = self._replicas.logs.housekeep(steady_ms, context.now_ms(), may_expire=context.clock.may_expire)
        if failed is not None:
            self._replicas.failed(failed)
        damaged = self._replicas.logs.scrub(steady_ms)
        if damaged is not None:
            self._replicas.damaged(*damaged)
