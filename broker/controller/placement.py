"""Which nodes keep a partition that is new, or one of whose replicas has to go elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import groupby

from eagleray.broker.controller.decisions import Refusal
from eagleray.broker.controller.replica_placer import ReplicaPlacer, Site
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionImage
from eagleray.protocol.errors import ErrorCode

_ROLES = {TRANSACTION_STATE: ProcessRole.COORDINATOR, CONSUMER_OFFSETS: ProcessRole.GROUPS}


def role_for(topic: str) -> ProcessRole:
    """Return the role that the nodes have which keep a topic's partitions."""
    return _ROLES.get(topic, ProcessRole.LEADER)


def first_kept_by(replicas: tuple[int, ...], registered: Container[int], leader_epoch: int) -> PartitionImage:
    """Return a new partition, which the first of its replicas that is there leads.

    As long as it is empty, all that are there are in sync, and the others will have to catch up: no client would ever
    take one that is away out of the in-sync set that it never was in touch with. Where none is there yet, all are
    expected.
    """
    isr = tuple(node_id for node_id in replicas if node_id in registered) or replicas
    return PartitionImage(isr[0], leader_epoch, replicas, isr)


def problem_with_replicas(replicas: Sequence[int], image: MetadataImage, role: ProcessRole) -> Refusal | None:
    """Say what speaks against nodes that a client wants to keep a partition, if anything does."""
    text = _text_about_replicas(replicas, image, role)
    return None if text is None else Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _text_about_replicas(replicas: Sequence[int], image: MetadataImage, role: ProcessRole) -> str | None:
    nodes = Placement(image).candidates(role)
    if not replicas:
        return "a partition is assigned to no node; expected one or more"
    for node_id in replicas:
        if node_id in image.draining:
            return f"a partition is assigned to node {node_id}, which is being drained; expected some of {nodes}"
        if node_id not in nodes:
            return f"a partition is assigned to node {node_id}, which leads none; expected some of {nodes}"
    machines = Counter(image.plan[node_id].machine for node_id in replicas)
    if len(machines) < len(replicas):
        return f"a partition is assigned to nodes {list(replicas)}; expected each on a machine of its own"
    return None


class Placement:
    """Spreads partitions over the nodes of an image that share them, each replica on a machine of its own.

    What it has placed counts when it is asked again, so one is made for each decision. Nodes that are being drained get
    nothing new. Machines on which some node has come go before those on which none has, if there are enough of them: a
    process comes back soon, a machine perhaps not.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._shared = sorted(node.node_id for node in image.plan.values() if node.dedicated_to is None)
        self._machine = {node_id: image.plan[node_id].machine for node_id in self._shared}
        self._roles = {node_id: image.plan[node_id].roles for node_id in self._shared}
        self._led = {node_id: len(image.led_by(node_id)) for node_id in self._shared}
        self._kept = {node_id: len(image.kept_by(node_id)) for node_id in self._shared}
        self._draining = frozenset(image.draining)
        self._alive = {image.plan[node_id].machine for node_id in image.nodes}
        self._dedicated = Counter(node.machine for node in image.plan.values() if node.dedicated_to is not None)

    def candidates(self, role: ProcessRole) -> list[int]:
        """Return the nodes that share the partitions of a role, in the order of their ids."""
        return [node_id for node_id in self._shared if role in self._roles[node_id] and node_id not in self._draining]

    def has(self, role: ProcessRole) -> bool:
        """Whether any node shares the partitions of a role, even one that is being drained."""
        return any(role in roles for roles in self._roles.values())

    def machines(self, role: ProcessRole) -> set[str]:
        """Return the machines on which partitions of a role can be put."""
        return {self._machine[node_id] for node_id in self.candidates(role)}

    def place(self, role: ProcessRole, count: int, replication_factor: int = 1) -> list[tuple[int, ...]]:
        """Choose who keeps the partitions of a new topic, the leader first; there have to be enough machines.

        The leaders go round the nodes, so that the topic is spread however full each node is, and begin where there is
        the least to do.
        """
        nodes = self._machine_after_machine(self._preferred(role, replication_factor))
        first = nodes.index(min(nodes, key=lambda node_id: (self._led[node_id], node_id)))
        followers = ReplicaPlacer(self._site(node_id) for node_id in nodes)
        leaders = [nodes[(first + place) % len(nodes)] for place in range(count)]
        chosen = [followers.place(replication_factor, (leader,)) for leader in leaders]
        self.put(chosen)
        return chosen

    def put(self, placed: Iterable[tuple[int, ...]]) -> None:
        """Take note of replicas, the leader first, that a client has chosen."""
        for replicas in placed:
            self._led[replicas[0]] += 1
            for node_id in replicas:
                self._kept[node_id] += 1

    def take_over(self, role: ProcessRole, machine: str) -> int | None:
        """Choose the node with the least to do, on the machine that has the data, for a replica without its node."""
        nodes = [
            node_id for node_id in self._shared if role in self._roles[node_id] and self._machine[node_id] == machine
        ]
        if not nodes:
            return None
        node_id = min(nodes, key=lambda each: (self._led[each], each))
        self.put([(node_id,)])
        return node_id

    def add_to(self, role: ProcessRole, replicas: Iterable[int]) -> int | None:
        """Choose one more node for a partition that is on these, if there is a machine that has none of it."""
        taken = {self._machine[node_id] for node_id in replicas}
        nodes = [node_id for node_id in self.candidates(role) if self._machine[node_id] not in taken]
        if not nodes:
            return None
        node_id = min(nodes, key=lambda each: (self._machine[each] not in self._alive, self._kept[each], each))
        self._kept[node_id] += 1
        return node_id

    def machine_for_dedicated(self) -> str:
        """Choose the machine for a node that has one partition to itself: where there are the fewest of them."""
        nodes = self.candidates(ProcessRole.LEADER) or [each for each in self._shared if each not in self._draining]
        machines = {self._machine[node_id] for node_id in nodes} or {""}
        machine = min(machines, key=lambda name: (self._dedicated[name], name))
        self._dedicated[machine] += 1
        return machine

    def _preferred(self, role: ProcessRole, machines_needed: int) -> list[int]:
        nodes = self.candidates(role)
        alive = [node_id for node_id in nodes if self._machine[node_id] in self._alive]
        return alive if len({self._machine[node_id] for node_id in alive}) >= machines_needed else nodes

    def _machine_after_machine(self, nodes: list[int]) -> list[int]:
        by_machine = groupby(sorted(nodes, key=lambda node_id: (self._machine[node_id], node_id)), self._machine.get)
        ranked = [(rank, node_id) for _, group in by_machine for rank, node_id in enumerate(group)]
        return [node_id for _, node_id in sorted(ranked)]

    def _site(self, node_id: int) -> Site:
        return Site(node_id, self._machine[node_id], self._kept[node_id], self._led[node_id])
