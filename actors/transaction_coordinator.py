"""The transaction coordinator: its machine, with the transaction log, the marker manager and the allocator at hand."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Final

from eagleray.actors.internal_topic import InternalTopic
from eagleray.actors.messages import MarkersFinished, MarkersRequested
from eagleray.actors.settings import coordinator_config
from eagleray.actors.shell import Host, Shell
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import NO_NODE, Role
from eagleray.broker.controller.topics import TRANSACTION_STATE
from eagleray.broker.log import Appended, LogWriteFailed, PartitionLog
from eagleray.broker.messages import Message
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import (
    AppendFailed,
    AppendTransitions,
    Committed,
    MarkersForgotten,
    MarkersWritten,
    PartitionAssigned,
    PartitionLoaded,
    PartitionResigned,
    ProducerIdsReceived,
    RequestProducerIds,
    SendMarkers,
    Tick,
)
from eagleray.broker.transactions.log_records import encode_key, encode_value, replay
from eagleray.broker.transactions.producer_ids import AllocateBlock, BlockAllocated
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch

_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.1


class TransactionCoordinatorShell(Shell):
    """Coordinates the transactional ids whose partitions of `__transaction_state` the metadata gives to its node.

    Owns: what is written to the logs of these partitions. Everything that a turn decides is appended with one write for
    each partition; once it is replicated the machine is told, and what it has held back until then is carried out: with
    one replica in the same turn. A partition that could not be written to is loaded again. After a restart all of them
    are loaded, and the machine has the markers of decided transactions sent again.
    """

    role: ClassVar = Role.COORDINATOR
    rest_ms: ClassVar = 50

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._machine = TransactionCoordinator(coordinator_config(host.spec.settings), self._check_append)
        self._topic = InternalTopic(
            host,
            TRANSACTION_STATE,
            post=self.post,
            assigned=PartitionAssigned,
            loaded=PartitionLoaded,
            resigned=PartitionResigned,
            replay=_replay,
        )
        self._writable_logs: dict[int, PartitionLog] = {}
        """The logs that can be appended to in the turn at hand."""
        self._marker_manager = NO_NODE
        self._has_lost_markers = False

    def handle(self, events: list[Any]) -> None:
        """Let the machine take what happened, until nothing follows from it any more."""
        events = self._topic.admit(events)
        now_ms = self.host.now_ms()
        while events:
            events = self._take_turn(events, now_ms)

    def _take_turn(self, events: list[Any], now_ms: int) -> list[Any]:
        """Carry out all that the machine wants, and append; return what the machine has to know of that by now."""
        answer = self.host.answer
        appends: list[AppendTransitions] = []
        effect: Any
        for effect in self._machine.handle_all(events, now_ms):
            kind = type(effect)
            if kind is AppendTransitions:
                appends.append(effect)
            elif kind is SendMarkers:
                self._send_markers(effect)
            elif kind is RequestProducerIds:
                self._request_producer_ids()
            else:
                answer(effect)
        return self._append_all(appends, now_ms) if appends else []

    # The transaction log

    def _check_append(self, number: int, epoch: int) -> ErrorCode:
        """Tell the machine whether a partition can be appended to in this turn."""
        log = self._topic.log_to_write(number, epoch, self.host.steady_ms())
        if isinstance(log, ErrorCode):
            return log
        self._writable_logs[number] = log
        return ErrorCode.NONE

    def _append_all(self, appends: list[AppendTransitions], now_ms: int) -> list[Any]:
        """Append the transitions of each partition with one write; what failed comes first in what is returned."""
        failed: list[Any] = []
        committed: dict[int, list[Message]] = {}
        for append in appends:
            number, epoch = append.log_partition, append.coordinator_epoch
            if self._append(append, now_ms):
                committed[number] = [Committed(number, epoch, append.position)]
            else:
                failed.append(AppendFailed(number, epoch))
                self._topic.load_again(number, epoch)
        self._writable_logs.clear()
        return failed + self._topic.replicate(committed) if committed else failed

    def _append(self, append: AppendTransitions, now_ms: int) -> bool:
        records = [
            (encode_key(name), None if snapshot is None else encode_value(snapshot))
            for name, snapshot in append.transitions
        ]
        log = self._writable_logs[append.log_partition]
        try:
            result = log.append_records(records, leader_epoch=append.coordinator_epoch, now_ms=now_ms)
        except LogWriteFailed as error:
            _log.error("%s", error)
            return False
        return isinstance(result, Appended)

    # Markers

    def _send_markers(self, effect: SendMarkers) -> None:
        self.host.peers.ask(self._marker_manager, partial(self._on_markers, effect), MarkersRequested, effect)

    def _nearest(self, role: Role) -> int:
        """This node where it has the role, so that no call leaves the process; else one of its machine, else any."""
        spec, image = self.host.spec, self.host.image
        candidates = image.nodes_with(role)
        if spec.node_id in candidates:
            return spec.node_id
        near = tuple(node_id for node_id in candidates if image.plan[node_id].machine == spec.machine)
        candidates = near or candidates
        return candidates[spec.node_id % len(candidates)] if candidates else NO_NODE

    def _on_markers(self, asked: SendMarkers, reply: MarkersFinished | None) -> None:
        if reply is not None:
            self.post(
                MarkersWritten(asked.transactional_id, asked.log_partition, asked.coordinator_epoch, asked.decision)
            )
        elif not self._has_lost_markers:
            # The manager is gone, with all that it was asked; it gets a moment to come back.
            self._has_lost_markers = True
            self.host.loop.call_later(_RETRY_S, self._ask_markers_again)

    def _ask_markers_again(self) -> None:
        self._has_lost_markers = False
        self.post(MarkersForgotten())

    # Producer ids

    def _request_producer_ids(self) -> None:
        self.host.peers.ask(self._nearest(Role.ALLOCATOR), self._on_producer_ids, AllocateBlock)

    def _on_producer_ids(self, reply: BlockAllocated | None) -> None:
        if reply is not None and reply.error_code is ErrorCode.NONE:
            self.post(ProducerIdsReceived(reply.first_id, reply.count))
        else:
            self.host.loop.call_later(_RETRY_S, self._request_producer_ids)

    # Its life

    def metadata_changed(self, previous: MetadataImage) -> None:  # noqa: ARG002 - what was before does not matter
        """Take over and give up partitions of the transaction log."""
        self._marker_manager = self._nearest(Role.MARKERS)
        self._topic.metadata_changed()

    def next_due_ms(self) -> int:
        """When the machine has something to do, or what waits for the lease may be taken."""
        return self._topic.next_due_ms or self._steady(self._machine.next_due_ms)

    def on_due(self) -> None:
        """Let the machine look after time, and take what has waited for the lease."""
        self.handle([Tick()])

    def close(self) -> None:
        """Stop to load."""
        self._topic.close()


def _replay(batches: Iterable[RecordBatch]) -> dict[str, Snapshot]:
    records = (record for batch in batches if not batch.header.is_control for record in batch.records())
    return replay((bytes(record.key or b""), record.value) for record in records)
