"""The controller: its machine, with the metadata log at hand and the means to start and stop nodes."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from eagleray.actors.internal_topic import batches_of
from eagleray.actors.logs import Logs
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
from eagleray.broker.controller.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.controller.nodes import FIRST_DEDICATED_NODE_ID, Role
from eagleray.broker.controller.topics import CLUSTER_METADATA, NO_TOPIC_ID
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Appended, LogWriteFailed, Origin
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch, split_batches

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA, 0)
_SNAPSHOT_INTERVAL: Final = 2000
"""How many records may follow an image before the next is written and what was before it is deleted."""


class ControllerShell(Shell):
    """Keeps the metadata log, and has nodes started and stopped.

    Owns: the metadata log. What it appends is flushed before anybody hears of it: it is little, and everything else
    hangs on it. After a restart it replays the log; the nodes register again, in the same lives, and dedicated ones are
    started or stopped where the last life had no time to.
    """

    role: ClassVar = Role.CONTROLLER

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._logs = Logs(host.spec.data_dir, {})
        self._log = self._logs.open(METADATA_PARTITION, {"retention.ms": "-1"}, NO_TOPIC_ID, now_ms=host.now_ms())
        self._log.advance_high_watermark(self._log.log_end_offset)
        self._epoch = self._log.epochs.latest_epoch + 1
        self._snapshot_offset = self._log.log_start_offset
        self._is_resumed = False
        self._machine = Controller(
            controller_config(host.spec.settings),
            self._replay(),
            lambda: uuid.uuid4().bytes,
            now_ms=host.steady_ms(),
            replication=replication_config(host.spec.settings),
        )

    def _replay(self) -> MetadataImage:
        records = (record.value for batch in batches_of(self._log) for record in batch.records())
        return log_records.replay((bytes(value) for value in records if value is not None), EMPTY_IMAGE)

    def handle(self, events: list[Any]) -> None:
        """Let the machine take what happened, until nothing follows from it any more."""
        while events:
            outcomes = []
            for event in events:
                if isinstance(event, RegisterNode):
                    self._stop_if_retired(event.node.node_id)
                for effect in self._machine.handle(event, self.host.steady_ms()):
                    if isinstance(effect, LogChanges):
                        outcomes.append(self._append(effect))
                    elif isinstance(effect, StartNodes):
                        self._off_the_loop(self.host.supervisor.start_nodes, effect.nodes)
                    elif isinstance(effect, StopNodes):
                        self._off_the_loop(self.host.supervisor.stop_nodes, effect.node_ids)
                    else:
                        self.host.answer(effect)
            events = outcomes

    def _resume(self) -> None:
        """Start the dedicated nodes that the last life has decided upon and may not have come to start."""
        if self._is_resumed:
            return
        self._is_resumed = True
        dedicated = tuple(node for node in self._machine.image.plan.values() if node.dedicated_to is not None)
        if dedicated:
            self._off_the_loop(self.host.supervisor.start_nodes, dedicated)

    def _stop_if_retired(self, node_id: int) -> None:
        """Stop a dedicated node that the last life has decided to stop and did not come to; its id never comes back."""
        image = self._machine.image
        if FIRST_DEDICATED_NODE_ID <= node_id < image.next_node_id and node_id not in image.plan:
            self._off_the_loop(self.host.supervisor.stop_nodes, (node_id,))

    def _off_the_loop(self, act: Callable[[Any], None], nodes: Any) -> None:  # noqa: ANN401 - what the act takes
        """Start or stop nodes without making everybody wait who asks the controller."""
        future = self.host.loop.run_in_executor(None, act, nodes)
        future.add_done_callback(_log_failure)

    # The metadata log

    def _append(self, effect: LogChanges) -> ChangesLogged | ChangesLost:
        try:
            self._write(log_records.encode_changes(effect.changes))
        except LogWriteFailed as error:
            _log.error("%s", error)
            return ChangesLost(effect.token, ErrorCode.KAFKA_STORAGE_ERROR)
        return ChangesLogged(effect.token)

    def _write(self, values: list[bytes]) -> None:
        now_ms = self.host.now_ms()
        records = [NewRecord(value, timestamp=now_ms) for value in values]
        (result,) = self._log.append(
            split_batches(build_batch(records)), leader_epoch=self._epoch, now_ms=now_ms, origin=Origin.COORDINATOR
        )
        assert isinstance(result, Appended), f"nobody else writes the metadata log: {result}"
        # A flush that fails ends the process: whether the changes are there is then for the log to say.
        self._log.flush()
        self._log.advance_high_watermark(self._log.log_end_offset)

    def _snapshot(self) -> None:
        """Write the whole image, and delete what led to it."""
        if self._log.log_end_offset - self._snapshot_offset < _SNAPSHOT_INTERVAL:
            return
        offset = self._log.log_end_offset
        try:
            self._write([log_records.encode_image(self._machine.image)])
            self._log.delete_records(offset)
        except LogWriteFailed as error:
            _log.warning("%s", error)
            return
        self._snapshot_offset = offset

    # Its life

    def tick(self) -> None:
        """Let followers' waits expire and sessions end, and keep the log short."""
        self._resume()
        self.handle([Tick()])
        self._snapshot()

    def close(self) -> None:
        """Close the log."""
        self._logs.close_all()


def _log_failure(future: asyncio.Future[None]) -> None:
    error = future.exception()
    if error is not None:
        _log.error("nodes could not be started or stopped", exc_info=error)
