"""What the coordinators have in common: a state machine on the coordinator runtime, and the partitions of its log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from eagleray.actors.lanes.peers import Peers
from eagleray.actors.roles.role import Role, RoleContext
from eagleray.actors.storage.context import Clock
from eagleray.actors.storage.coordinator_log import CoordinatorLog, CoordinatorLogContext
from eagleray.broker.log import LogError, LogWriteFailed
from eagleray.broker.messages import Message
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.runtime.connection_bindings import ConnectionClosed
from eagleray.broker.runtime.coordinator_events import AppendFailed, AppendRecords, Committed, TimeSet
from eagleray.broker.runtime.deadlines import NEVER_MS, Tick
from eagleray.broker.runtime.failures import ReloadPartition, RequestFailed
from eagleray.protocol.records import RecordBatch

_log = logging.getLogger(__name__)


class Coordinator(Protocol):
    """A state machine on the coordinator runtime."""

    def handle_all(self, events: Iterable[Any], now_ms: int) -> list[Any]:
        """Take the events of a turn, and return what they make necessary."""

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens."""


class CoordinatorContext(RoleContext, CoordinatorLogContext, Protocol):
    """What else a coordinator uses of its node: what its log does, other nodes, and the clock."""

    peers: Peers

    @property
    def clock(self) -> Clock:
        """What is known of the time of day."""


class CoordinatorRole(Role):
    """Leads the partitions of an internal topic that the metadata gives to its node.

    Owns: what is written to the logs of these partitions. Everything that a turn decides is appended with one write for
    each partition; once it is replicated the state machine is told, and what it has held back until then is carried
    out: with one replica in the same turn. A partition that could not be written to is loaded again.
    """

    rest_ms: ClassVar = 50

    context: CoordinatorContext

    def __init__(
        self,
        context: CoordinatorContext,
        topic: str,
        *,
        replay: Callable[[Iterable[RecordBatch]], object],
        write: Callable[[ReplicationLeader, list[tuple[Any, Any]], int], bool],
    ) -> None:
        """Begin with nothing loaded.

        `write` appends records at a time of day, says whether the log has taken all of them, and raises LogWriteFailed.
        """
        super().__init__(context)
        self._write = write
        self._topic = CoordinatorLog(context, topic, post=self.post, replay=replay)

    _state_machine: Coordinator
    _performers: Mapping[type, Callable[[Any], None]]
    """By the type of an effect, what carries it out; all others but appends are answers."""

    def handle(self, events: list[Message]) -> None:
        """Let the state machine take what happened, until nothing follows from it any more."""
        events = self._admit(events)
        now_ms = self.context.clock.watch.running_ms(self.context.steady_ms())
        while events:
            events = self._take_turn(events, now_ms)

    def _admit(self, events: list[Message]) -> list[Message]:
        """Give what the state machine may take now."""
        return self._topic.admit(events)

    def _performers_of_failures(self) -> dict[type, Callable[[Any], None]]:
        return {RequestFailed: self._request_failed, ReloadPartition: self._reload}

    def _request_failed(self, failed: RequestFailed) -> None:
        request_id = getattr(failed.request, "request_id", None)
        host = "" if request_id is None else self.context.peer_host(request_id)
        self.context.request_failed(host, type(failed.request).__name__, failed.error)

    def _reload(self, effect: ReloadPartition) -> None:
        self._topic.load_again(effect.log_partition, effect.coordinator_epoch)

    def _take_turn(self, events: list[Message], now_ms: int) -> list[Message]:
        """Carry out what the state machine wants, and append; return what it has to know of that by now."""
        find, answer = self._performers.get, self.context.answer
        appends: list[AppendRecords] = []
        effect: Any
        for effect in self._state_machine.handle_all(events, now_ms):
            kind = type(effect)
            if kind is AppendRecords:
                appends.append(effect)
            else:
                find(kind, answer)(effect)
        return self._append_all(appends) if appends else []

    # The log

    def _append_all(self, appends: list[AppendRecords]) -> list[Message]:
        """Append the records of each partition; what failed comes first in what is returned."""
        failed: list[Message] = []
        committed: dict[int, list[Message]] = {}
        for append in appends:
            number, epoch = append.log_partition, append.coordinator_epoch
            if self._append(append):
                committed[number] = [Committed(number, epoch, append.position)]
            else:
                failed.append(AppendFailed(number, epoch))
                self._topic.load_again(number, epoch)
        return failed + self._topic.commit(committed) if committed else failed

    def _append(self, append: AppendRecords) -> bool:
        try:
            return self._write(self._topic.writable[append.log_partition], append.records, self.context.now_ms())
        except LogWriteFailed as error:
            _log.error("%s", error)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 - the log has nothing of it, or has taken it back
            self.context.request_failed("", "the records of a turn", error)
        return False

    def connection_closed(self, number: int) -> None:
        """Tell the state machine, after all that was read from the connection."""
        self.post(ConnectionClosed(number))

    # Starting and stopping

    def next_due_ms(self) -> int:
        """When the state machine has something to do, or what waits for the lease may be taken."""
        due_ms = self._state_machine.next_due_ms
        return self._topic.next_due_ms or (due_ms if due_ms == NEVER_MS else self.context.clock.watch.steady_ms(due_ms))

    def on_due(self) -> None:
        """Let the state machine look after time, and take what has waited for the lease."""
        self.handle([Tick(may_expire=self.context.clock.may_expire)])

    def time_was_set(self, by_ms: int) -> None:  # noqa: ARG002 - what counts is what it was set by in all
        """Tell the state machine how far its stamps in the log are from its own time."""
        self.post(TimeSet(self.context.clock.watch.set_by_ms))

    def close(self) -> None:
        """Stop loading."""
        self._topic.close()
