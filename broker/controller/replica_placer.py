"""Where the replicas of new partitions go: on different racks, and evenly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from eagleray.broker.metadata.nodes import NodeRegistration


class Site(msgspec.Struct, frozen=True, gc=False):
    """A node that may keep replicas, what it shares its fate with, and how many it keeps and leads already."""

    node_id: int
    rack: str
    kept: int = 0
    led: int = 0


def rack_of(node: NodeRegistration) -> str:
    """The rack of a node: the machine that it runs on, or, where that is not known, the node itself."""
    return node.ray_node or f"node {node.node_id}"


class ReplicaPlacer:
    """Chooses nodes for the replicas of partitions, one partition after the other.

    Owns: how many replicas each node keeps and leads, with those that it has placed. Two replicas of a partition share
    a rack only when there are fewer racks than replicas, and never a node. The first replica is the preferred leader.
    """

    def __init__(self, sites: Iterable[Site]) -> None:
        self._sites = {site.node_id: site for site in sites}
        self._kept_on: Counter[str] = Counter()
        for site in self._sites.values():
            self._kept_on[site.rack] += site.kept

    def place(self, replication_factor: int, given: Sequence[int] = ()) -> tuple[int, ...]:
        """Choose the nodes of one partition, after those that are given; there have to be as many as replicas."""
        assert 1 <= replication_factor <= len(self._sites), "the caller has checked that there are enough nodes"
        chosen = list(given)
        while len(chosen) < replication_factor:
            site = min(self._left(chosen), key=lambda each: self._cost(each, chosen))
            chosen.append(site.node_id)
        for node_id in chosen:
            self._count(node_id, leads=node_id == chosen[0])
        return tuple(chosen)

    def _left(self, chosen: Sequence[int]) -> list[Site]:
        return [site for site in self._sites.values() if site.node_id not in chosen]

    def _cost(self, site: Site, chosen: Sequence[int]) -> tuple[int, int, int, int, int]:
        """What speaks against a node: above all a rack that is taken already, then what it and its rack have to do."""
        if not chosen:
            return 0, site.led, site.kept, self._kept_on[site.rack], site.node_id
        shared = sum(self._sites[node_id].rack == site.rack for node_id in chosen)
        return shared, site.kept, self._kept_on[site.rack], site.led, site.node_id

    def _count(self, node_id: int, *, leads: bool) -> None:
        site = self._sites[node_id]
        self._sites[node_id] = Site(node_id, site.rack, site.kept + 1, site.led + leads)
        self._kept_on[site.rack] += 1
