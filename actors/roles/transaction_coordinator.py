"""The transaction coordinator's role: its state machine, the transaction log, and calls to the other roles."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from msgspec.structs import replace

from eagleray.actors.common.settings import config_of
from eagleray.actors.lanes.messages import MarkersFinished, MarkersRequested
from eagleray.actors.roles.coordinator_role import CoordinatorContext, CoordinatorRole
from eagleray.actors.roles.outcome_queries import OutcomeQueryCarrier, OutcomeQueryContext
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE, ProcessRole
from eagleray.broker.metadata.topic_configs import NO_MAX_HOLD_MS, max_hold_ms
from eagleray.broker.metadata.topics import TRANSACTION_STATE
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import (
    BeginBranched,
    HeldTooLong,
    HoldLimitsKnown,
    InitProducerId,
    MarkersForgotten,
    MarkersWritten,
    ProducerIdsReceived,
    RequestProducerIds,
    SendMarkers,
    TakePoolOver,
)
from eagleray.broker.transactions.log_records import append_transitions, replay
from eagleray.broker.transactions.origin import UNKNOWN_ORIGIN
from eagleray.broker.transactions.producer_ids import AllocateBlock, BlockAllocated
from eagleray.broker.transactions.resolver_events import AskResolver
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch

_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.1
_BEGIN: Final = (InitProducerId, BeginBranched, TakePoolOver)


class TransactionCoordinatorContext(CoordinatorContext, OutcomeQueryContext, Protocol):
    """What else the transaction coordinator uses of its node: what outcome queries do."""


class TransactionCoordinatorRole(CoordinatorRole):
    """Coordinates the transactional ids whose partitions of `__transaction_state` the metadata gives to its node.

    After a restart all of these partitions are loaded, and the state machine has the markers of decided transactions
    sent again.
    """

    process_role: ClassVar = ProcessRole.COORDINATOR

    def __init__(self, context: TransactionCoordinatorContext) -> None:
        super().__init__(context, TRANSACTION_STATE, replay=_replay, write=append_transitions)
        self._state_machine = TransactionCoordinator(
            config_of(CoordinatorConfig, context.spec.settings), self._topic.check_append
        )
        self._performers: dict[type, Callable[[Any], None]] = {
            SendMarkers: self._send_markers,
            RequestProducerIds: self._request_producer_ids,
            HeldTooLong: _log_held_too_long,
            **self._performers_of_failures(),
            AskResolver: OutcomeQueryCarrier(context, self.post).ask,
        }
        self._hold_limits_ms: dict[str, int] = {}
        self._marker_manager = NO_NODE
        self._has_lost_markers = False

    def receiver_of(self, message_type: type) -> Callable[[Any], None]:
        """Return what takes the messages of a type; those that begin something say where they come from."""
        return self._post_with_origin if message_type in _BEGIN else self.post

    def _post_with_origin(self, request: InitProducerId | BeginBranched | TakePoolOver) -> None:
        """Take a request, with what its connection shows in place of what a client says of itself."""
        host = self.context.peer_host(request.request_id)
        if host:
            # By a lane, on which clients have no principal.
            told = request.origin or UNKNOWN_ORIGIN
            request = replace(request, origin=replace(told, client_address=host, principal=""))
        self.post(request)

    # Markers

    def _send_markers(self, effect: SendMarkers) -> None:
        self.context.peers.ask(self._marker_manager, partial(self._on_markers, effect), MarkersRequested, effect)

    def _nearest(self, role: ProcessRole) -> int:
        """This node where it has the role, so that no call leaves the process; else one of its machine, else any."""
        spec, image = self.context.spec, self.context.image
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
            self.context.loop.call_later(_RETRY_S, self._ask_markers_again)

    def _ask_markers_again(self) -> None:
        self._has_lost_markers = False
        self.post(MarkersForgotten())

    # Producer ids

    def _request_producer_ids(self, effect: RequestProducerIds | None = None) -> None:  # noqa: ARG002 - it says no more
        self.context.peers.ask(self._nearest(ProcessRole.ALLOCATOR), self._on_producer_ids, AllocateBlock)

    def _on_producer_ids(self, reply: BlockAllocated | None) -> None:
        if reply is not None and reply.error_code is ErrorCode.NONE:
            self.post(ProducerIdsReceived(reply.first_id, reply.count))
        else:
            self.context.loop.call_later(_RETRY_S, self._request_producer_ids)

    # Starting and stopping

    def metadata_changed(self, previous: MetadataImage) -> None:  # noqa: ARG002 - what was before does not matter
        """Take over and give up partitions of the transaction log."""
        self._marker_manager = self._nearest(ProcessRole.MARKERS)
        limits_ms = _hold_limits_ms(self.context.image)
        if limits_ms != self._hold_limits_ms:
            self._hold_limits_ms = limits_ms
            self.post(HoldLimitsKnown(limits_ms))
        self._topic.metadata_changed()


def _hold_limits_ms(image: MetadataImage) -> dict[str, int]:
    """Give the topics that bound how long a transaction may hold their readers back."""
    limits_ms = {topic.name: max_hold_ms(topic.configs) for topic in image.topics.values()}
    return {name: limit_ms for name, limit_ms in limits_ms.items() if limit_ms != NO_MAX_HOLD_MS}


def _log_held_too_long(effect: HeldTooLong) -> None:
    _log.warning(
        "transactional id %r, producer %s, from %s %s: %s",
        effect.transactional_id,
        effect.producer.producer_id,
        effect.origin.client_address or "an unknown address",
        " ".join(filter(None, (effect.origin.client_id, effect.origin.principal))),
        effect.message,
    )


def _replay(batches: Iterable[RecordBatch]) -> dict[str, Snapshot]:
    records = (record for batch in batches if not batch.header.is_control for record in batch.records())
    return replay((bytes(record.key or b""), record.value) for record in records)
