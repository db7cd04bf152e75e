"""The machines of a plan, and which of them are machines of the last plan under another name."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import PlannedNode


def has_several_machines(image: MetadataImage) -> bool:
    """Whether another machine could take over from one that is gone; if not, no node has to prove that it is alive."""
    return len({node.machine for node in image.plan.values()}) > 1


def renamed_machines(nodes: Iterable[PlannedNode], image: MetadataImage) -> dict[str, str]:
    """Return the new names of machines: those whose nodes, if they stay, are all together on one new machine.

    Whether it is the same machine at another address, or an empty one in its place, its nodes say when they register.
    """
    now: dict[str, set[str]] = {}
    for node in nodes:
        before = image.plan.get(node.node_id)
        if before is not None:
            now.setdefault(before.machine, set()).add(node.machine)
    known = {node.machine for node in image.plan.values()}
    moved = {old: names.pop() for old, names in now.items() if len(names) == 1 and not names <= known}
    targets = list(moved.values())
    return {old: new for old, new in moved.items() if targets.count(new) == 1}


def problem_with_machines(nodes: tuple[PlannedNode, ...], image: MetadataImage) -> str | None:
    """Say which node is planned away from its data, if any is."""
    renamed = renamed_machines(nodes, image)
    for node in nodes:
        before = image.plan.get(node.node_id, node)
        machine = renamed.get(before.machine, before.machine)
        if machine != node.machine and image.kept_by(node.node_id):
            return (
                f"node {node.node_id} is planned on machine {node.machine!r}, but its replicas are on {machine!r}; "
                f"expected it there"
            )
    machines = {node.machine for node in nodes}
    for own in image.plan.values():
        machine = renamed.get(own.machine, own.machine)
        if own.dedicated_to is not None and machine not in machines:
            return (
                f"node {own.node_id}, which {own.dedicated_to} has to itself, is on machine {machine!r}; expected that "
                f"machine in the plan, or the topic deleted first"
            )
    return None
