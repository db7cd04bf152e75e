"""Partitions in the making: where they are put, and the nodes that some of them are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from eagleray.broker.controller.changes import Change, NodesPlanned
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.decisions import Decision, decide
from eagleray.broker.controller.events import StartNodes, TopicsAnswered
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import PlannedNode, Role
from eagleray.broker.controller.placement import Placement, first_led_by
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode

PARTITIONS_LIMIT: Final = 10_000
"""How many partitions one request may add to a topic; more are taken for a mistake, as in Kafka."""


Assignments: TypeAlias = tuple[tuple[int, ...], ...]
"""The replicas of each of some partitions, in their order."""


class Complaint(NamedTuple):
    """Why something is refused."""

    error_code: ErrorCode
    message: str


class NewPartitions:
    """The partitions that one decision makes; what it has placed counts for what it places next."""

    def __init__(self, image: MetadataImage, config: ControllerConfig) -> None:
        self._placement = Placement(image)
        self._next_node_id = image.next_node_id
        self._new_nodes: list[PlannedNode] = []
        dedicated = sum(node.dedicated_to is not None for node in image.plan.values())
        self._dedicated_left = config.dedicated_nodes_limit - dedicated

    @property
    def shared_nodes(self) -> int:
        """How many nodes share the partitions of topics."""
        return len(self._placement.candidates(Role.LEADER))

    def complaint_about(self, count: int, is_dedicated: bool) -> Complaint | None:
        """Say what speaks against this many more partitions, if anything does."""
        if count > PARTITIONS_LIMIT:
            text = f"{count} new partitions are too many for one request; expected at most {PARTITIONS_LIMIT}"
            return Complaint(ErrorCode.POLICY_VIOLATION, text)
        if is_dedicated and count > self._dedicated_left:
            text = f"{count} more dedicated nodes are too many; expected at most {self._dedicated_left}"
            return Complaint(ErrorCode.POLICY_VIOLATION, text)
        if not is_dedicated and not self.shared_nodes:
            return Complaint(ErrorCode.LEADER_NOT_AVAILABLE, "no node with role leader is planned yet; try again")
        return None

    def complaint_about_assignments(self, assignments: Assignments, is_dedicated: bool) -> Complaint | None:
        """Say what speaks against putting partitions where somebody wants them, if anything does."""
        if assignments and is_dedicated:
            text = "partitions with leader.placement=dedicated get nodes of their own; expected no assignment"
            return Complaint(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        nodes = self._placement.candidates(Role.LEADER)
        for replicas in assignments:
            if len(replicas) != 1:
                text = (
                    f"a partition is assigned to {len(replicas)} nodes, {list(replicas)}; expected one, for one replica"
                )
                return Complaint(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            if replicas[0] not in nodes:
                text = f"a partition is assigned to node {replicas[0]}, which leads none; expected one of {nodes}"
                return Complaint(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        return None

    def make(
        self, topic: str, numbers: range, is_dedicated: bool, assignments: Assignments = ()
    ) -> tuple[PartitionImage, ...]:
        """Place partitions that nothing speaks against."""
        if is_dedicated:
            nodes = [self._plan_node(TopicPartition(topic, number)) for number in numbers]
        elif assignments:
            nodes = [leader for (leader,) in assignments]
            self._placement.put(nodes)
        else:
            nodes = self._placement.place(Role.LEADER, len(numbers))
        return tuple(map(first_led_by, nodes))

    def decide(self, answer: TopicsAnswered, changes: Sequence[Change]) -> Decision:
        """Decide for changes that these partitions are part of: their own nodes are planned first, then started."""
        if not self._new_nodes:
            return decide(answer, changes)
        nodes = tuple(self._new_nodes)
        return decide(answer, [NodesPlanned(nodes), *changes], StartNodes(nodes))

    def _plan_node(self, partition: TopicPartition) -> int:
        node = PlannedNode(self._next_node_id, (Role.LEADER.value,), partition)
        self._new_nodes.append(node)
        self._next_node_id += 1
        self._dedicated_left -= 1
        return node.node_id
