"""What the controller says to a leader's proposal of an in-sync set."""

from __future__ import annotations

import msgspec

from eagleray.broker.controller.elections import Rules, changed
from eagleray.broker.controller.reassignment_progress import completed, fencing_removed
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import IsrAnswered, ProposeIsr
from eagleray.protocol.errors import ErrorCode


def judge_isr(proposal: ProposeIsr, image: MetadataImage) -> tuple[IsrAnswered, tuple[Change, ...]]:
    """Judge a proposal by logged metadata alone, so that what is refused at a partition epoch stays refused at it."""
    state = image.find(proposal.partition)
    if state is None:
        return IsrAnswered(proposal.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, proposal.partition_epoch), ()
    rules = Rules.of(image.topics[proposal.partition.topic])
    error_code = _problem_with(proposal, state, image, rules)
    proposed = tuple(replica.node_id for replica in proposal.isr)
    if error_code is not ErrorCode.NONE or proposed == state.isr:
        return _answer(proposal, error_code, state), ()
    after = fencing_removed(state, completed(msgspec.structs.replace(state, isr=proposed)))
    after = msgspec.structs.replace(after, partition_epoch=state.partition_epoch + 1)
    return _answer(proposal, ErrorCode.NONE, after), changed([(proposal.partition, after)])


def _problem_with(proposal: ProposeIsr, state: PartitionImage, image: MetadataImage, rules: Rules) -> ErrorCode:
    if (proposal.leader, proposal.leader_epoch) != (state.leader, state.leader_epoch):
        return ErrorCode.FENCED_LEADER_EPOCH
    proposed = [replica.node_id for replica in proposal.isr]
    if proposal.partition_epoch != state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if state.leader not in proposed or not set(proposed) <= set(state.replicas) or len(set(proposed)) < len(proposed):
        return ErrorCode.INVALID_REQUEST
    if not set(state.isr) <= set(proposed) and len(proposed) < rules.least_in_sync(state):
        return ErrorCode.INVALID_REQUEST
    for replica in proposal.isr:
        node = image.nodes.get(replica.node_id)
        if replica.node_id not in state.isr and (node is None or node.incarnation != replica.incarnation):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _answer(proposal: ProposeIsr, error_code: ErrorCode, state: PartitionImage) -> IsrAnswered:
    return IsrAnswered(
        proposal.partition,
        error_code,
        proposal.partition_epoch,
        state.leader_epoch,
        state.partition_epoch,
        state.isr,
        state.replicas,
    )
