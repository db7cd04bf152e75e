"""Waiting until the nodes of a cluster have joined it, and seeing why one does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

import ray

from eagleray.actors.cluster.machines import CannotStart
from eagleray.actors.cluster.supervision import RaySupervisor
from eagleray.actors.cluster.worker_paths import why_not_ours
from eagleray.actors.lanes.peers import HOW_TO_REACH
from eagleray.actors.process.broker_logs import lines_since, path_of
from eagleray.broker.metadata.nodes import PlannedNode

Progress = Callable[[str], None]
"""Called with a few words about what a start is doing."""

_LOOK_S: Final = 0.2
_TRIES: Final = 3
"""How often a node may end itself before it counts as one that cannot start: Ray would try for ever."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_OUR_PACKAGE: Final = re.compile(r"No module named '?eagleray")


def say_nothing(_: str) -> None:
    """Ignore the progress."""


class Joining:
    """Waits for nodes that were started.

    Owns: which of them it still waits for. On failure: CannotStart with the cause, as soon as a node has one.
    """

    def __init__(self, supervisor: RaySupervisor, progress: Progress = say_nothing) -> None:
        self._supervisor = supervisor
        self._progress = progress
        self._begun = datetime.now(UTC)
        self._expected = 0
        self._missing: dict[int, PlannedNode] = {}

    async def until_joined(self, nodes: tuple[PlannedNode, ...]) -> None:
        """Wait until every one of these nodes has registered in this incarnation of the cluster."""
        self._expected += len(nodes)
        self._missing |= {node.node_id: node for node in nodes}
        await all_of(*map(self._until_joined, nodes))

    async def _until_joined(self, node: PlannedNode) -> None:
        while True:
            try:
                why_not = await self._supervisor.actor_of(node.node_id).joined.remote()
                break
            except (ray.exceptions.ActorUnavailableError, ray.exceptions.ActorDiedError) as error:
                if isinstance(error, ray.exceptions.ActorDiedError):
                    raise CannotStart(f"node {node.node_id} cannot start: {cause_of(error)}") from error
                self._check_ends(node)
            await asyncio.sleep(_LOOK_S)
        if why_not is not None:
            raise CannotStart(f"node {node.node_id} cannot join: {why_not}: {HOW_TO_REACH}")
        del self._missing[node.node_id]
        self._progress(f"nodes joined: {self._expected - len(self._missing)} of {self._expected}")

    def _check_ends(self, node: PlannedNode) -> None:
        """Give up on a node whose process ends again and again, with the last reason that it gave."""
        lines = (line.partition(": ") for line in lines_since(self._log_of(node), self._begun))
        critical = [text for head, _, text in lines if " CRITICAL " in head]
        if sum(text.startswith("node ") for text in critical) >= _TRIES:
            raise CannotStart(f"node {node.node_id} ends again and again: {critical[-1]}")

    def _log_of(self, node: PlannedNode) -> str:
        return path_of(self._supervisor.cluster.node(node).data_dir, node.node_id)

    def not_in_time(self, seconds: float) -> str:
        """Say which nodes have not joined, and what the first of them logged last, where it can be seen from here."""
        missing = [self._missing[node_id] for node_id in sorted(self._missing)]
        if not missing:
            return f"the cluster has not come up within {seconds:g} s, although its nodes have joined"
        path = self._log_of(missing[0])
        said = lines_since(path, self._begun)
        listed = ", ".join(str(node.node_id) for node in missing)
        last = f"the last line of {path} is {said[-1]!r}" if said else f"{path}, on its machine, says why"
        return f"{len(missing)} of {self._expected} nodes ({listed}) have not joined within {seconds:g} s; {last}"


async def all_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them side by side; the first that fails ends the others, and is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def cause_of(error: BaseException) -> str:
    """Return why an actor could not be created: the last line of the traceback that Ray has of it."""
    lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    cause = lines[-1] if lines else type(error).__name__
    return f"{cause}; {why_not_ours()}" if _OUR_PACKAGE.search(cause) else cause
