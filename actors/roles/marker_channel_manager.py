"""The marker channel manager: takes decided transactions from coordinators and has their markers written."""

from __future__ import annotations

from typing import ClassVar, Protocol

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.lanes.messages import MarkersFinished, MarkersRequested, WriteGroupMarkers
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.roles.role import Role, RoleContext
from eagleray.broker.controller.events import GetMetadata, MetadataAnswered
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE, ProcessRole
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS
from eagleray.broker.partitions import events as leader_events
from eagleray.broker.partitions.events import MarkersAnswered
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions import marker_events
from eagleray.broker.transactions.events import MarkersWritten, SendMarkers
from eagleray.broker.transactions.marker_events import NO_LEADER
from eagleray.broker.transactions.markers import MarkerChannelManager, MarkerConfig


class MarkerChannelManagerContext(RoleContext, Protocol):
    """What else the marker channel manager uses of its node: other nodes."""

    peers: Peers
    controller: ControllerChannel


class MarkerChannelManagerRole(Role):
    """Calls leaders for its state machine.

    Owns: who waits for which transaction. Persists nothing: when this process ends, the coordinators see their
    questions unanswered and ask the manager that comes after it.
    """

    process_role: ClassVar = ProcessRole.MARKERS

    context: MarkerChannelManagerContext

    def __init__(self, context: MarkerChannelManagerContext) -> None:
        super().__init__(context)
        self._state_machine = MarkerChannelManager(MarkerConfig())
        self._askers: dict[tuple[str, int, int, int], int] = {}

    def handle(self, events: list[MarkersRequested | marker_events.MarkerEvent]) -> None:
        """Let the state machine take what happened, and carry out what it wants."""
        now_ms = self.context.steady_ms()
        for event in events:
            if type(event) is MarkersRequested:
                self._askers[_key_of(event.markers)] = event.request_id
                effects = self._state_machine.handle(event.markers, now_ms)
            else:
                effects = self._state_machine.handle(event, now_ms)
            for effect in effects:
                self._carry_out(effect)

    def _carry_out(self, effect: marker_events.MarkerEffect) -> None:
        match effect:
            case MarkersWritten():
                request_id = self._askers.pop(_key_of(effect), None)
                if request_id is not None:
                    self.context.answer(MarkersFinished(request_id))
            case marker_events.MarkerCall():
                self._write(effect)
            case marker_events.ResolveLeaders():
                self._resolve(effect.partitions)

    def _write(self, call: marker_events.MarkerCall) -> None:
        """Call a leader."""

        def on_reply(reply: MarkersAnswered | None) -> None:
            if reply is None:
                self.post(marker_events.MarkerCallUnanswered(call.leader, call.call_id))
            else:
                self.post(marker_events.MarkerCallAnswered(call.leader, call.call_id, reply.error_codes))

        node_id, is_of_group = divmod(call.leader, 2)
        message_type = WriteGroupMarkers if is_of_group else leader_events.WriteMarkers
        self.context.peers.ask(node_id, on_reply, message_type, call.markers)

    # Who leads what

    def _resolve(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Say who leads partitions; of what this node does not know, the controller knows whether it exists."""
        image = self.context.image
        known = {partition: _leader_in(image, partition) for partition in partitions if image.find(partition)}
        unknown = tuple(partition for partition in partitions if partition not in known)
        if known:
            self.post(marker_events.LeadersLearned(known))
        if unknown:
            self._ask_controller(unknown)

    def _ask_controller(self, partitions: tuple[TopicPartition, ...]) -> None:
        def on_reply(reply: MetadataAnswered | None) -> None:
            if reply is None:
                self.post(marker_events.LeadersLearned(dict.fromkeys(partitions, NO_LEADER)))
                return
            deleted = tuple(partition for partition in partitions if reply.image.find(partition) is None)
            found = {
                partition: _leader_in(reply.image, partition) for partition in partitions if partition not in deleted
            }
            if deleted:
                self.post(marker_events.PartitionsDeleted(deleted))
            if found:
                self.post(marker_events.LeadersLearned(found))

        topics = tuple({partition.topic for partition in partitions})
        self.context.controller.ask(on_reply, GetMetadata, topics)

    def next_due_ms(self) -> int:
        """When something has waited long enough to be tried again."""
        return self._state_machine.next_due_ms

    def on_due(self) -> None:
        """Let the state machine try again what has waited long enough."""
        self.handle([Tick()])


def _key_of(message: SendMarkers | MarkersWritten) -> tuple[str, int, int, int]:
    return message.transactional_id, message.log_partition, message.coordinator_epoch, message.decision


def _leader_in(image: MetadataImage, partition: TopicPartition) -> int:
    """Number the leaders so that a node's group coordinator and its partition leader are two."""
    leader = image.leader_of(partition)
    if leader == NO_NODE:
        return NO_LEADER
    return leader * 2 + (partition.topic == CONSUMER_OFFSETS)
