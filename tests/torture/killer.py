"""Chooses whom to hurt next, from a seed, and does it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from eagleray.actors.cluster.start_cluster import ClusterCredentials, describe_nodes
from tests.support.machines import HEAD, Machines
from tests.torture import faults
from tests.torture.clients import Clients
from tests.torture.faults import ActorKilled, Fault, FaultDidNotFire, MachineKilled, NodePaused, RayletKilled
from tests.torture.settings import TortureSettings

_BACK_S = 300.0
_LOOK_S = 0.1
_AWAY_S = (0.5, 8.0)
"""How long a machine stays away, and a node is stopped: for less than its session, and for more."""

_ON_ONE_MACHINE: Final[Mapping[str, int]] = {"node": 50, "two nodes": 15, "client": 22, "supersede": 13}
_ON_MACHINES: Final[Mapping[str, int]] = {
    "node": 15,
    "two nodes": 5,
    "controller": 10,
    "pause": 15,
    "pause controller": 10,
    "raylet": 10,
    "machine": 20,
    "client": 9,
    "supersede": 6,
}
"""How often each kind of fault is chosen, in a hundred."""


class NodeDidNotComeBack(Exception):
    """A node that was killed was not started again, or could not join."""


class Killer:
    """Injects faults until its time is up and they are enough: first each kind once, then as chance will have it.

    The order of the first is drawn by lot.

    Owns: the list of what it did, in which every fault is known to have fired, and the list of nodes that were seen to
    have ended without that. Without Ray's head Ray itself ends everything, so its machine is spared, but not its nodes.
    """

    def __init__(
        self,
        settings: TortureSettings,
        name: str,
        credentials: ClusterCredentials,
        clients: Clients,
        machines: Machines | None = None,
    ) -> None:
        self._settings = settings
        self._machines = machines
        self._name = name
        self._credentials = credentials
        self._clients = clients
        self._random = Random(settings.seed)
        self._begun_s = time.monotonic()
        self.faults: list[Fault] = []
        self.ended_by_themselves: list[str] = []
        self._last_pids: dict[int, int] = {}
        self._weights = _ON_ONE_MACHINE if machines is None else _ON_MACHINES
        targets: list[int | str] = (
            [*credentials.image.plan, "client", "supersede"] if machines is None else [*_ON_MACHINES]
        )
        self._random.shuffle(targets)
        self._due = deque(targets)

    @property
    def not_tried(self) -> list[int | str]:
        """What there was no time for."""
        return list(self._due)

    async def run(self, seconds: float) -> None:
        """Hurt a node or a client, wait a while, and so on; return when all nodes are back."""
        until_s = time.monotonic() + seconds
        await self.until_running(tuple(self._credentials.image.plan))
        while True:
            pause_s = self._random.uniform(0.2, 1.8) * self._settings.pause_s
            has_enough = len(self.faults) >= self._settings.fewest_faults
            if has_enough and time.monotonic() + pause_s >= until_s:
                break
            await asyncio.sleep(pause_s)
            await self._hurt(self._due.popleft() if self._due else self._choose())
        await asyncio.sleep(max(0.0, until_s - time.monotonic()))
        await self.until_running(tuple(self._credentials.image.plan))

    def _choose(self) -> str:
        (kind,) = self._random.choices(list(self._weights), list(self._weights.values()))
        return kind

    async def _hurt(self, target: int | str) -> None:
        clients, at_s = self._clients, round(time.monotonic() - self._begun_s, 3)
        nodes = sorted(self._credentials.image.plan)
        match target:
            case "client":
                self.faults.append(await clients.kill(self._random.choice(sorted(clients.current)), at_s))
            case "supersede":
                self.faults.append(await clients.supersede(self._random.choice(clients.steady()), at_s))
            case "two nodes":
                await self._kill_nodes(tuple(self._random.sample(nodes, min(2, len(nodes)))), at_s)
            case "controller":
                await self._kill_nodes((await self._controller(),), at_s)
            case "pause":
                await self._pause_node(self._random.choice(nodes), at_s)
            case "pause controller":
                await self._pause_node(await self._controller(), at_s)
            case "machine" | "raylet":
                await self._kill_machine(at_s, raylet_first=target == "raylet")
            case "node":
                await self._kill_nodes((self._random.choice(nodes),), at_s)
            case _:
                await self._kill_nodes((int(target),), at_s)

    # Nodes

    async def _kill_nodes(self, node_ids: tuple[int, ...], at_s: float) -> None:
        described = await self.until_running(node_ids)
        victims = [each for each in described if each["node_id"] in node_ids]
        controller = _controller_among(described)
        async with asyncio.TaskGroup() as group:
            for victim in victims:
                group.create_task(faults.kill(victim["pid"], named="ray::"))
        for victim in victims:
            node_id, roles = victim["node_id"], tuple(victim["roles"])
            self.faults.append(ActorKilled(at_s, node_id, roles, victim["pid"], node_id == controller))

    async def _controller(self) -> int:
        """The node that is the controller, as the others have found."""
        return _controller_among(await self.until_running(tuple(self._credentials.image.plan)))

    async def _pause_node(self, node_id: int, at_s: float) -> None:
        described = await self.until_running((node_id,))
        (pid,) = (each["pid"] for each in described if each["node_id"] == node_id)
        seconds = round(self._random.uniform(*_AWAY_S), 1)
        await faults.pause(pid)
        try:
            await asyncio.sleep(seconds)
        finally:
            await faults.resume(pid)
        was_controller = node_id == _controller_among(described)
        self.faults.append(NodePaused(at_s, node_id, seconds, pid, was_controller))

    # Machines

    async def _kill_machine(self, at_s: float, *, raylet_first: bool) -> None:
        """Lose a machine for some seconds; where its raylet goes first, the rest may notice that by itself."""
        machines = self._machines
        assert machines is not None, "one machine is not lost: there would be no node left"
        number = self._random.choice([each for each in range(len(machines.addresses)) if each != HEAD])
        address = machines.addresses[number]
        of_machine = tuple(node.node_id for node in self._credentials.image.plan.values() if node.machine == address)
        described = await self.until_running(of_machine)
        pids = tuple(each["pid"] for each in described if each["node_id"] in of_machine)
        # It is known before it is done: a check meanwhile must not think that a node has ended by itself.
        self.faults.append((RayletKilled if raylet_first else MachineKilled)(at_s, number, pids))
        if raylet_first:
            await asyncio.to_thread(machines.kill_raylet, number)
            await asyncio.sleep(self._random.uniform(*_AWAY_S))
        # A dead raylet leaves helpers behind, which would keep their ports.
        await asyncio.to_thread(machines.kill_machine, number)
        if machines.processes_of(number):
            raise FaultDidNotFire(f"machine {number} outlived its end")
        await asyncio.sleep(self._random.uniform(*_AWAY_S))
        await asyncio.to_thread(machines.start_machine, number)

    # Who is there

    async def until_running(self, node_ids: tuple[int, ...]) -> list[dict[str, Any]]:
        """Wait until these nodes have joined the cluster, in whichever incarnation; return what all nodes say."""
        killed = faults.nodes_ended(self.faults)
        deadline_s = time.monotonic() + _BACK_S
        while True:
            described = await describe_nodes(self._name, self._credentials.image)
            self._notice(described, killed)
            running = {each["node_id"] for each in described if each["registered"] and each["pid"] not in killed}
            if running.issuperset(node_ids):
                return described
            if time.monotonic() > deadline_s:
                missing = sorted(set(node_ids) - running)
                raise NodeDidNotComeBack(f"nodes {missing} were not back after {_BACK_S:.0f} s: {described}")
            await asyncio.sleep(_LOOK_S)

    def _notice(self, described: list[dict[str, Any]], killed: set[int]) -> None:
        """Ray starts a node again whatever it died of, so that a node that crashes must be looked for."""
        for node in described:
            node_id, pid = node["node_id"], node.get("pid")
            last_pid = self._last_pids.get(node_id)
            if pid is None or pid == last_pid:
                continue
            if last_pid is not None and last_pid not in killed:
                self.ended_by_themselves.append(
                    f"node {node_id} ({last_pid}) has ended, and the killer has not killed it"
                )
            self._last_pids[node_id] = pid


def _controller_among(described: list[dict[str, Any]]) -> int:
    """The node that most of those who have joined take for the controller."""
    named = [each["controller"] for each in described if each["registered"]]
    return max(set(named), key=named.count)
