"""Replicas that a client wants elsewhere: new ones are added first, and old ones go when all new ones are in sync."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eagleray.broker.controller.decisions import Decision, Refusal, decide, repeated
from eagleray.broker.controller.elections import changed, partitions_of
from eagleray.broker.controller.placement import problem_with_replicas, role_for
from eagleray.broker.controller.reassignment_progress import completed, fencing_removed, is_moving, target_of
from eagleray.broker.controller.replica_events import (
    ListReassignments,
    PartitionMove,
    PartitionResult,
    PartitionsAnswered,
    Reassignment,
    ReassignmentsListed,
    ReassignPartitions,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.limits import shown
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topic_configs import TopicConfig
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.protocol.errors import ErrorCode


def reassign_partitions(request: ReassignPartitions, image: MetadataImage) -> Decision:
    """Begin the moves that nothing speaks against, and end those that are taken back."""
    wrong = repeated(move.partition for move in request.moves)
    changes: list[Change] = []
    results: dict[TopicPartition, PartitionResult] = {}
    for move in request.moves:
        if move.partition in wrong:
            refusal = Refusal(ErrorCode.INVALID_REQUEST, "the request names this partition more than once")
            results[move.partition] = PartitionResult(move.partition, *refusal)
            continue
        results[move.partition], begun = _begin(move, image, may_change_factor=request.may_change_factor)
        changes += begun
    return decide(PartitionsAnswered(request.request_id, tuple(results.values())), changes)


def _begin(
    move: PartitionMove, image: MetadataImage, *, may_change_factor: bool
) -> tuple[PartitionResult, tuple[Change, ...]]:
    partition, state = move.partition, image.find(move.partition)
    if state is None:
        text = f"there is no partition {partition.partition} of {shown(partition.topic)}"
        return PartitionResult(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text), ()
    if move.target is None:
        code, changes = cancel(partition, image)
        is_done = code is ErrorCode.NONE
        return PartitionResult(partition, code, None if is_done else "no replicas of it are being moved"), changes
    refusal = _problem_with(partition, state, move.target, image)
    if refusal is None and not may_change_factor:
        refusal = _problem_with_factor(len(target_of(state)), len(move.target))
    if refusal is not None:
        return PartitionResult(partition, *refusal), ()
    code, changes = reassign(partition, move.target, image)
    return PartitionResult(partition, code), changes


def _problem_with(
    partition: TopicPartition, state: PartitionImage, target: tuple[int, ...], image: MetadataImage
) -> Refusal | None:
    if TopicConfig.parse(image.topics[partition.topic].configs).is_dedicated:
        text = "a partition with leader.placement=dedicated has a node of its own; expected no move of it"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    refusal = problem_with_replicas(target, image, role_for(partition.topic))
    if refusal is not None:
        return refusal
    # A machine keeps a partition in one directory, which two of its nodes cannot both write.
    kept_on = {image.plan[node_id].machine: node_id for node_id in state.replicas if node_id in image.plan}
    for node_id in target:
        keeper = kept_on.get(image.plan[node_id].machine, node_id)
        if keeper != node_id:
            text = (
                f"node {node_id} is on the machine of node {keeper}, which keeps the partition; expected node {keeper}"
            )
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return None


def _problem_with_factor(now: int, then: int) -> Refusal | None:
    if now == then:
        return None
    text = f"the replication factor is changed from {now} to {then}; expected {now}, or leave to change it"
    return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def list_reassignments(request: ListReassignments, image: MetadataImage) -> ReassignmentsListed:
    """Answer with the partitions whose replicas are being moved."""
    wanted = None if request.partitions is None else set(request.partitions)
    moving = (
        Reassignment(partition, state.replicas, state.adding, state.removing)
        for partition, state, _ in partitions_of(image)
        if is_moving(state) and (wanted is None or partition in wanted)
    )
    return ReassignmentsListed(request.request_id, ErrorCode.NONE, tuple(moving))


def reassign(
    partition: TopicPartition, target: Sequence[int], image: MetadataImage
) -> tuple[ErrorCode, tuple[Change, ...]]:
    """Begin to move a partition's replicas to other nodes, in place of a move that may be under way."""
    state = image.find(partition)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()
    if not target or len(set(target)) < len(target) or not set(target) <= set(image.plan):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, ()
    # What an earlier move has added, and this one does not want, goes at once unless it is in sync by now.
    kept = [node_id for node_id in state.replicas if node_id not in state.adding or node_id in state.isr]
    after = msgspec.structs.replace(
        state,
        replicas=(*target, *(node_id for node_id in kept if node_id not in target)),
        adding=tuple(node_id for node_id in target if node_id not in kept),
        removing=tuple(node_id for node_id in kept if node_id not in target),
    )
    after = fencing_removed(state, completed(after))
    return ErrorCode.NONE, () if after == state else changed([(partition, after)])


def cancel(partition: TopicPartition, image: MetadataImage) -> tuple[ErrorCode, tuple[Change, ...]]:
    """Go back to the replicas from before a move; those that were added go, unless they are in sync."""
    state = image.find(partition)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()
    if not is_moving(state):
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ()
    return reassign(partition, [node_id for node_id in state.replicas if node_id not in state.adding], image)
