"""Nodes that come, for the first time or again."""

from __future__ import annotations

from eagleray.broker.controller.decisions import Decision, decide, refuse
from eagleray.broker.controller.events import NodeRegistered, RegisterNode
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.replication.controlling import NodeCame, ReplicationController
from eagleray.protocol.errors import ErrorCode


def register_node(
    request: RegisterNode, image: MetadataImage, replication: ReplicationController, now_ms: int
) -> Decision:
    """Let a planned node join; what a new life of it leads begins a new leader epoch, in the same append.

    A life that another has replaced, or that was given up, is told which one it has to come after. One in doubt has to
    ask again until it is known who else lives.
    """
    node, planned = request.node, image.plan.get(request.node.node_id)
    if planned is None:
        return refuse(request, ErrorCode.INVALID_REGISTRATION, f"node {node.node_id} is not planned")
    if set(planned.roles) != set(node.roles):
        roles = f"registers with roles {list(node.roles)}, but is planned with {list(planned.roles)}"
        return refuse(request, ErrorCode.INVALID_REGISTRATION, f"node {node.node_id} {roles}")
    if replication.is_over(node, image):
        newest = image.incarnations[node.node_id]
        text = f"life {node.incarnation} of node {node.node_id} is over; expected one after {newest}"
        return decide(NodeRegistered(request.request_id, ErrorCode.STALE_BROKER_EPOCH, None, text, newest))

    came = NodeCame(node, request.loss)
    if replication.has_to_wait(came, image, now_ms):
        text = f"node {node.node_id} may have lost what it flushed; it is not known yet who else has it"
        return refuse(request, ErrorCode.BROKER_NOT_AVAILABLE, text)

    def answer(after: MetadataImage) -> NodeRegistered:
        return NodeRegistered(request.request_id, ErrorCode.NONE, after)

    return Decision(answer, replication.node_came(came, image, now_ms).changes)
