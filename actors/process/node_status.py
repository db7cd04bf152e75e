"""What a status shows of a node."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eagleray.actors.process.host_facts import host_facts
from eagleray.actors.roles.role import Role
from eagleray.actors.storage.stray_logs import StrayLogs
from eagleray.broker.identities import TopicPartition

if TYPE_CHECKING:
    from eagleray.actors.process.node import Node


class NodeStatus:
    """Gathers what a node's parts say of themselves.

    Owns: how many requests of each kind have failed by a mistake of ours.
    """

    def __init__(self, node: Node, roles: Sequence[Role], stray_logs: StrayLogs) -> None:
        self._node = node
        self._roles = roles
        self._stray_logs = stray_logs
        self.failed_requests: Counter[str] = Counter()

    def describe(self) -> dict[str, Any]:
        """What a status shows."""
        described = host_facts(self._node.clock.wall_ms())
        for role in self._roles:
            described |= role.describe()
        return described | self._of_process() | self._of_cluster() | self._of_storage() | self._of_work()

    def _of_process(self) -> dict[str, Any]:
        spec = self._node.spec
        return {
            "node_id": spec.node_id,
            "roles": [str(role) for role in spec.roles],
            "pid": os.getpid(),
            "machine": spec.machine,
            "host": spec.host,
            "port": self._node.port,
            "listeners": {each.listener: f"{each.host}:{each.port}" for each in self._node.endpoints},
        }

    def _of_cluster(self) -> dict[str, Any]:
        node = self._node
        return {
            "incarnation": node.incarnation,
            "registered": node.is_registered,
            "controller": node.controller.node_id,
            "cluster_id": node.directory.cluster_id,
            "metadata_version": node.image.version,
        }

    def _of_storage(self) -> dict[str, Any]:
        replicas = self._node.replica_manager
        offline = replicas.offline
        return {
            "offline": {str(partition): offline.reason(partition) for partition in offline},
            "disk": self._node.disk_guard.describe(),
            "clock": self._node.clock.describe(),
            "cuts": self._cuts(),
            "uncertain_ends": replicas.logs.uncertain_ends,
            "damaged": {str(partition): reason for partition, reason in self._damaged().items()},
            "stray_logs": sorted({*self._stray_logs.strays, *map(str, replicas.failures.strays)}),
            "held_back": list(self._stray_logs.held_back),
        }

    def _of_work(self) -> dict[str, Any]:
        node = self._node
        return {
            "sessions": len(node.sessions),
            "connections": len(node.listener),
            "failed_authentications": node.listener.failed_authentications,
            "failed_requests": dict(sorted(self.failed_requests.items())),
            "asked_others": node.peers.traffic.as_dict(),
            "events_a_turn": {
                str(role.process_role): round(role.events / role.turns, 1) for role in self._roles if role.turns
            },
        }

    def _cuts(self) -> dict[str, int]:
        """How often openings have cut off the end of a log, and why."""
        counts = self._node.replica_manager.logs.cuts
        cuts = Counter({str(verdict): count for verdict, count in counts.items()})
        for role in self._roles:
            cuts.update(role.cuts)
        return dict(sorted(cuts.items()))

    def _damaged(self) -> dict[TopicPartition, str]:
        """What goes on serving although its disk has changed it, because there is nothing to repair it from."""
        found = dict(self._node.replica_manager.failures.served)
        for role in self._roles:
            found |= role.damaged
        return found
