"""Which directories go because an image says, as a whole, that their replicas have moved away.

Where a node sees each change, it has seen its replica move. Where it gets an image as a whole, after it was away, it
infers that; and an image that is older than what the node once knew says the same. So what goes then has to be safe
elsewhere by what is true now, and much of it at once needs a person.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from eagleray.broker.metadata.directories import partition_of
from eagleray.broker.metadata.image import MetadataImage

UNASKED: Final = 2
"""So many directories go at one sweep without a person, whatever share of the machine's they are."""


def is_safe_elsewhere(name: str, image: MetadataImage, machine: str) -> bool:
    """Whether a registered node of another machine is in sync: one that knew newer metadata does not register."""
    partition = partition_of(name)
    state = None if partition is None else image.find(partition)
    in_sync = () if state is None else state.isr
    nodes = (image.plan.get(node_id) for node_id in in_sync if node_id in image.nodes)
    return any(node is not None and node.machine != machine for node in nodes)


def has_to_ask(moved_away: Collection[str], on_disk: Collection[str], accepted: int | None) -> bool:
    """Whether a person has to accept that these directories go: most of those that a machine has."""
    if accepted == len(moved_away):
        return False
    return len(moved_away) > UNASKED and 2 * len(moved_away) > len(on_disk)
