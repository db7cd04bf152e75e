"""Removing what deleted topics, and replicas that have moved away, have left on a machine's disk."""

from __future__ import annotations

import logging
from typing import Final

from eagleray.actors.logs import Logs
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.topics import CLUSTER_METADATA
from eagleray.broker.identities import TopicPartition

_log = logging.getLogger(__name__)

INTERVAL_MS: Final = 60_000


class Sweeper:
    """Sweeps a machine's logs now and then, for those that were not there when their topic was deleted.

    Owns: what nobody wanted at the last sweep. A log goes only if that is so a second time, and it is up to the caller
    to sweep with metadata that are fresher than the last sweep: so a topic cannot be taken for deleted that is only too
    new to be known. A log that somebody has open stays.
    """

    def __init__(self, logs: Logs, machine: str, now_ms: int) -> None:
        self._logs = logs
        self._machine = machine
        self._next_ms = now_ms + INTERVAL_MS
        self._unwanted: frozenset[str] = frozenset()

    def sweep(self, image: MetadataImage, now_ms: int) -> list[str]:
        """Remove what has been unwanted for long enough, if it is time; return what was."""
        if now_ms < self._next_ms:
            return []
        self._next_ms = now_ms + INTERVAL_MS
        suspected = self._unwanted
        self._unwanted = frozenset(name for name in self._logs.on_disk() if not is_wanted(name, image, self._machine))
        removed = self._logs.remove_unused(sorted(self._unwanted & suspected))
        if removed:
            _log.info("removed what was left of %s", ", ".join(removed))
        return removed


def is_wanted(name: str, image: MetadataImage, machine: str) -> bool:
    """Whether a log with this name belongs on a machine."""
    topic, _, number = name.rpartition("-")
    if topic == CLUSTER_METADATA:
        return True
    state = image.find(TopicPartition(topic, int(number))) if number.isdecimal() else None
    if state is None:
        return False
    keepers = (image.plan.get(node_id) for node_id in state.replicas)
    return any(node is None or node.machine == machine for node in keepers)
