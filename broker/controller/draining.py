"""Machines that an operator wants to do without: their replicas go elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from eagleray.broker.controller.decisions import Decision, Refusal, decide, refuse
from eagleray.broker.controller.placement import Placement, role_for
from eagleray.broker.controller.reassignment import reassign
from eagleray.broker.controller.reassignment_progress import target_of
from eagleray.broker.controller.replica_events import DrainAnswered, DrainNodes
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import Change, DrainingChanged
from eagleray.broker.metadata.image import MetadataImage
from eagleray.protocol.errors import ErrorCode


def drain_nodes(request: DrainNodes, image: MetadataImage) -> Decision:
    """Begin to move all replicas away from some nodes, or let these have replicas again.

    All of them have somewhere to go, or none is moved. Asking again changes nothing, but for replicas that have no
    place to go to any more.
    """
    nodes = _nodes_meant(request, image)
    if not nodes:
        meant = f"node {request.node_id}" if request.machine is None else f"machine {request.machine!r}"
        return refuse(request, ErrorCode.INVALID_REQUEST, f"there is no {meant} in the plan; expected one that is")
    if request.undo:
        left = tuple(node_id for node_id in image.draining if node_id not in nodes)
        return decide(DrainAnswered(request.request_id, ErrorCode.NONE), [*_draining(left, image)])
    changes: list[Change] = [*_draining(tuple(sorted({*image.draining, *nodes})), image)]
    moves = _moves(nodes, image.apply(changes))
    if isinstance(moves, Refusal):
        return refuse(request, *moves)
    return decide(DrainAnswered(request.request_id, ErrorCode.NONE, None, len(moves)), [*changes, *moves])


def _nodes_meant(request: DrainNodes, image: MetadataImage) -> set[int]:
    if request.machine is None:
        return {node_id for node_id in image.plan if node_id == request.node_id}
    return {node.node_id for node in image.plan.values() if node.machine == request.machine}


def _draining(node_ids: tuple[int, ...], image: MetadataImage) -> Iterator[Change]:
    if node_ids != image.draining:
        yield DrainingChanged(node_ids)


def _moves(nodes: set[int], image: MetadataImage) -> list[Change] | Refusal:
    placement = Placement(image)
    changes: list[Change] = []
    for partition in dict.fromkeys(each for node_id in sorted(nodes) for each in image.kept_by(node_id)):
        target = _target_without(nodes, partition, image, placement)
        if isinstance(target, Refusal):
            return target
        error_code, moved = reassign(partition, target, image)
        assert error_code is ErrorCode.NONE, "the target is of planned nodes, each once"
        changes += moved
    return changes


def _target_without(
    nodes: set[int], partition: TopicPartition, image: MetadataImage, placement: Placement
) -> list[int] | Refusal:
    state = image.find(partition)
    assert state is not None
    target = list(target_of(state))
    taken = [node_id for node_id in state.replicas if image.plan[node_id].dedicated_to is None]
    for place, node_id in enumerate(target):
        if node_id not in nodes:
            continue
        if node_id not in taken:
            text = f"{partition} has node {node_id} to itself, which cannot be moved; expected its topic deleted first"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        found = placement.add_to(role_for(partition.topic), taken)
        if found is None:
            text = f"no machine can take {partition} from node {node_id}; expected one more that has none of it"
            return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        target[place] = found
        taken.append(found)
    return target
