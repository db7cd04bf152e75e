"""Which replica leads a partition when nodes go and come, and which are in sync then.

All of it is decided by logged metadata alone: which nodes are registered, and what each partition's state is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec

from eagleray.broker.controller.reassignment_progress import completed
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.changes import ReplicasChange, ReplicasChanged
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.losses import Fate, Loss
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topic_configs import TopicConfig
from eagleray.broker.metadata.topics import PartitionImage, TopicImage


class Rules(msgspec.Struct, frozen=True):
    """What a topic's settings say about its replicas."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False

    @classmethod
    def of(cls, topic: TopicImage) -> Rules:
        """Read the rules of a topic."""
        config = TopicConfig.parse(topic.configs)
        return cls(config.min_insync_replicas, config.unclean_leader_election_enable)

    def least_in_sync(self, state: PartitionImage) -> int:
        """How small an in-sync set may become: the last so many hold everything that was ever acknowledged."""
        return min(self.min_insync_replicas, len(state.replicas))


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicPartition, PartitionImage, Rules]]:
    """Walk over all partitions, each with the rules of its topic."""
    for topic in image.topics.values():
        rules = Rules.of(topic)
        for number, state in enumerate(topic.partitions):
            yield TopicPartition(topic.name, number), state, rules


def choose_leader(state: PartitionImage, alive: Container[int], rules: Rules) -> tuple[int, tuple[int, ...]]:
    """Choose who leads, and say who is in sync then: the first replica that is alive and in sync.

    Without one there is no leader, unless the topic prefers loss to waiting; then the first that is alive leads, alone.
    """
    living = [node_id for node_id in state.replicas if node_id in alive]
    for node_id in living:
        if node_id in state.isr:
            return node_id, state.isr
    if living and rules.unclean_leader_election:
        return living[0], (living[0],)
    return NO_NODE, state.isr


def led_by(state: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
    """Return the state with a leader, which begins a new epoch even if it led before."""
    return msgspec.structs.replace(state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)


def changed(states: Iterable[tuple[TopicPartition, PartitionImage]]) -> tuple[ReplicasChanged, ...]:
    """Make the change that leads to these states, if there are any."""
    changes = tuple(
        ReplicasChange(
            partition,
            state.leader,
            state.leader_epoch,
            state.replicas,
            state.isr,
            state.adding,
            state.removing,
        )
        for partition, state in states
    )
    return (ReplicasChanged(changes),) if changes else ()


def after_leaving(image: MetadataImage, gone: Container[int]) -> tuple[ReplicasChanged, ...]:
    """Decide for the partitions of nodes that are dead: out of the in-sync sets, and others lead.

    A partition with one replica stays as it is: no other node could lead it, and clients that try its leader find it
    again as soon as it is back, at a new epoch. So no other incarnation of it acknowledges at this one.
    """
    alive = {node_id for node_id in image.nodes if node_id not in gone}
    return changed(
        (partition, after)
        for partition, state, rules in partitions_of(image)
        if (after := _without_dead(state, alive, rules)) != state
    )


def _without_dead(state: PartitionImage, alive: set[int], rules: Rules) -> PartitionImage:
    leader, isr = state.leader, state.isr
    if state.replicas == (leader,):
        return state
    if leader not in alive:
        leader, isr = choose_leader(state, alive, rules)
    # While there is no leader, the first of them that comes back may lead.
    for node_id in isr if leader != NO_NODE else ():
        if node_id not in alive and len(isr) > rules.least_in_sync(state):
            isr = tuple(member for member in isr if member != node_id)
    if state.leader == leader:
        return msgspec.structs.replace(state, isr=isr)
    return completed(led_by(state, leader, isr))


def after_coming(image: MetadataImage, node_id: int, loss: Loss) -> tuple[ReplicasChanged, ...]:
    """Decide for the partitions of a node that registers in a new incarnation, having lost some of them or not.

    What it led begins a new epoch, for its last incarnation may have acknowledged less than it wrote. Where it may have
    lost records that it acknowledged, it is in sync no more, unless no other node is. Where that is in doubt, it is so
    only if another node in sync is alive: if all have lost their power, those that have flushed are not to make way
    for one that has lost its disk as well, and has not come to say so.
    """
    alive = {*image.nodes, node_id}
    return changed(
        (partition, after)
        for partition, state, rules in partitions_of(image)
        if node_id in state.replicas
        and (after := _with_newcomer(state, node_id, alive, rules, loss.of(partition))) != state
    )


def _with_newcomer(state: PartitionImage, node_id: int, alive: set[int], rules: Rules, fate: Fate) -> PartitionImage:
    others = tuple(member for member in state.isr if member != node_id)
    makes_way = fate is Fate.LOST or (fate is Fate.IN_DOUBT and not alive.isdisjoint(others))
    kept = msgspec.structs.replace(state, isr=others) if makes_way and others else state
    if state.leader not in (node_id, NO_NODE):
        return kept
    if state.leader in kept.isr:
        return led_by(kept, state.leader, kept.isr)
    leader, isr = choose_leader(kept, alive, rules)
    return kept if leader == state.leader else led_by(kept, leader, isr)


def after_resigning(
    image: MetadataImage, partition: TopicPartition, leader_epoch: int, node_id: int
) -> tuple[ReplicasChanged, ...]:
    """Elect anew where a leader has resigned at its current epoch, and complete a move that waited for that.

    Replicas that stay come before those that go, so that a move is never held up by whom it has elected.
    """
    state = image.find(partition)
    if state is None or (state.leader, state.leader_epoch) != (node_id, leader_epoch):
        return ()
    rules = Rules.of(image.topics[partition.topic])
    leader, isr = choose_leader(state, image.nodes, rules)
    return changed([(partition, completed(led_by(state, leader, isr)))])


def wants_preferred(state: PartitionImage, alive: Container[int]) -> bool:
    """Whether another replica should lead than the one that does: the first, if it can."""
    first = state.replicas[0]
    return state.leader not in (first, NO_NODE) and first in state.isr and first in alive
