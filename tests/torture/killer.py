"""Chooses whom to hurt next, from a seed, and does it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from random import Random
from typing import Any

from eagleray.actors.starting import Contact, describe_nodes
from tests.torture import faults
from tests.torture.clients import Clients
from tests.torture.faults import ActorKilled, Fault
from tests.torture.settings import TortureSettings

_BACK_S = 90.0
_LOOK_S = 0.1
_CLIENT, _SUPERSEDE = "client", "supersede"
_WEIGHTS = {"node": 50, "two nodes": 15, _CLIENT: 22, _SUPERSEDE: 13}


class NodeDidNotComeBack(Exception):
    """A node that was killed was not started again, or could not join."""


class Killer:
    """Injects faults until its time is up: first each kind once, in an order drawn by lot, then as chance will have it.

    Owns: the list of what it did, in which every fault is known to have fired, and the list of nodes that were seen to
    have ended without that.
    """

    def __init__(self, settings: TortureSettings, name: str, contact: Contact, clients: Clients) -> None:
        self._settings = settings
        self._name = name
        self._contact = contact
        self._clients = clients
        self._random = Random(settings.seed)
        self._begun_s = time.monotonic()
        self.faults: list[Fault] = []
        self.ended_by_themselves: list[str] = []
        self._last_pids: dict[int, int] = {}
        targets: list[int | str] = [*contact.image.plan, _CLIENT, _SUPERSEDE]
        self._random.shuffle(targets)
        self._due = deque(targets)

    @property
    def not_tried(self) -> list[int | str]:
        """What there was no time for."""
        return list(self._due)

    async def run(self, seconds: float) -> None:
        """Hurt somebody, wait a while, and so on; return when all nodes are back."""
        until_s = time.monotonic() + seconds
        await self.until_running(tuple(self._contact.image.plan))
        while True:
            pause_s = self._random.uniform(0.2, 1.8) * self._settings.pause_s
            if time.monotonic() + pause_s >= until_s:
                break
            await asyncio.sleep(pause_s)
            await self._hurt(self._due.popleft() if self._due else self._choose())
        await asyncio.sleep(max(0.0, until_s - time.monotonic()))
        await self.until_running(tuple(self._contact.image.plan))

    def _choose(self) -> int | str | tuple[int, ...]:
        (kind,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        nodes = sorted(self._contact.image.plan)
        if kind == "node":
            return self._random.choice(nodes)
        if kind == "two nodes":
            return tuple(self._random.sample(nodes, min(2, len(nodes))))
        return kind

    async def _hurt(self, target: int | str | tuple[int, ...]) -> None:
        clients, at_s = self._clients, round(time.monotonic() - self._begun_s, 3)
        if target == _CLIENT:
            self.faults.append(await clients.kill(self._random.choice(sorted(clients.current)), at_s))
        elif target == _SUPERSEDE:
            self.faults.append(await clients.supersede(self._random.choice(clients.steady()), at_s))
        else:
            await self._kill_nodes(target if isinstance(target, tuple) else (int(target),), at_s)

    async def _kill_nodes(self, node_ids: tuple[int, ...], at_s: float) -> None:
        described = await self.until_running(node_ids)
        victims = [each for each in described if each["node_id"] in node_ids]
        async with asyncio.TaskGroup() as group:
            for victim in victims:
                group.create_task(faults.kill(victim["pid"], named="ray::"))
        for victim in victims:
            self.faults.append(ActorKilled(at_s, victim["node_id"], tuple(victim["roles"]), victim["pid"]))

    async def until_running(self, node_ids: tuple[int, ...]) -> list[dict[str, Any]]:
        """Wait until these nodes have joined the cluster, in whichever life; return what all nodes say."""
        killed = {fault.pid for fault in self.faults if isinstance(fault, ActorKilled)}
        deadline_s = time.monotonic() + _BACK_S
        while True:
            described = await describe_nodes(self._name, self._contact.image)
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
                self.ended_by_themselves.append(f"node {node_id} ({last_pid}) has ended, and nobody has killed it")
            self._last_pids[node_id] = pid
