"""The controller: its state machine, with the metadata log at hand and the means to start and stop nodes."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from eagleray.actors.common.settings import config_of
from eagleray.actors.lanes.messages import RaftMessage
from eagleray.actors.roles.metadata_quorum import MetadataQuorum, MetadataQuorumContext
from eagleray.actors.roles.role import Role, RoleContext, Supervisor
from eagleray.actors.storage.context import Clock
from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.actors.storage.log_manager import LogManager
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.controller import Controller
from eagleray.broker.controller.events import (
    Answer,
    ChangesCommitted,
    DescribeConfigs,
    Effect,
    Event,
    GetMetadata,
    LogChanges,
    NodeRegistered,
    RegisterNode,
    Request,
    Respond,
    StartNodes,
    StopNodes,
    StopRuling,
)
from eagleray.broker.controller.metadata_queries import answer_metadata, describe_configs
from eagleray.broker.log import LogWriteFailed
from eagleray.broker.metadata import log_records
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.nodes import FIRST_DEDICATED_NODE_ID, NO_NODE, ProcessRole
from eagleray.broker.replication.config import ReplicationConfig
from eagleray.broker.runtime.deadlines import AT_ONCE_MS, Tick
from eagleray.broker.runtime.failures import RequestFailed
from eagleray.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)

_SNAPSHOT_INTERVAL: Final = 2000
"""How many records may follow an image before the next is written and what was before it is deleted."""


SNAPSHOT_RETRY_MS: Final = 5_000
"""After how long the image is written again that a disk has refused: it is large, and nothing waits for it."""

_Nodes = TypeVar("_Nodes")


class ControllerContext(RoleContext, MetadataQuorumContext, Protocol):
    """What else the controller uses of its node: a voter's disk and peers, and who starts and stops nodes."""

    loop: asyncio.AbstractEventLoop
    disk_guard: DiskGuard
    supervisor: Supervisor

    @property
    def clock(self) -> Clock:
        """What is known of the time of day."""


class ControllerRole(Role):
    """Decides where this node is the controller, and otherwise keeps the metadata log for whichever node is.

    Owns: this node's copy of the metadata log and its vote, and the state machine, which exists only while this node
    leads the quorum and knows all that was ever committed. What a turn changes is appended at its end, and once it is
    committed the state machine is told, and says what it has held back until then: a single voter in the same turn.
    While it is uncertain whether another node leads by now, nothing is answered but that this node is not the
    controller; when it leads no longer, the state machine is dropped, and all requests that wait are told the same:
    what they asked for may come to be. Where the log cannot be written, the state machine is dropped too, and made
    again from what the log holds. After a restart it replays the log once it is elected, a single voter at once; the
    nodes register again, in the same incarnations, and dedicated ones are started or stopped where the last incarnation
    had no time to.
    """

    process_role: ClassVar = ProcessRole.CONTROLLER
    rest_ms: ClassVar = 50

    context: ControllerContext

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._logs = LogManager(context.spec.data_dir, {}, context.disk, on_refused=context.disk_guard.refused)
        self._state_machine: Controller | None = None
        self._uncommitted: deque[tuple[int, int]] = deque()
        """Where appends of the state machine end in the log, and their positions."""
        self._snapshot_offset = 0
        self._image_offset: int | None = None
        self._no_snapshot_until_ms = AT_ONCE_MS
        """When the image is written again that the disk has refused, by the steady clock."""
        self._is_resumed = False
        self._has_stopped = False
        """Whether the nodes know what this log has lost, so that this node is the controller no more."""
        self._said: set[str] = set()
        try:
            self._quorum = MetadataQuorum(context, self._logs, self._step_down)
        except BaseException:
            self._logs.close_all()
            raise
        self._quorum.tick()
        self._take_over()

    def describe(self) -> dict[str, Any]:
        """How the voter of this node stands in its quorum."""
        return {"voter": self._quorum.describe(), "stopped_ruling": self._has_stopped}

    # Becoming the controller, and being it no longer

    def _take_over(self) -> None:
        """Become the controller, as soon as this node leads and everything in its log is committed."""
        if self._has_stopped or self._state_machine is not None:
            return
        if not self._quorum.is_active or not self._quorum.is_all_committed:
            return
        image = log_records.replay(self._quorum.values(), EMPTY_IMAGE)
        self._snapshot_offset = self._quorum.start_offset
        settings = self.context.spec.settings
        self._state_machine = Controller(
            config_of(ControllerConfig, settings),
            image,
            lambda: uuid.uuid4().bytes,
            now_ms=self.context.steady_ms(),
            time_of_day_ms=self.context.now_ms,
            may_expire=lambda: self.context.clock.may_expire,
            term=self._quorum.term,
            replication=config_of(ReplicationConfig, settings),
            is_only_voter=self._quorum.is_alone,
        )

    def _step_down(self) -> None:
        self._drop_machine(ErrorCode.NOT_CONTROLLER)

    def _drop_machine(self, error_code: ErrorCode) -> None:
        machine, self._state_machine = self._state_machine, None
        self._uncommitted.clear()
        self._image_offset = None
        self._is_resumed = False
        if machine is not None:
            self._carry_out(machine.resign(error_code))

    # What happens

    def handle(self, events: list[Request | RaftMessage]) -> None:
        """Let the quorum and the state machine take what happened, until nothing follows from it any more."""
        requests: list[Request] = []
        for event in events:
            if isinstance(event, RaftMessage):
                self._quorum.receive(event)
            else:
                requests.append(event)
        self._go_on()
        if self._state_machine is None or not self._quorum.holds():
            for request in requests:
                self._refuse(request)
            return
        for request in requests:
            if isinstance(request, RegisterNode):
                self._stop_if_retired(request.node.node_id, self._state_machine.image)
        self._take_turn(requests)

    def _go_on(self) -> None:
        """Take note of how far the quorum has come."""
        self._take_over()
        self._take_turn(self._newly_committed())

    def _take_turn(self, events: Sequence[Event]) -> None:
        """Let the state machine take the events of a turn, and what the log says to what it makes of them."""
        while events and self._state_machine is not None:
            self._carry_out(self._state_machine.handle_all(events, self.context.steady_ms()))
            events = self._newly_committed()

    def _carry_out(self, effects: list[Effect]) -> None:
        reasons = [effect.reason for effect in effects if isinstance(effect, StopRuling)]
        for effect in effects:
            match effect:
                case Respond():
                    self._respond(effect)
                case LogChanges():
                    self._append(effect)
                case RequestFailed():
                    host = self.context.peer_host(effect.request.request_id)
                    self.context.request_failed(host, type(effect.request).__name__, effect.error)
                case StartNodes():
                    self._off_the_loop(self.context.supervisor.start_nodes, effect.nodes)
                case StopNodes():
                    self._off_the_loop(self.context.supervisor.stop_nodes, effect.node_ids)
        if reasons and not self._has_stopped:
            self._stop_ruling(reasons[0])

    def _stop_ruling(self, reason: str) -> None:
        """Be the controller no more, in this process: a person has to look at the disk of the node, and restart it."""
        _log.critical("node %s is the controller no more: %s", self.context.spec.node_id, reason)
        self._has_stopped = True
        self._drop_machine(ErrorCode.NOT_CONTROLLER)

    # Answers

    def _respond(self, effect: Respond) -> None:
        """Answer, if this node is still the controller beyond doubt."""
        answer = effect.answer
        if isinstance(answer, NodeRegistered) and answer.error_code is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._say_once(str(answer.message))
        if self._quorum.holds():
            self.context.answer(effect.answer)
        else:
            # It is decided, and may be committed: NOT_CONTROLLER would say that nothing has been done.
            unknown = "this node may not be the controller any more; the change may have been made, ask again"
            self.context.answer(effect.request.refused(ErrorCode.REQUEST_TIMED_OUT, unknown))

    def _say_once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.error("%s", what)

    def _refuse(self, request: Request) -> None:
        self.context.answer(not_controller(request, self.context.image, self._quorum.leader))

    # Nodes

    def _resume(self) -> None:
        """Start the dedicated nodes that the last incarnation has decided upon and may not have come to start."""
        if self._is_resumed or self._state_machine is None:
            return
        self._is_resumed = True
        dedicated = tuple(node for node in self._state_machine.image.plan.values() if node.dedicated_to is not None)
        if dedicated:
            self._off_the_loop(self.context.supervisor.start_nodes, dedicated)

    def _stop_if_retired(self, node_id: int, image: MetadataImage) -> None:
        """Stop a dedicated node that the last controller decided to stop and did not; its id never comes back."""
        if FIRST_DEDICATED_NODE_ID <= node_id < image.next_node_id and node_id not in image.plan:
            self._off_the_loop(self.context.supervisor.stop_nodes, (node_id,))

    def _off_the_loop(self, act: Callable[[_Nodes], None], nodes: _Nodes) -> None:
        """Start or stop nodes without making the clients of the controller wait."""
        future = self.context.loop.run_in_executor(None, act, nodes)
        future.add_done_callback(_log_failure)

    # The metadata log

    def _append(self, effect: LogChanges) -> None:
        """Propose the changes of a turn; where nothing was appended, the state machine is ahead of the log."""
        try:
            end_offset = self._quorum.propose(log_records.encode_changes(effect.changes))
        except LogWriteFailed as error:
            _log.error("%s", error)
            self._drop_machine(ErrorCode.KAFKA_STORAGE_ERROR)
            self._take_over()
        else:
            self._uncommitted.append((end_offset, effect.position))

    def _newly_committed(self) -> list[ChangesCommitted]:
        """How far the state machine's appends are committed, where it does not know yet."""
        committed: list[ChangesCommitted] = []
        while self._uncommitted and self._uncommitted[0][0] <= self._quorum.committed_offset:
            committed = [ChangesCommitted(self._uncommitted.popleft()[1])]
        return committed

    def _snapshot(self) -> None:
        """Now and then, write the whole image, and once that is committed, delete what led to it."""
        if self._state_machine is None:
            return
        if self._image_offset is None and self._is_image_due():
            offset = self._quorum.end_offset
            try:
                self._quorum.propose([log_records.encode_image(self._state_machine.latest_image)])
            except LogWriteFailed as error:
                _log.warning("the image of the metadata is written again in a while: %s", error)
                self._no_snapshot_until_ms = self.context.steady_ms() + SNAPSHOT_RETRY_MS
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
        """Whether enough has come since the last one, and the disk has not just refused it."""
        return self.context.steady_ms() >= self._no_snapshot_until_ms and self._is_log_long()

    def _is_log_long(self) -> bool:
        return self._quorum.end_offset - self._snapshot_offset >= _SNAPSHOT_INTERVAL

    def _scrub(self) -> None:
        """Read a piece of the log, if that is due. Where it is damaged, the next start repairs it from other voters.

        A single voter goes on: all of its metadata is in memory, and in what the nodes keep.
        """
        damaged = self._logs.scrub(self.context.steady_ms())
        if damaged is None:
            return
        partition, error = damaged
        if not self._quorum.is_alone:
            raise error
        self.damaged[partition] = str(error)
        _log.critical(
            "the metadata log of node %s is damaged, and there is no other voter to repair it from: %s. Before the "
            "node is restarted, stop the cluster and have `eagleray storage restore-metadata` make it again",
            self.context.spec.node_id,
            error,
        )

    @property
    def cuts(self) -> Mapping[str, int]:
        """How often an opening of the metadata log has cut off its end, and why."""
        return {str(verdict): count for verdict, count in self._logs.cuts.items()}

    # Starting and stopping

    def next_due_ms(self) -> int:
        """When the quorum is due, or the state machine, which acts only while this node surely is the controller."""
        due_ms = min(self._quorum.next_due_ms, self._logs.next_scrub_ms)
        if self._state_machine is None or not self._quorum.holds():
            return due_ms
        if not self._is_resumed or self._has_to_snapshot():
            return AT_ONCE_MS
        if self._image_offset is None and self._is_log_long():
            due_ms = min(due_ms, self._no_snapshot_until_ms)
        return min(due_ms, self._state_machine.next_due_ms)

    def on_due(self) -> None:
        """Let the quorum go on, followers' waits expire and sessions end, and keep the log short."""
        self._quorum.tick()
        self._scrub()
        self._go_on()
        if self._state_machine is None or not self._quorum.holds():
            return
        self._resume()
        self._take_turn([Tick()])
        self._snapshot()

    def close(self) -> None:
        """Close the log."""
        self._logs.close_all()


def not_controller(request: Request, image: MetadataImage, leader: int) -> Answer:
    """Return the answer that sends a client to the controller; `image` is what this node follows.

    Questions about the metadata are answered as any node does it, but a client that wants the controller's word can
    tell.
    """
    if isinstance(request, DescribeConfigs):
        return describe_configs(image, request)
    if isinstance(request, GetMetadata):
        return answer_metadata(image, request, ErrorCode.NOT_CONTROLLER)
    hint = ", and does not know which is; try again" if leader == NO_NODE else f"; node {leader} is"
    return request.refused(ErrorCode.NOT_CONTROLLER, f"this node is not the controller{hint}")


def _log_failure(future: asyncio.Future[None]) -> None:
    error = future.exception()
    if error is not None:
        _log.error("nodes could not be started or stopped", exc_info=error)
