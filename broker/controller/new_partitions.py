"""Partitions in the making: where they are put, and the nodes that some of them are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.decisions import Decision, Refusal, decide
from eagleray.broker.controller.events import StartNodes, TopicsAnswered
from eagleray.broker.controller.placement import Placement, first_kept_by, problem_with_replicas
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import Change, NodesPlanned
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import PlannedNode, ProcessRole
from eagleray.broker.metadata.topics import INTERNAL_TOPICS, PartitionImage
from eagleray.protocol.errors import ErrorCode

PARTITIONS_LIMIT: Final = 10_000
"""How many partitions one request may add to a topic; more are taken for a mistake, as in Kafka."""


Assignments: TypeAlias = tuple[tuple[int, ...], ...]
"""The replicas of each of some partitions, in their order."""


def with_min_isr(configs: Mapping[str, str], default: int, replication_factor: int) -> dict[str, str]:
    """Return a new topic's settings with how many replicas have to be in sync, where that is not told or one.

    No more can be than there are, or no producer could write.
    """
    least = min(default, replication_factor)
    return dict(configs) if least == 1 else {"min.insync.replicas": str(least), **configs}


class NewPartitions:
    """The partitions that one decision makes; what it has placed counts for what it places next."""

    def __init__(self, image: MetadataImage, config: ControllerConfig) -> None:
        self._image = image
        self._placement = Placement(image)
        self._next_node_id = image.next_node_id
        self._new_nodes: list[PlannedNode] = []
        dedicated = sum(node.dedicated_to is not None for node in image.plan.values())
        self._dedicated_left = config.dedicated_nodes_limit - dedicated
        self._most_partitions = config.max_partitions_per_cluster
        self._partitions = sum(
            len(topic.partitions) for name, topic in image.topics.items() if name not in INTERNAL_TOPICS
        )

    def problem_with(self, count: int, is_dedicated: bool, replication_factor: int | None = 1) -> Refusal | None:
        """Say what speaks against this many more partitions, if anything does; None: their replicas are assigned."""
        if count > PARTITIONS_LIMIT:
            text = f"{count} new partitions are too many for one request; expected at most {PARTITIONS_LIMIT}"
            return Refusal(ErrorCode.POLICY_VIOLATION, text)
        if self._partitions + count > self._most_partitions:
            text = (
                f"{count} more partitions are too many for a cluster that has {self._partitions}; expected at most "
                f"{self._most_partitions} in all, by max.partitions.per.cluster"
            )
            return Refusal(ErrorCode.POLICY_VIOLATION, text)
        if is_dedicated and count > self._dedicated_left:
            text = f"{count} more dedicated nodes are too many; expected at most {self._dedicated_left}"
            return Refusal(ErrorCode.POLICY_VIOLATION, text)
        if not is_dedicated and not self._placement.candidates(ProcessRole.LEADER):
            return Refusal(ErrorCode.LEADER_NOT_AVAILABLE, "no node with role leader is planned yet; try again")
        return None if replication_factor is None else self._problem_with_factor(replication_factor, is_dedicated)

    def _problem_with_factor(self, factor: int, is_dedicated: bool) -> Refusal | None:
        machines = 1 if is_dedicated else len(self._placement.machines(ProcessRole.LEADER))
        if factor <= machines:
            return None
        text = (
            f"the replication factor is {factor}, with {machines} machines to keep replicas; expected 1 to {machines}"
        )
        if is_dedicated:
            text = f"the replication factor is {factor}; expected 1 with leader.placement=dedicated, a node for each"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)

    def problem_with_assignments(self, assignments: Assignments, is_dedicated: bool) -> Refusal | None:
        """Say what speaks against putting partitions where a client wants them, if anything does."""
        if assignments and is_dedicated:
            text = "partitions with leader.placement=dedicated get nodes of their own; expected no assignment"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        for replicas in assignments:
            if len(replicas) != len(assignments[0]):
                text = (
                    f"partitions are assigned to {len(assignments[0])} and {len(replicas)} nodes; expected one number"
                )
                return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            refusal = problem_with_replicas(replicas, self._image, ProcessRole.LEADER)
            if refusal is not None:
                return refusal
        return None

    def make(
        self,
        topic: str,
        numbers: range,
        is_dedicated: bool,
        replication_factor: int = 1,
        assignments: Assignments = (),
    ) -> tuple[PartitionImage, ...]:
        """Place partitions that nothing speaks against."""
        self._partitions += len(numbers)
        placed: Sequence[tuple[int, ...]] = assignments
        if is_dedicated:
            placed = [(self._plan_node(TopicPartition(topic, number)),) for number in numbers]
        elif assignments:
            self._placement.put(assignments)
        else:
            placed = self._placement.place(ProcessRole.LEADER, len(numbers), replication_factor)
        image = self._image
        return tuple(first_kept_by(replicas, image.nodes, image.first_leader_epoch) for replicas in placed)

    def decide(self, answer: TopicsAnswered, changes: Sequence[Change]) -> Decision:
        """Decide for changes that these partitions are part of: their own nodes are planned first, then started."""
        if not self._new_nodes:
            return decide(answer, changes)
        nodes = tuple(self._new_nodes)
        return decide(answer, [NodesPlanned(nodes), *changes], StartNodes(nodes))

    def _plan_node(self, partition: TopicPartition) -> int:
        machine = self._placement.machine_for_dedicated()
        node = PlannedNode(self._next_node_id, (ProcessRole.LEADER.value,), partition, machine)
        self._new_nodes.append(node)
        self._next_node_id += 1
        self._dedicated_left -= 1
        return node.node_id
