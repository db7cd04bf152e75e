"""Which nodes belong to the cluster, and who takes over from those that are gone."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Final

from eagleray.broker.controller.changes import (
    Change,
    ClusterCreated,
    LeadersChanged,
    NewLeader,
    NodesPlanned,
    NodesUnplanned,
    TopicCreated,
)
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.decisions import Decision, refuse
from eagleray.broker.controller.events import PlanAnswered, PlanNodes
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import FIRST_DEDICATED_NODE_ID, PlannedNode, Role
from eagleray.broker.controller.placement import Placement, first_led_by, has_its_leader, role_for
from eagleray.broker.controller.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.config import InvalidConfig
from eagleray.protocol.errors import ErrorCode

_INTERNAL_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 * 1024**2),
    # A transaction with ten thousand branches is one record.
    "max.message.bytes": str(64 * 1024**2),
}


def internal_partition_counts(config: ControllerConfig) -> dict[str, int]:
    """Return how many partitions the internal topics have by the settings."""
    return {
        TRANSACTION_STATE: config.transaction_state_log_num_partitions,
        CONSUMER_OFFSETS: config.offsets_topic_num_partitions,
    }


def check_internal_topics(config: ControllerConfig, image: MetadataImage) -> None:
    """Refuse settings by which names would hash to other partitions than those that hold their state."""
    keys = {
        TRANSACTION_STATE: "transaction.state.log.num.partitions",
        CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    }
    for name, count in internal_partition_counts(config).items():
        topic = image.topics.get(name)
        if topic is not None and len(topic.partitions) != count:
            raise InvalidConfig(
                f"{keys[name]} is {count}, but {name} of this cluster has {len(topic.partitions)} partitions, "
                f"and cannot have another number; expected {len(topic.partitions)}"
            )


def plan_nodes(
    request: PlanNodes, image: MetadataImage, config: ControllerConfig, new_id: Callable[[], bytes]
) -> Decision:
    """Take over a plan: partitions leave the nodes that are not in it, and the first plan makes the internal topics."""
    complaint = _complaint_about(request.nodes, image)
    if complaint is not None:
        return refuse(request, ErrorCode.INVALID_REQUEST, complaint)
    changes: list[Change] = []
    if not image.cluster_id:
        changes.append(ClusterCreated(base64.urlsafe_b64encode(new_id()).decode().rstrip("=")))
    changes += _changes_of_plan(request.nodes, image)
    planned = image.apply(changes)
    placement = Placement(planned)
    orphans = [partition for partition in _partitions(planned) if not has_its_leader(planned, partition)]
    deserted = {role_for(orphan.topic) for orphan in orphans} - {role for role in Role if placement.candidates(role)}
    if deserted:
        roles = ", ".join(sorted(deserted))
        return refuse(request, ErrorCode.INVALID_REQUEST, f"no node has role {roles}, which partitions are led by")
    changes += _move(orphans, planned, placement)
    changes += _create_internal_topics(planned, config, placement, new_id)

    def answer(after: MetadataImage) -> PlanAnswered:
        nodes = tuple(after.plan[node_id] for node_id in sorted(after.plan))
        return PlanAnswered(request.request_id, ErrorCode.NONE, None, nodes)

    return Decision(answer, tuple(changes))


def _complaint_about(nodes: tuple[PlannedNode, ...], image: MetadataImage) -> str | None:
    if len({node.node_id for node in nodes}) < len(nodes):
        return "two planned nodes have the same id; expected each id once"
    for node in nodes:
        if not node.roles or not set(node.roles) <= set(Role):
            return f"node {node.node_id} is planned with roles {list(node.roles)}; expected some of {', '.join(Role)}"
        is_own = node.dedicated_to is None and 0 <= node.node_id < FIRST_DEDICATED_NODE_ID
        # Who repeats what it was answered names the dedicated nodes as well, which is as good as leaving them out.
        if not is_own and image.plan.get(node.node_id) != node:
            return (
                f"node {node.node_id} cannot be planned; expected ids from 0 to {FIRST_DEDICATED_NODE_ID - 1}, "
                f"because the others are given to dedicated nodes"
            )
    return None


def _changes_of_plan(nodes: tuple[PlannedNode, ...], image: MetadataImage) -> Iterator[Change]:
    news = tuple(node for node in nodes if image.plan.get(node.node_id) != node)
    if news:
        yield NodesPlanned(news)
    stays = {node.node_id for node in nodes}
    gone = (node for node in image.plan.values() if node.dedicated_to is None and node.node_id not in stays)
    node_ids = tuple(sorted(node.node_id for node in gone))
    if node_ids:
        yield NodesUnplanned(node_ids)


def _partitions(image: MetadataImage) -> Iterator[TopicPartition]:
    for topic in image.topics.values():
        for number in range(len(topic.partitions)):
            yield TopicPartition(topic.name, number)


def _move(orphans: list[TopicPartition], image: MetadataImage, placement: Placement) -> Iterator[Change]:
    """Give partitions to other nodes; with one replica, the replica moves along."""
    leaders = tuple(_led_anew(image, orphan, placement.take_over(role_for(orphan.topic))) for orphan in orphans)
    if leaders:
        yield LeadersChanged(leaders)


def _led_anew(image: MetadataImage, partition: TopicPartition, leader: int) -> NewLeader:
    return NewLeader(partition, leader, image.leader_epoch_of(partition) + 1, (leader,), (leader,))


def _create_internal_topics(
    image: MetadataImage, config: ControllerConfig, placement: Placement, new_id: Callable[[], bytes]
) -> Iterator[Change]:
    for name, count in internal_partition_counts(config).items():
        role = role_for(name)
        if name not in image.topics and placement.candidates(role):
            partitions = tuple(first_led_by(node_id) for node_id in placement.place(role, count))
            yield TopicCreated(name, new_id(), dict(_INTERNAL_CONFIGS), partitions)
