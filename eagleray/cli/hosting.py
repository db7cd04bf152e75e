"""Running a cluster: from joining Ray to the last process that has ended."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from eagleray import cluster_records as records
from eagleray.actors.cluster.discovery import NoSuchCluster
from eagleray.actors.cluster.discovery import find_cluster as find_quietly
from eagleray.actors.cluster.joining import Progress, say_nothing
from eagleray.actors.cluster.start_cluster import bootstrap_nodes, stop_cluster
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.cli import session
from eagleray.cli.errors import UsageError
from eagleray.cli.hosting_commands import StartRequest, check, listen_at, ports_of
from eagleray.cli.options import Connection
from eagleray.cli.running import run_until_stopped
from eagleray.cli.signals import stop_signals
from eagleray.client.errors import CannotStart
from eagleray.connecting import StartOptions, open_client, start_nodes

_START_S: Final = 180.0
_ASK_S: Final = 5.0
_RETRY_S: Final = 0.5

OnReady = Callable[[str], None]


def host(request: StartRequest, on_ready: OnReady, progress: Progress, *, detach: bool) -> None:
    """Start a cluster; unless it is to run on by itself, keep it until a signal comes, then stop it in good order.

    Once it runs, being asked to stop is how it ends well. Before that, Interrupted is raised, and nothing is left.
    """
    progress("Ray on this machine" if request.connection.address is None else f"on Ray at {request.connection.address}")
    # A signal while Ray starts must not leave half of it behind: it counts once there is something to stop.
    with (
        stop_signals.held(),
        session.joined_ray(request.connection.address) as ray,
        stop_signals.at_once(ray.discard),
    ):
        run_until_stopped(_host(request, on_ready, progress, detach=detach))


async def _host(request: StartRequest, on_ready: OnReady, progress: Progress, *, detach: bool) -> None:
    running = await _find_running(request)
    if running is not None:
        _leave_alone(request)
        on_ready(_bootstrap(running))
        return
    check(request)
    # A start that fails stops what it has started; a cluster that another program has started meanwhile runs on.
    contact = await _start_in_time(request, progress)
    runs_on = False
    try:
        bootstrap = _bootstrap(contact)
        records.save(_record(request, bootstrap, detach=detach))
        on_ready(bootstrap)
        runs_on = detach
        if not detach:
            await _until_cancelled()
    finally:
        if not runs_on:
            await _stop(request)


async def _until_cancelled() -> None:
    """Wait to be asked to stop, which is then done."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def _start_in_time(request: StartRequest, progress: Progress) -> ClusterCredentials:
    try:
        async with asyncio.timeout(request.wait_s + _START_S):
            return await _start(request, progress)
    except TimeoutError:
        raise UsageError(
            f"the cluster has not come up within {request.wait_s + _START_S:g} s; "
            f"`eagleray logs --data-dir {request.data_dir}` shows what its nodes say."
        ) from None


async def _find_running(request: StartRequest) -> ClusterCredentials | None:
    """Find the cluster if it runs already; where that is fine, give Ray the time to start its nodes again.

    A head that remembers its actors starts them when it is back itself.
    """
    longest_s = request.wait_s + _START_S if request.unless_running else _ASK_S
    with suppress(NoSuchCluster, TimeoutError):
        async with asyncio.timeout(longest_s):
            while True:
                with suppress(Unanswered):
                    return await find_quietly(request.connection.name)
                await asyncio.sleep(_RETRY_S)
    return None


def _leave_alone(request: StartRequest) -> None:
    name = request.connection.name
    if not request.unless_running:
        raise UsageError(
            f"a cluster named {name!r} runs already on this Ray cluster; stop it with `eagleray stop --name {name}`, "
            "or choose another --name."
        )


async def _start(request: StartRequest, progress: Progress = say_nothing) -> ClusterCredentials:
    host_name, port = listen_at(request)
    try:
        return await start_nodes(
            StartOptions(
                name=request.connection.name,
                data_dir=request.data_dir,
                layout=request.layout,
                leaders=request.leaders,
                coordinators=request.coordinators,
                lane=session.chosen_lane(),
                config=request.settings,
                host=host_name,
                advertised_host=request.advertise,
                port=port,
                port_range=ports_of(request),
                machines=request.machines,
                without=request.without,
                wait_s=request.wait_s,
                progress=progress,
            )
        )
    except CannotStart as error:
        raise UsageError(error.message) from error


def _bootstrap(credentials: ClusterCredentials) -> str:
    """Where clients bootstrap; a machine that is gone is left out."""
    nodes = credentials.image.nodes
    known = [nodes[node_id] for node_id in bootstrap_nodes(credentials.image.plan.values()) if node_id in nodes]
    return ",".join(node.bootstrap_address for node in known)


def _record(request: StartRequest, bootstrap: str, *, detach: bool) -> records.ClusterRecord:
    keeper_pid = 0 if detach else os.getpid()
    return records.ClusterRecord(
        name=request.connection.name,
        address=session.ray_address(),
        data_dir=request.data_dir,
        bootstrap=bootstrap,
        ray_auth_mode=os.environ.get("RAY_AUTH_MODE", ""),
        keeper_pid=keeper_pid,
        keeper_started=records.started_at(keeper_pid) if keeper_pid else 0,
    )


async def _stop(request: StartRequest) -> None:
    name = request.connection.name
    records.remove(name, session.ray_address())
    try:
        async with asyncio.timeout(_ASK_S):
            image = (await find_quietly(name)).image
    except (NoSuchCluster, TimeoutError, Unanswered):
        image = EMPTY_IMAGE
    await asyncio.to_thread(stop_cluster, name, image)


@asynccontextmanager
async def temporary_cluster(settings: dict[str, str]) -> AsyncIterator[session.Session]:
    """A cluster of its own for a while, whose data go when it goes; Ray has to be joined."""
    name = f"temporary-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="eagleray-data-") as data_dir:
        request = StartRequest(
            connection=Connection(name), listen="127.0.0.1:0", data_dir=data_dir, layout="colocated", settings=settings
        )
        credentials = await _start(request)
        try:
            async with session.clients_of(open_client(name, credentials, session.chosen_lane())) as cluster:
                yield session.Session(name, cluster)
        finally:
            await _stop(request)
