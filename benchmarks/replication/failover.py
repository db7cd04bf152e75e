"""From a kill until the next commit: a machine with all that runs on it, and the process of a node alone.

The victim leads every partition that the client writes, and coordinates its transactions.
"""

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import psutil
from msgspec.structs import replace

from benchmarks.replication.clusters import (
    MACHINES,
    NODES_OF_A_MACHINE,
    cluster_on,
    controller_of,
    metadata_at,
    until_whole,
)
from benchmarks.replication.kills import HEADING, Kill, rows
from benchmarks.report import markdown_table, print_table
from eagleray import aio
from eagleray.client.errors import AbortableError
from tests.support.machines import HEAD, Machines

TOPIC = "failover"
PARTITIONS = 12
_LOOK_S = 0.01
_ON_ITS_WAY_S = 0.02
_COMMIT_WITHIN_S = 90.0
_STEADY_S = (1.0, 2.0)
"""For how long the client runs before a kill: not always at the same moment between two heartbeats."""


class Prober:
    """A client that runs one small transaction after the other, over what one node leads.

    Owns: a producer, and when each of its commits was answered, by `time.monotonic`.
    """

    def __init__(self, cluster: aio.Cluster, node_id: int) -> None:
        view = cluster.runtime.view
        self._partitions = [
            number for number, partition in enumerate(view.partitions[TOPIC]) if view.leaders[partition] == node_id
        ]
        names = (f"probe-{time.monotonic_ns()}-{number}" for number in range(10_000))
        name = next(name for name in names if view.transaction_coordinator(name) == node_id)
        self._producer = cluster.producer(transactional_id=name)
        self.committed_at: list[float] = []
        self.aborted = 0
        self._is_over = False
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._producer.init()
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        turn = 0
        while not self._is_over:
            turn += 1
            self._producer.begin()
            try:
                for place in range(2):
                    partition = self._partitions[(turn + place) % len(self._partitions)]
                    await self._producer.send(TOPIC, bytes(100), partition=partition)
                await self._producer.commit()
            except AbortableError:
                self.aborted += 1
                await self._producer.abort()
            else:
                self.committed_at.append(time.monotonic())

    async def first_after(self, moment: float) -> float:
        """Wait for the first commit after a moment; an answer that was on its way then does not count."""
        deadline = moment + _COMMIT_WITHIN_S
        assert self._running is not None
        while not self.committed_at or self.committed_at[-1] < moment + _ON_ITS_WAY_S:
            if self._running.done():
                self._running.result()
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing was committed for {_COMMIT_WITHIN_S:.0f} s after a kill")
            await asyncio.sleep(_LOOK_S)
        return next(at for at in self.committed_at if at >= moment + _ON_ITS_WAY_S)

    async def stop(self) -> None:
        self._is_over = True
        if self._running is not None:
            await self._running
        await self._producer.close()


class Observer:
    """Watches the others' metadata for what they decide about the victim."""

    def __init__(self, cluster: aio.Cluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        image = cluster.runtime.view.image
        self._life = image.nodes[node_id].incarnation
        self._others = [other for other in sorted(image.nodes) if other != node_id]
        self.decided_at: float | None = None
        self.was_given_up = False
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while self.decided_at is None:
            for other in self._others:
                image, _ = await metadata_at(self._cluster, other)
                found = None if image is None else image.nodes.get(self._node_id)
                if image is not None and (found is None or found.incarnation != self._life):
                    self.decided_at = time.monotonic()
                    self.was_given_up = found is None
                    return
            await asyncio.sleep(_LOOK_S)

    async def stop(self) -> None:
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching


def kill_process(pid: int) -> float:
    """End a process with kill -9, and return when that was."""
    process = psutil.Process(pid)
    moment = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    process.wait(_COMMIT_WITHIN_S)
    return moment


async def one_kill(cluster: aio.Cluster, kind: str, node_id: int, act: Callable[[], float]) -> tuple[Kill, float]:
    """Kill, and measure until the next commit; return when it was, too. The victim may be away after this."""
    prober = Prober(cluster, node_id)
    await prober.start()
    await asyncio.sleep(random.uniform(*_STEADY_S))
    assert prober.committed_at, "nothing was committed before the kill"
    controller = await controller_of(cluster)
    observer = Observer(cluster, node_id)
    # Looking for all processes of a machine takes a while, and the loop has to go on meanwhile.
    moment = await asyncio.to_thread(act)
    committed_at = await prober.first_after(moment)
    await observer.stop()
    await prober.stop()
    decided_s = None if observer.decided_at is None else observer.decided_at - moment
    kill = Kill(
        kind=kind,
        node_id=node_id,
        was_controller=controller == node_id,
        commit_s=committed_at - moment,
        decided_s=decided_s,
        was_given_up=observer.was_given_up,
    )
    return kill, moment


def with_life(cluster: aio.Cluster, kill: Kill, moment: float) -> Kill:
    """Add when the victim's new incarnation began, which its incarnation tells by the time of day."""
    killed_at = time.time() - (time.monotonic() - moment)
    return replace(kill, began_s=cluster.runtime.view.image.nodes[kill.node_id].incarnation / 1e6 - killed_at)


def victims(count: int) -> Iterator[int]:
    """The machines to hurt, in turns; never the one with Ray's head, without which Ray ends everything."""
    others = [number for number in range(MACHINES) if number != HEAD]
    return itertools.islice(itertools.cycle(others), count)


async def kill_machines(cluster: aio.Cluster, machines: Machines, count: int) -> list[Kill]:
    """Lose one machine after the other, each when the last is back."""
    kills = []
    for machine in victims(count):
        await until_whole(cluster)
        node_id = machine * NODES_OF_A_MACHINE
        kill, _ = await one_kill(cluster, "machine", node_id, partial(machines.kill_machine, machine))
        kills.append(kill)
        _say(len(kills), kill)
        await asyncio.to_thread(machines.start_machine, machine)
    return kills


async def kill_actors(cluster: aio.Cluster, count: int) -> list[Kill]:
    """Kill the process of one node after the other, each when the last is back."""
    kills = []
    await until_whole(cluster)
    for machine in victims(count):
        node_id = machine * NODES_OF_A_MACHINE
        pid = cluster.runtime.view.image.nodes[node_id].pid
        kill, moment = await one_kill(cluster, "actor", node_id, partial(kill_process, pid))
        await until_whole(cluster)
        kills.append(with_life(cluster, kill, moment))
        _say(len(kills), kills[-1])
    return kills


def _say(number: int, kill: Kill) -> None:
    shares = ", ".join(f"{name} {seconds:.2f}" for name, seconds in kill.shares().items())
    what = f"{kill.kind} {kill.node_id}{' (the controller)' if kill.was_controller else ''}"
    words = f"kill {number}, {what}: {kill.commit_s:.2f} s until the next commit: {shares}"
    if kill.began_s is not None:
        words += f"; its new process began after {kill.began_s:.2f}"
    print(words, file=sys.stderr, flush=True)


async def failover(machines: Machines, kinds: list[str], count: int) -> None:
    """Print how long commits stand still after each kind of kill."""
    # Leaders go back to the first replicas soon, so that the next victim leads something.
    async with cluster_on(machines, leader_imbalance_check_interval_seconds="1") as cluster:
        await cluster.admin.create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=MACHINES, configs={"min.insync.replicas": "2"}
        )
        kills: list[Kill] = []
        if "machine" in kinds:
            kills += await kill_machines(cluster, machines, count)
        if "actor" in kinds:
            kills += await kill_actors(cluster, count)
    found = list(rows(kills))
    print_table("Three machines, three replicas: from a kill until the next commit", HEADING, found)
    print(markdown_table(HEADING, found))
