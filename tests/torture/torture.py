"""A torture from its beginning to its end."""

from __future__ import annotations

import asyncio
import glob
import os
import shutil
import time
import traceback

import msgspec
import ray

from eagleray import aio
from eagleray.actors.contact import Contact
from eagleray.actors.finding import find_cluster
from eagleray.client.cluster import AsyncCluster
from tests.support.history import History, gather, read_events
from tests.support.history_checker import COMMITTED, UNCOMMITTED, check
from tests.torture.clients import Clients
from tests.torture.killer import Killer
from tests.torture.reading import read_all, read_group, until_settled
from tests.torture.report import Report
from tests.torture.settings import SOURCE, TARGET, TRANSFORM, TortureSettings

NAME = "torture"
_START_S = 120.0
_NODES = 2
_NOTHING = History((), {}, {})


def torture(settings: TortureSettings, directory: str) -> Report:
    """Start a cluster in a directory, hurt it, and judge; the directory stays only if something is wrong."""
    os.makedirs(directory, exist_ok=True)
    report = asyncio.run(_torture(settings, directory))
    if report.is_good:
        shutil.rmtree(directory)
        return report
    return msgspec.structs.replace(report, kept_in=directory)


async def _torture(settings: TortureSettings, directory: str) -> Report:
    async with asyncio.timeout(_START_S):
        cluster = await aio.start(f"{directory}/data", name=NAME, layout=settings.layout, leaders=_NODES)
    async with cluster:
        for topic in (SOURCE, TARGET):
            await cluster.admin.create_topic(topic, partitions=settings.partitions)
        contact = await find_cluster(NAME)
        clients = Clients(settings, contact, directory)
        try:
            report = await _hurt_and_judge(settings, directory, contact, cluster, clients)
        finally:
            clients.end_now()
        if not report.is_good:
            _keep(report, directory)
        return report


async def _hurt_and_judge(
    settings: TortureSettings, directory: str, contact: Contact, cluster: AsyncCluster, clients: Clients
) -> Report:
    problems: list[str] = []
    killer = Killer(settings, NAME, contact, clients)
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
        addresses=tuple((node.host, node.port) for node in contact.image.nodes.values()),
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


def _keep(report: Report, directory: str) -> None:
    """Keep what tells how it came about, before Ray ends and takes the logs of the nodes with it."""
    node = ray._private.worker._global_node
    if node is not None:
        shutil.copytree(node.get_logs_dir_path(), f"{directory}/ray-logs", symlinks=True)
    with open(f"{directory}/report.txt", "w") as file:
        file.write(report.text())
    with open(f"{directory}/found.msgpack", "wb") as file:
        file.write(msgspec.msgpack.encode(report.history))
    with open(f"{directory}/faults.json", "wb") as file:
        file.write(msgspec.json.encode(report.faults))
