"""The controller: its machine, with the metadata log at hand and the means to start and stop nodes."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from eagleray.actors.logs import Logs
from eagleray.actors.messages import QuorumTold
from eagleray.actors.metadata_quorum import MetadataQuorum
from eagleray.actors.not_controller import not_controller
from eagleray.actors.settings import controller_config, replication_config
from eagleray.actors.shell import Host, Shell
from eagleray.broker.controller import log_records
from eagleray.broker.controller.controller import Controller
from eagleray.broker.controller.events import (
    ChangesLogged,
    ChangesLost,
    LogChanges,
    RegisterNode,
    StartNodes,
    StopNodes,
    Tick,
)
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.nodes import FIRST_DEDICATED_NODE_ID, Role
from eagleray.broker.log import LogWriteFailed
from eagleray.broker.runtime.deadlines import AT_ONCE_MS
from eagleray.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)

_SNAPSHOT_INTERVAL: Final = 2000
"""How many records may follow an image before the next is written and what was before it is deleted."""


class _Pending(NamedTuple):
    """Changes that are in this node's log, and not committed yet."""

    token: int
    end_offset: int


class ControllerShell(Shell):
    """Decides where this node is the controller, and otherwise keeps the metadata log for whichever node is.

    Owns: this node's copy of the metadata log and its vote, and the machine, which exists only while this node leads
    the quorum and knows all that was ever committed. A change is answered once it is committed. While it is uncertain
    whether somebody else leads by now, nothing is answered but that this node is not the controller; when it leads no
    longer, the machine is dropped, and everybody who waits is told the same: what they asked for may come to be.
    After a restart it replays the log once it is elected, a single voter at once; the nodes register again, in the same
    lives, and dedicated ones are started or stopped where the last life had no time to.
    """

    role: ClassVar = Role.CONTROLLER
    rest_ms: ClassVar = 50

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._logs = Logs(host.spec.data_dir, {}, host.disk)
        self._machine: Controller | None = None
        self._open: dict[int, Any] = {}
        self._pending: _Pending | None = None
        self._snapshot_offset = 0
        self._image_offset: int | None = None
        self._is_resumed = False
        self._quorum = MetadataQuorum(host, self._logs, self._step_down)
        self._quorum.tick()
        self._take_over()

    # Becoming the controller, and being it no longer

    def _take_over(self) -> None:
        """Become the controller, as soon as this node leads and everything that was committed is known to be."""
        if self._machine is not None or not self._quorum.is_active:
            return
        image = log_records.replay(self._quorum.values(), EMPTY_IMAGE)
        self._snapshot_offset = self._quorum.start_offset
        settings = self.host.spec.settings
        self._machine = Controller(
            controller_config(settings),
            image,
            lambda: uuid.uuid4().bytes,
            now_ms=self.host.steady_ms(),
            replication=replication_config(settings),
        )

    def _step_down(self) -> None:
        self._machine = self._pending = self._image_offset = None
        self._is_resumed = False
        waiting, self._open = self._open, {}
        for request in waiting.values():
            self._refuse(request)

    def _refuse(self, request: Any) -> None:  # noqa: ANN401 - what a controller takes
        self.host.answer(not_controller(request, self.host.image, self._quorum.leader))

    # What happens

    def handle(self, events: list[Any]) -> None:
        """Let the quorum and the machine take what happened, until nothing follows from it any more."""
        for event in events:
            if isinstance(event, QuorumTold):
                self._quorum.told(event.message)
                self._go_on()
            elif self._machine is None or not self._quorum.holds():
                self._refuse(event)
            else:
                self._open[event.request_id] = event
                if isinstance(event, RegisterNode):
                    self._stop_if_retired(event.node.node_id)
                self._tell(event)

    def _go_on(self) -> None:
        """Take note of how far the quorum has come."""
        self._take_over()
        pending = self._pending
        if pending is not None and self._quorum.committed_offset >= pending.end_offset:
            self._pending = None
            self._tell(ChangesLogged(pending.token))

    def _tell(self, event: Any) -> None:  # noqa: ANN401 - what the machine takes
        """Let the machine take one event, and all that follows from it at once."""
        events = [event]
        while events and self._machine is not None:
            effects = self._machine.handle(events.pop(), self.host.steady_ms())
            for effect in effects:
                if isinstance(effect, LogChanges):
                    events += self._append(effect)
                elif isinstance(effect, StartNodes):
                    self._off_the_loop(self.host.supervisor.start_nodes, effect.nodes)
                elif isinstance(effect, StopNodes):
                    self._off_the_loop(self.host.supervisor.stop_nodes, effect.node_ids)
                else:
                    self._answer(effect)

    def _answer(self, reply: Any) -> None:  # noqa: ANN401 - any answer of the machine
        """Answer, if this node is still the controller beyond doubt."""
        request = self._open.pop(reply.request_id, None)
        if self._quorum.holds():
            self.host.answer(reply)
        elif request is not None:
            self._refuse(request)

    def _resume(self) -> None:
        """Start the dedicated nodes that the last life has decided upon and may not have come to start."""
        if self._is_resumed or self._machine is None:
            return
        self._is_resumed = True
        dedicated = tuple(node for node in self._machine.image.plan.values() if node.dedicated_to is not None)
        if dedicated:
            self._off_the_loop(self.host.supervisor.start_nodes, dedicated)

    def _stop_if_retired(self, node_id: int) -> None:
        """Stop a dedicated node that the last life has decided to stop and did not come to; its id never comes back."""
        assert self._machine is not None
        image = self._machine.image
        if FIRST_DEDICATED_NODE_ID <= node_id < image.next_node_id and node_id not in image.plan:
            self._off_the_loop(self.host.supervisor.stop_nodes, (node_id,))

    def _off_the_loop(self, act: Callable[[Any], None], nodes: Any) -> None:  # noqa: ANN401 - what the act takes
        """Start or stop nodes without making everybody wait who asks the controller."""
        future = self.host.loop.run_in_executor(None, act, nodes)
        future.add_done_callback(_log_failure)

    # The metadata log

    def _append(self, effect: LogChanges) -> list[ChangesLogged | ChangesLost]:
        """Propose changes; return their outcome where it is known at once, as it is to a single voter."""
        try:
            end_offset = self._quorum.propose(log_records.encode_changes(effect.changes))
        except LogWriteFailed as error:
            _log.error("%s", error)
            return [ChangesLost(effect.token, ErrorCode.KAFKA_STORAGE_ERROR)]
        if end_offset is None:
            return []
        if self._quorum.committed_offset >= end_offset:
            return [ChangesLogged(effect.token)]
        self._pending = _Pending(effect.token, end_offset)
        return []

    def _snapshot(self) -> None:
        """Now and then, write the whole image, and once that is committed, delete what led to it."""
        if self._machine is None:
            return
        if self._image_offset is None and self._is_image_due():
            offset = self._quorum.end_offset
            try:
                self._quorum.propose([log_records.encode_image(self._machine.image)])
            except LogWriteFailed as error:
                _log.warning("%s", error)
                return
            self._image_offset = offset
        if self._image_offset is not None and self._quorum.committed_offset > self._image_offset:
            self._snapshot_offset, self._image_offset = self._image_offset, None
            try:
                self._quorum.trim(self._snapshot_offset)
            except LogWriteFailed as error:
                _log.warning("%s", error)

    def _has_to_snapshot(self) -> bool:
        if self._image_offset is None:
            return self._is_image_due()
        return self._quorum.committed_offset > self._image_offset

    def _is_image_due(self) -> bool:
        """Whether enough has come since the last one, and the image has all that is in the log."""
        return self._pending is None and self._quorum.end_offset - self._snapshot_offset >= _SNAPSHOT_INTERVAL

    # Its life

    def next_due_ms(self) -> int:
        """When the quorum has something to do, or the machine, as long as this node is the controller beyond doubt."""
        if self._machine is None or not self._quorum.holds():
            return self._quorum.next_due_ms
        if not self._is_resumed or self._has_to_snapshot():
            return AT_ONCE_MS
        return min(self._quorum.next_due_ms, self._machine.next_due_ms)

    def on_due(self) -> None:
        """Let the quorum go on, followers' waits expire and sessions end, and keep the log short."""
        self._quorum.tick()
        self._go_on()
        if self._machine is None or not self._quorum.holds():
            return
        self._resume()
        self._tell(Tick())
        self._snapshot()

    def close(self) -> None:
        """Close the log."""
        self._logs.close_all()


def _log_failure(future: asyncio.Future[None]) -> None:
    error = future.exception()
    if error is not None:
        _log.error("nodes could not be started or stopped", exc_info=error)
