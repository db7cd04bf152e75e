"""What becomes of replicas when a plan has no place for them any more."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from eagleray.broker.controller.decisions import Refusal
from eagleray.broker.controller.elections import Rules, choose_leader, led_by
from eagleray.broker.controller.placement import Placement, role_for
from eagleray.broker.controller.reassignment_progress import completed, fencing_removed
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.protocol.errors import ErrorCode


class Relocation:
    """Finds other nodes for replicas whose nodes are planned no longer, or have lost the role for them.

    Owns: nothing that lasts; one is made for each plan. Another node of the same machine takes a replica over, for the
    data are on the machine's disk, and that locks out the node that had it. Without one the replica is given up: nodes
    of other machines take its place, if there are any, and copy what those in sync have. So the partition must have
    others in sync, and must not be led by a node whose session lasts, for that one may still acknowledge.
    """

    def __init__(self, before: MetadataImage, planned: MetadataImage, renamed: Mapping[str, str]) -> None:
        self._before = before
        self._planned = planned
        self._renamed = renamed
        self._placement = Placement(planned)

    def relocate(self, partition: TopicPartition, state: PartitionImage, rules: Rules) -> PartitionImage | Refusal:
        """Return the state of a partition under the plan, or say why there is none."""
        after, gone = state, []
        for node_id in state.replicas:
            if self._stays(partition, node_id):
                continue
            taker = self._placement.take_over(role_for(partition.topic), self._machine_of(node_id))
            if taker is None:
                gone.append(node_id)
            else:
                after = _taken_over(after, node_id, taker)
        if gone:
            without = self._without(partition, after, gone, rules)
            return without if isinstance(without, Refusal) else fencing_removed(state, without)
        return fencing_removed(state, after)

    def _stays(self, partition: TopicPartition, node_id: int) -> bool:
        node = self._planned.plan.get(node_id)
        return node is not None and role_for(partition.topic) in node.roles

    def _machine_of(self, node_id: int) -> str:
        node = self._before.plan.get(node_id)
        machine = "" if node is None else node.machine
        return self._renamed.get(machine, machine)

    def _without(
        self, partition: TopicPartition, state: PartitionImage, gone: list[int], rules: Rules
    ) -> PartitionImage | Refusal:
        isr = _except(state.isr, gone)
        if not isr:
            text = f"nodes {gone} keep the only replicas of {partition} that are in sync, and no other node of their "
            return Refusal(ErrorCode.INVALID_REQUEST, text + "machines can take them over; drain them first")
        if state.leader in gone and state.leader in self._before.nodes:
            text = (
                f"node {state.leader}, which is not in the plan, leads {partition} for as long as its session lasts; "
            )
            return Refusal(ErrorCode.LEADER_NOT_AVAILABLE, text + "stop it and try again, or drain it first")
        after = self._with_others_for(partition, state, gone, isr)
        if state.leader in gone:
            after = led_by(after, *choose_leader(after, self._planned.nodes, rules))
        return completed(after)

    def _with_others_for(
        self, partition: TopicPartition, state: PartitionImage, gone: list[int], isr: tuple[int, ...]
    ) -> PartitionImage:
        replicas = _except(state.replicas, gone)
        new: list[int] = []
        for _ in _except(gone, state.removing):
            found = self._placement.add_to(role_for(partition.topic), (*replicas, *new))
            new += [] if found is None else [found]
        return msgspec.structs.replace(
            state,
            replicas=(*replicas, *new),
            isr=isr,
            adding=(*_except(state.adding, gone), *new),
            removing=_except(state.removing, gone),
        )


def _taken_over(state: PartitionImage, node_id: int, taker: int) -> PartitionImage:
    """Put another node of the same machine in the place of one; it leads if that one did, or if no replica does."""

    def swapped(nodes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(taker if each == node_id else each for each in nodes)

    after = msgspec.structs.replace(
        state,
        replicas=swapped(state.replicas),
        isr=swapped(state.isr),
        adding=swapped(state.adding),
        removing=swapped(state.removing),
    )
    leads = state.leader == node_id or (state.leader == NO_NODE and taker in after.isr)
    return led_by(after, taker, after.isr) if leads else after


def _except(nodes: tuple[int, ...] | list[int], others: tuple[int, ...] | list[int]) -> tuple[int, ...]:
    return tuple(node_id for node_id in nodes if node_id not in others)
