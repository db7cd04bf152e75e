"""What nodes tell of themselves and of their replicas, and what the controller makes of it."""

from __future__ import annotations

import msgspec

from eagleray.broker.controller.decisions import Decision, decide
from eagleray.broker.controller.events import ChangeIsr, IsrChanged, NodeBeat, NodeBeatAnswered
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.messages import Message
from eagleray.broker.replication.controlling import ReplicationController
from eagleray.broker.replication.events import BrokerHeartbeatAnswered, IsrAnswered


class EndSessions(Message, frozen=True, tag=True):
    """Nodes were silent for too long: the log has to know. The controller tells itself so; no client waits for it."""


def take_beat(request: NodeBeat, image: MetadataImage, replication: ReplicationController, now_ms: int) -> Decision:
    """Take a heartbeat; leaders are elected for what the node has resigned from."""
    decided = replication.heartbeat(request.heartbeat, image, now_ms)
    assert isinstance(decided.answer, BrokerHeartbeatAnswered)
    return decide(NodeBeatAnswered(request.request_id, decided.answer), decided.changes)


def sign_of_life(request: NodeBeat) -> NodeBeat:
    """Return the heartbeat without what it says of resigning: no more than that the node lives.

    That much can always be answered from the image as the log has it. A node repeats what it has resigned from.
    """
    return NodeBeat(request.request_id, msgspec.structs.replace(request.heartbeat, resigned=()))


def change_isr(request: ChangeIsr, image: MetadataImage, replication: ReplicationController) -> Decision:
    """Take a leader's proposal, or refuse it for good."""
    decided = replication.propose_isr(request.proposal, image)
    assert isinstance(decided.answer, IsrAnswered)
    return decide(IsrChanged(request.request_id, decided.answer), decided.changes)


def end_sessions(image: MetadataImage, replication: ReplicationController, now_ms: int) -> Decision:
    """Log which nodes are registered no longer, and who leads in their place."""
    return Decision(None, replication.tick(image, now_ms).changes)
