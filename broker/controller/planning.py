"""Which nodes belong to the cluster, and who takes over from those that are gone."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.decisions import Decision, Refusal, refuse
from eagleray.broker.controller.elections import changed, partitions_of
from eagleray.broker.controller.events import PlanAnswered, PlanNodes
from eagleray.broker.controller.new_partitions import with_min_isr
from eagleray.broker.controller.placement import Placement, first_kept_by, role_for
from eagleray.broker.controller.relocating import Relocation
from eagleray.broker.metadata.changes import Change, ClusterCreated, NodesPlanned, NodesUnplanned, TopicCreated
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.machines import problem_with_machines, renamed_machines
from eagleray.broker.metadata.nodes import FIRST_DEDICATED_NODE_ID, PlannedNode, ProcessRole
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.broker.settings import InvalidConfig
from eagleray.protocol.errors import ErrorCode

_INTERNAL_CONFIGS: Final = {
    "cleanup.policy": "compact",
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
    """Take over a plan: replicas leave the nodes that are not in it, and the first plan makes the internal topics.

    No node leaves the plan that still has replicas. A plan that would lose what was acknowledged is refused.
    """
    # It comes first: what else is wrong with such a plan may have been right when it was made. Who asks again after no
    # answer came finds the plan that it wants, which is as good.
    if request.made_from is not None and shared_nodes(image) not in (request.made_from, request.nodes):
        return refuse(request, ErrorCode.INVALID_UPDATE_VERSION, "another call has changed the plan meanwhile")
    problem = _problem_with(request.nodes, image) or problem_with_machines(request.nodes, image)
    if problem is not None:
        return refuse(request, ErrorCode.INVALID_REQUEST, problem)
    changes: list[Change] = []
    if not image.cluster_id:
        changes.append(ClusterCreated(base64.urlsafe_b64encode(new_id()).decode().rstrip("=")))
    renamed = renamed_machines(request.nodes, image)
    changes += _changes_of_plan(request.nodes, image, renamed)
    planned = image.apply(changes)
    relocated = _relocate(Relocation(image, planned, renamed), planned)
    if isinstance(relocated, Refusal):
        return refuse(request, *relocated)
    changes += relocated
    changes += _create_internal_topics(image.apply(changes), config, new_id)

    def answer(after: MetadataImage) -> PlanAnswered:
        nodes = tuple(after.plan[node_id] for node_id in sorted(after.plan))
        return PlanAnswered(request.request_id, ErrorCode.NONE, None, nodes)

    return Decision(answer, tuple(changes))


def shared_nodes(image: MetadataImage) -> tuple[PlannedNode, ...]:
    """The nodes that are planned by supervision, in the order of their ids; dedicated ones are the controller's."""
    return tuple(node for _, node in sorted(image.plan.items()) if node.dedicated_to is None)


def _problem_with(nodes: tuple[PlannedNode, ...], image: MetadataImage) -> str | None:
    if len({node.node_id for node in nodes}) < len(nodes):
        return "two planned nodes have the same id; expected each id once"
    for node in nodes:
        if not node.roles or not set(node.roles) <= set(ProcessRole):
            expected = ", ".join(ProcessRole)
            return f"node {node.node_id} is planned with roles {list(node.roles)}; expected some of {expected}"
        is_own = node.dedicated_to is None and 0 <= node.node_id < FIRST_DEDICATED_NODE_ID
        # Who repeats what it was answered names the dedicated nodes as well, which is as good as leaving them out.
        if not is_own and image.plan.get(node.node_id) != node:
            return (
                f"node {node.node_id} cannot be planned; expected ids from 0 to {FIRST_DEDICATED_NODE_ID - 1}, "
                f"because the others are given to dedicated nodes"
            )
    return None


def _changes_of_plan(
    nodes: tuple[PlannedNode, ...], image: MetadataImage, renamed: Mapping[str, str]
) -> Iterator[Change]:
    own = (node for node in image.plan.values() if node.dedicated_to is not None)
    moved = {
        node.node_id: msgspec.structs.replace(node, machine=renamed.get(node.machine, node.machine)) for node in own
    }
    wanted = {node.node_id: node for node in nodes} | moved
    news = tuple(node for node in wanted.values() if image.plan.get(node.node_id) != node)
    if news:
        yield NodesPlanned(news)
    node_ids = tuple(sorted(node_id for node_id in image.plan if node_id not in wanted))
    if node_ids:
        yield NodesUnplanned(node_ids)


def _relocate(relocation: Relocation, planned: MetadataImage) -> tuple[Change, ...] | Refusal:
    placement, relocated = Placement(planned), []
    deserted: set[ProcessRole] = set()
    for partition, state, rules in partitions_of(planned):
        after = relocation.relocate(partition, state, rules)
        if after == state:
            continue
        role = role_for(partition.topic)
        if not placement.has(role):
            deserted.add(role)
        elif isinstance(after, Refusal):
            return after
        else:
            relocated.append((partition, after))
    if deserted:
        roles = ", ".join(sorted(deserted))
        return Refusal(ErrorCode.INVALID_REQUEST, f"no node has role {roles}, which partitions are led by")
    return changed(relocated)


def _create_internal_topics(
    image: MetadataImage, config: ControllerConfig, new_id: Callable[[], bytes]
) -> Iterator[Change]:
    placement = Placement(image)
    wanted = {
        TRANSACTION_STATE: (
            config.transaction_state_log_replication_factor,
            config.transaction_state_log_min_isr,
            config.transaction_state_log_segment_bytes,
        ),
        CONSUMER_OFFSETS: (
            config.offsets_topic_replication_factor,
            config.min_insync_replicas,
            config.offsets_topic_segment_bytes,
        ),
    }
    for name, count in internal_partition_counts(config).items():
        role, (factor, min_isr, segment_bytes) = role_for(name), wanted[name]
        factor = min(factor, len(placement.machines(role)))
        if name not in image.topics and factor:
            # What is planned is expected to come, as soon as it is started.
            placed = placement.place(role, count, factor)
            partitions = tuple(first_kept_by(replicas, image.plan, image.first_leader_epoch) for replicas in placed)
            configs = _INTERNAL_CONFIGS | {"segment.bytes": str(segment_bytes)}
            yield TopicCreated(name, new_id(), with_min_isr(configs, min_isr, factor), partitions)
