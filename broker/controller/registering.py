"""Nodes that come, for the first time or again."""

from __future__ import annotations

from eagleray.broker.controller.changes import LeadersChanged, NewLeader, NodeJoined
from eagleray.broker.controller.decisions import Decision, refuse
from eagleray.broker.controller.events import NodeRegistered, RegisterNode
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode


def register_node(request: RegisterNode, image: MetadataImage) -> Decision:
    """Let a planned node join; what another incarnation of it led begins a new leader epoch, in the same append."""
    node, planned = request.node, image.plan.get(request.node.node_id)
    if planned is None:
        return refuse(request, ErrorCode.INVALID_REGISTRATION, f"node {node.node_id} is not planned")
    if set(planned.roles) != set(node.roles):
        roles = f"registers with roles {list(node.roles)}, but is planned with {list(planned.roles)}"
        return refuse(request, ErrorCode.INVALID_REGISTRATION, f"node {node.node_id} {roles}")

    def answer(after: MetadataImage) -> NodeRegistered:
        return NodeRegistered(request.request_id, ErrorCode.NONE, after)

    known = image.nodes.get(node.node_id)
    if known == node:
        return Decision(answer)
    is_another_life = known is None or known.incarnation != node.incarnation
    led = image.led_by(node.node_id) if is_another_life else ()
    leaders = LeadersChanged(tuple(_bumped(image, partition) for partition in led))
    return Decision(answer, (NodeJoined(node), leaders) if led else (NodeJoined(node),))


def _bumped(image: MetadataImage, partition: TopicPartition) -> NewLeader:
    known = image.find(partition)
    assert known is not None
    return NewLeader(partition, known.leader, known.leader_epoch + 1, known.replicas, known.isr)
