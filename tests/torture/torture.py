"""A torture from its beginning to its end."""

from __future__ import annotations

import asyncio
import glob
import os
import shutil
import time
import traceback
from contextlib import nullcontext
from typing import Any

import msgspec
import ray

from eagleray import aio
from eagleray.actors.cluster.discovery import find_cluster
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.client.cluster import AsyncCluster
from tests.support.history import History, gather, read_events
from tests.support.history_checker import COMMITTED, UNCOMMITTED, check
from tests.support.machines import Machines, ray_machines
from tests.torture.clients import Clients
from tests.torture.killer import Killer
from tests.torture.reading import read_all, read_group, until_settled
from tests.torture.report import Report
from tests.torture.settings import SOURCE, TARGET, TRANSFORM, TortureSettings

NAME = "torture"
_START_S = 300.0
_NODES = 2
_TWO_OF_THREE = {"min.insync.replicas": "2"}
_NOTHING = History((), {}, {})


def torture(settings: TortureSettings, directory: str) -> Report:
    """Start a cluster in a directory, hurt it, and judge; the directory stays only if something is wrong."""
    os.makedirs(directory, exist_ok=True)
    with ray_machines(settings.machines) if settings.machines > 1 else nullcontext() as machines:
        report = asyncio.run(_torture(settings, directory, machines))
    if report.is_good:
        shutil.rmtree(directory)
        return report
    return msgspec.structs.replace(report, kept_in=directory)


async def _torture(settings: TortureSettings, directory: str, machines: Machines | None) -> Report:
    async with asyncio.timeout(_START_S):
        cluster = await aio.start(f"{directory}/data", name=NAME, layout=settings.layout, **_where(settings, machines))
    async with cluster:
        topic = {} if machines is None else {"replication_factor": settings.machines, "configs": _TWO_OF_THREE}
        for name in (SOURCE, TARGET):
            await cluster.admin.create_topic(name, partitions=settings.partitions, **topic)
        credentials = await find_cluster(NAME)
        clients = Clients(settings, credentials, directory)
        killer = Killer(settings, NAME, credentials, clients, machines)
        try:
            report = await _hurt_and_judge(settings, directory, credentials, cluster, clients, killer)
        finally:
            clients.end_now()
        if not report.is_good:
            _keep(report, directory, _ray_logs() if machines is None else machines.log_folders())
        return report


def _where(settings: TortureSettings, machines: Machines | None) -> dict[str, Any]:
    """On which machines, and how many nodes on each."""
    if machines is None:
        return {"leaders": _NODES}
    return {"leaders": 1, "coordinators": 1, "machines": settings.machines, "address": machines.address}


async def _hurt_and_judge(
    settings: TortureSettings,
    directory: str,
    credentials: ClusterCredentials,
    cluster: AsyncCluster,
    clients: Clients,
    killer: Killer,
) -> Report:
    problems: list[str] = []
    clients.start_all()
    try:
        await killer.run(settings.seconds)
    except Exception:  # noqa: BLE001 - whatever it was, what the clients have seen is worth judging
        problems.append(traceback.format_exc())
    problems += killer.ended_by_themselves
    deadline_s = time.monotonic() + settings.settle_s
    problems += await clients.stop_all(deadline_s)
    history = _NOTHING
    try:
        history = await _evidence(cluster, directory, deadline_s + settings.settle_s)
    except Exception:  # noqa: BLE001 - the report says so
        problems.append(traceback.format_exc())
    return Report(
        settings=settings,
        history=history,
        addresses=tuple((node.host, node.port) for node in credentials.image.nodes.values()),
        faults=tuple(killer.faults),
        not_tried=tuple(killer.not_tried),
        violations=check(history),
        problems=tuple(problems),
    )


async def _evidence(cluster: AsyncCluster, directory: str, deadline_s: float) -> History:
    await until_settled(cluster, deadline_s)
    files = sorted(glob.glob(f"{directory}/*.history"))
    return History(
        gather(event for path in files for event in read_events(path)),
        await read_all(cluster, COMMITTED, deadline_s),
        await read_all(cluster, UNCOMMITTED, deadline_s),
        await read_group(cluster),
        (TRANSFORM,),
    )


def _ray_logs() -> list[str]:
    """Where the Ray of this process logs."""
    node = ray._private.worker._global_node
    return [] if node is None else [node.get_logs_dir_path()]


def _keep(report: Report, directory: str, log_folders: list[str]) -> None:
    """Keep what tells how it came about, before Ray ends and takes the logs of the nodes with it."""
    for number, folder in enumerate(log_folders):
        shutil.copytree(folder, f"{directory}/ray-logs/{number}", symlinks=True, ignore_dangling_symlinks=True)
    with open(f"{directory}/report.txt", "w") as file:
        file.write(report.text())
    with open(f"{directory}/found.msgpack", "wb") as file:
        file.write(msgspec.msgpack.encode(report.history))
    with open(f"{directory}/faults.json", "wb") as file:
        file.write(msgspec.json.encode(report.faults))
