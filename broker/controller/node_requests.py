"""What nodes ask of the controller: to register, to live on by a heartbeat, another in-sync set, and producer ids."""

from __future__ import annotations

from typing import Final

from eagleray.broker.controller.decisions import Decision, Refusal, decide, refuse
from eagleray.broker.controller.events import NodeRegistered, ProducerIdsReserved, RegisterNode, ReserveProducerIds
from eagleray.broker.controller.isr_changes import judge_isr
from eagleray.broker.controller.replica_events import ChangeIsr, IsrChanged, NodeBeat, NodeBeatAnswered
from eagleray.broker.controller.replication_control import ReplicationControl
from eagleray.broker.metadata.changes import ProducerIdsTaken
from eagleray.broker.metadata.directory_identity import foreign
from eagleray.broker.metadata.image import MetadataImage
from eagleray.protocol.errors import ErrorCode

LAST_PRODUCER_ID: Final = 2**63 - 1


def register_node(
    request: RegisterNode, image: MetadataImage, replication: ReplicationControl, now_ms: int
) -> Decision:
    """Let a planned node join; what a new incarnation of it leads begins a new leader epoch, in the same append.

    A node whose data directory belongs to another cluster is refused: it would serve records that are not this one's.
    So is one that knows more than the log does: it would learn that topics are gone which were never deleted.
    An incarnation that another has replaced, or that was given up, is told which one it has to come after. One in doubt
    has to ask again until it is known who else lives.
    """
    node, planned = request.node, image.plan.get(request.node.node_id)
    misfit = _problem_with_position(request, image)
    if misfit is not None:
        return refuse(request, *misfit)
    if planned is None:
        return refuse(request, ErrorCode.INVALID_REGISTRATION, f"node {node.node_id} is not planned")
    if set(planned.roles) != set(node.roles):
        roles = f"registers with roles {list(node.roles)}, but is planned with {list(planned.roles)}"
        return refuse(request, ErrorCode.INVALID_REGISTRATION, f"node {node.node_id} {roles}")
    if replication.is_over(node, image):
        newest = image.incarnations[node.node_id]
        text = f"incarnation {node.incarnation} of node {node.node_id} is over; expected one after {newest}"
        return decide(NodeRegistered(request.request_id, ErrorCode.STALE_BROKER_EPOCH, None, text, newest))

    if replication.has_to_wait(request, image, now_ms):
        text = f"node {node.node_id} may have lost what it flushed; it is not known yet who else has it"
        return refuse(request, ErrorCode.BROKER_NOT_AVAILABLE, text)

    def answer(after: MetadataImage) -> NodeRegistered:
        return NodeRegistered(request.request_id, ErrorCode.NONE, after)

    return Decision(answer, replication.node_came(request, image, now_ms))


def _problem_with_position(request: RegisterNode, image: MetadataImage) -> Refusal | None:
    """Say why a node must not follow these metadata: they are another cluster's, or less than it knows."""
    node_id, known = request.node.node_id, request.position
    if known.cluster_id and image.cluster_id and known.cluster_id != image.cluster_id:
        text = foreign(known.cluster_id, image.cluster_id, f"the data directory of node {node_id}")
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if image.includes(known):
        return None
    text = (
        f"node {node_id} knows the metadata up to {known}, and the controller's log has only {image.position}, or "
        "other changes: it has lost some. The node keeps what it knows, and does not join. Restore "
        "logs/__cluster_metadata-0 of the controller from where it is whole, or stop the cluster and have `eagleray "
        "storage restore-metadata` make it again"
    )
    return Refusal(ErrorCode.STALE_CONTROLLER_EPOCH, text)


def take_beat(request: NodeBeat, image: MetadataImage, replication: ReplicationControl, now_ms: int) -> Decision:
    """Take a heartbeat; leaders are elected for what the node has resigned from."""
    answer, changes = replication.heartbeat(request.heartbeat, image, now_ms)
    return decide(NodeBeatAnswered(request.request_id, answer), changes)


def change_isr(request: ChangeIsr, image: MetadataImage) -> Decision:
    """Take a leader's proposal, or refuse it for good."""
    answer, changes = judge_isr(request.proposal, image)
    return decide(IsrChanged(request.request_id, answer), changes)


def reserve_producer_ids(request: ReserveProducerIds, image: MetadataImage) -> Decision:
    """Give the ids that come after all that were given: no id belongs to two nodes, whatever crashes."""
    first_id = image.next_producer_id
    if request.count < 1:
        return refuse(request, ErrorCode.INVALID_REQUEST)
    if first_id + request.count > LAST_PRODUCER_ID:
        return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    answer = ProducerIdsReserved(request.request_id, ErrorCode.NONE, first_id, request.count)
    return decide(answer, [ProducerIdsTaken(first_id + request.count)])
